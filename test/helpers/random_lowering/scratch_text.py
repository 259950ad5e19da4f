"""A buffer that is written before the loop and read after it, whatever the loop does.

It shows buffers that overlap: each thread leaves a number at both ends, and another one reads it.
"""

from __future__ import annotations

from helpers.random_lowering.lines import Lines, scratch_elements, scratch_type
from helpers.random_lowering.model import scratch_mask
from helpers.random_lowering.spec import Spec


def scratch_before(spec: Spec, t: str, lines: Lines) -> list[str]:
    """scratch[t] = scratch[size - threads + t] = 3 t + 1, in the bits that the type has."""
    if not spec.scratch:
        return []
    each, kind = spec.scratch_element, scratch_type(spec)
    three, one, mask = (lines.constant(n, "i64") for n in (3, 1, scratch_mask(each)))
    last = lines.constant(scratch_elements(spec) - spec.threads)
    found = [
        f"%s3 = arith.index_cast {t} : index to i64",
        f"%s4 = arith.muli %s3, {three} : i64",
        f"%s5 = arith.addi %s4, {one} : i64",
        f"%s6 = arith.andi %s5, {mask} : i64",
    ]
    convert = "sitofp" if each.is_float else "trunci"
    return [
        *found,
        f"%s7 = arith.{convert} %s6 : i64 to {each.name}",
        f"memref.store %s7, %scratch[{t}] : {kind}",
        f"%s8 = arith.addi {t}, {last} : index",
        f"memref.store %s7, %scratch[%s8] : {kind}",
    ]


def scratch_after(spec: Spec, t: str, block: str, lines: Lines) -> list[str]:
    """E[t] and E[threads + t] of the block are what the opposite thread left."""
    if not spec.scratch:
        return []
    kind, to = scratch_type(spec), f"memref<?x{spec.scratch_element.name}>"
    end, last = lines.constant(scratch_elements(spec) - 1), lines.constant(spec.threads - 1)
    threads, both = lines.constant(spec.threads), lines.constant(2 * spec.threads)
    return [
        "gpu.barrier",
        f"%e0 = arith.subi {last}, {t} : index",
        f"%e1 = memref.load %scratch[%e0] : {kind}",
        f"%e2 = arith.subi {end}, {t} : index",
        f"%e3 = memref.load %scratch[%e2] : {kind}",
        f"%e4 = arith.muli {block}, {both} : index",
        f"%e5 = arith.addi %e4, {t} : index",
        f"memref.store %e1, %E[%e5] : {to}",
        f"%e6 = arith.addi %e5, {threads} : index",
        f"memref.store %e3, %E[%e6] : {to}",
    ]
