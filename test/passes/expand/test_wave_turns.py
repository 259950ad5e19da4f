"""Two groups of waves of AMD that take memory and products in turn: proven, right on the machine, and no wait is too strict.

Covers: pipeliner/expand/wave_turns.py, checker/commit_groups.py, vocabulary/barriers.py
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.check_harness import check_module
from helpers.gemm_kernels import EXAMPLES, operands
from helpers.rocdl_kernels import lowered
from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import operations, set_integer, walk
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import accesses, given_count, row_of
from mlir_async_pipe.vocabulary.products import is_product

sys.path.insert(0, str(EXAMPLES))
from generate_gemm import Gemm

GFX950 = "rocdl:gfx950"
needs_flydsl = pytest.mark.skipif(
    not any(stack.name == "flydsl" for stack in bindings.installed()),
    reason="no AMDGPU back end: pip install flydsl",
)
# The trips of the kernel's loop, and those of the epilogue.
TRIPS = 5


def gemm(chip: str = "gfx950", stages: int = 3, **options: Any) -> Gemm:
    """Eight waves, each with 64 rows and 32 columns of a tile of 128 x 128."""
    given = {"warps": (2, 4), "roles": "ping-pong", **options}
    return Gemm(chip=chip, stages=stages, **given)


@functools.cache
def pipelined_text(chip: str, stages: int) -> str:
    with new_context():
        module = ir.Module.parse(gemm(chip, stages).module())
        mlir_async_pipe.pipeline(module, f"rocdl:{chip}")
        return str(module)


def kernel_loop(module: Any) -> Any:
    """The loop in which waves take turns: the one with barriers that count them."""
    return next(
        op
        for op in walk(module)
        if op.name == "scf.for"
        and any(one.name == "rocdl.s.barrier" for one in operations(op.regions[0].blocks[0]))
    )


def parts(loop: Any) -> list[str]:
    """What stands between the barriers of a loop: C copies, R reads, P products, W a wait."""
    found = [""]
    for op in operations(loop.regions[0].blocks[0]):
        row = row_of(op)
        if row.barrier is not None:
            found.append("")
        elif row.wait is not None:
            found[-1] += "W"
        elif row.asynchronous(op):
            found[-1] += "C"
        elif is_product(op):
            found[-1] += "P"
        elif accesses(op):
            found[-1] += "R"
    return found


def run(
    text: str, completion: str, seed: int = 0, chip: str = "gfx950", schedule: str = "forward"
) -> Any:
    """The races of a product of five tiles along k, and whether it is right."""
    arguments, product = operands((128, 128, 32 * TRIPS), "f16")
    with new_context():
        result = machine.run(
            ir.Module.parse(text),
            "gemm",
            arguments,
            threads=512,
            warp=64,
            completion=completion,
            seed=seed,
            schedule=schedule,
        )
    return result.races, bool(np.array_equal(result.arrays[2], product))


@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
@pytest.mark.parametrize("stages", [2, 3, 4])
def test_halves_of_copies_reads_and_products_alternate_and_are_proven(
    chip: str, stages: int
) -> None:
    """Copies of two stages are waited for in the iteration that issues them, so all come first."""
    with new_context():
        module = ir.Module.parse(pipelined_text(chip, stages))
        found = parts(kernel_loop(module))
        copies = sum(part.count("C") for part in found)
        checked = check_module(module, f"rocdl:{chip}")
    memory, first, more, second, rest = found
    assert set(first) == set(second) == {"P"}
    assert (len(first), rest) == (len(second), "")
    assert memory.count("C") == (copies if stages == 2 else copies // 2)
    assert more == "C" * (0 if stages == 2 else copies - copies // 2) + "R" * more.count("R") + "W"
    assert not (checked.unsafe or checked.unknown)


@pytest.mark.parametrize(
    ("completion", "seed", "schedule"),
    [
        ("late", 0, "forward"),
        ("eager", 0, "backward"),
        ("random", 1, "random"),
        ("random", 2, "random"),
    ],
)
@pytest.mark.parametrize("stages", [2, 3])
def test_the_product_is_right_whenever_copies_complete(
    stages: int, completion: str, seed: int, schedule: str
) -> None:
    races, right = run(pipelined_text("gfx950", stages), completion, seed, schedule=schedule)
    assert right
    assert not races


def waits_of(module: Any) -> list[Any]:
    return [
        op for op in walk(module) if row_of(op).wait is not None and given_count(op) is not None
    ]


# Before the loop, in it, and the one of the epilogue that the loop has not waited for.
@pytest.mark.parametrize("number", range(3))
def test_a_wait_that_leaves_one_group_more_is_wrong(number: int) -> None:
    with new_context():
        module = ir.Module.parse(pipelined_text("gfx950", 3))
        waits = waits_of(module)
        # The last one is that of the version for few iterations.
        assert len(waits) == 4
        rule = row_of(waits[number]).wait
        set_integer(waits[number], rule.count, given_count(waits[number]) + 1, rule.count_bits)
        checked = check_module(module, GFX950)
        text = str(module)
    assert checked.unsafe
    races, _ = run(text, "late")
    assert races


# Between a wait and the first read, and between a read and the copy to its slot, both of the last two are needed; the
# first two only keep the products of the groups apart.
@pytest.mark.parametrize(("number", "is_needed"), [(0, False), (1, False), (2, True), (3, True)])
def test_two_barriers_lie_between_a_wait_and_a_read(number: int, is_needed: bool) -> None:
    with new_context():
        module = ir.Module.parse(pipelined_text("gfx950", 2))
        ops = operations(kernel_loop(module).regions[0].blocks[0])
        [op for op in ops if op.name == "rocdl.s.barrier"][number].erase()
        checked = check_module(module, GFX950)
        text = str(module)
    assert bool(checked.unsafe) == is_needed
    assert not checked.unknown
    races, _ = run(text, "late")
    assert bool(races) == is_needed


@pytest.mark.parametrize("which", [0, 1])
def test_turns_that_do_not_begin_or_end_are_not_proven(which: int) -> None:
    with new_context():
        module = ir.Module.parse(pipelined_text("gfx950", 3))
        lone = [op for op in walk(module) if op.name == "scf.if" and not len(op.results)]
        lone[which].erase()
        checked = check_module(module, GFX950)
    assert checked.unsafe or checked.unknown


REFUSED = {
    "half as many waves": (gemm(warps=(2, 2)), "rocdl:gfx950", "8 waves of 64 threads along x"),
    "loads ahead into registers": (gemm(staging="registers"), GFX950, "'vector.store' is neither"),
    "another way to copy": (gemm("gfx1250"), "rocdl:gfx1250", "gfx1250 has no such copies"),
    "another vendor": (gemm(), "nvvm:sm_80", "do not complete on mbarriers"),
}


STORE = "vector.store %part, %C[%m, %n] : memref<?x?xf32>, vector<4xf32>"
PART = "%part = vector.extract_strided_slice %sum_0 {offsets = [0], sizes = [4], strides = [1]} : vector<16xf32> to vector<4xf32>"
CHANGED = {
    "a store in the loop": (
        ("scf.yield", f"{PART}\n{STORE}\nscf.yield"),
        "orders more than workgroup memory",
    ),
    "a hint in the loop": (
        ("scf.yield", "rocdl.s.setprio 2\nscf.yield"),
        "'rocdl.s.setprio' is neither",
    ),
    "copies after the reads": (
        ("async_pipe.roles", 'async_pipe.issue = "last", async_pipe.roles'),
        "comes after what reads workgroup memory",
    ),
}


@pytest.mark.parametrize("name", CHANGED)
def test_what_has_no_place_in_turns_is_refused(name: str) -> None:
    change, why = CHANGED[name]
    text = gemm().module().replace(*change, 1)
    with new_context(), pytest.raises(PipelineError, match=why) as refused:
        mlir_async_pipe.pipeline(ir.Module.parse(text), GFX950)
    assert refused.value.code == "roles-unsupported"


@pytest.mark.parametrize("name", REFUSED)
def test_what_has_no_two_groups_is_refused(name: str) -> None:
    kernel, target, why = REFUSED[name]
    with new_context(), pytest.raises(PipelineError, match=why) as refused:
        mlir_async_pipe.pipeline(ir.Module.parse(kernel.module()), target)
    assert refused.value.code == "roles-unsupported"
    assert refused.value.diagnostic.place.line > 1


@pytest.mark.slow
@pytest.mark.parametrize("completion", ["late", "eager"])
@pytest.mark.parametrize("chip", ["gfx942", "gfx950"])
def test_it_is_still_right_lowered_to_the_chip(chip: str, completion: str) -> None:
    with new_context():
        module = ir.Module.parse(pipelined_text(chip, 3))
        lowered(module, chip)
        text = str(module)
    races, right = run(text, completion)
    assert right
    assert not races


@needs_flydsl
@pytest.mark.slow
def test_instructions_stand_where_the_parts_do() -> None:
    """A tile is two copies a lane: the wait leaves those of one tile in flight, nothing is spilt, and no lane is masked."""
    with new_context():
        module = ir.Module.parse(pipelined_text("gfx950", 3))
        code = mlir_async_pipe.lower(module, target=GFX950, emit="isa")
    (kernel,) = code.kernels
    counts = kernel.loop_counts()
    loop = max(counts)
    assert counts[loop] == (2,)
    assert not kernel.vector_spills
    lines = [line.split(";")[0].strip() for line in code.text.splitlines()]
    end = next(n for n, line in enumerate(lines) if n > loop and line.startswith("s_cbranch"))
    kinds = {
        "s_barrier": "|",
        "global_load_lds": "C",
        "ds_read": "R",
        "v_mfma": "P",
        "s_setprio": "p",
    }
    order = "".join(
        sign for line in lines[loop:end] for name, sign in kinds.items() if line.startswith(name)
    )
    assert order == "CRRR|pPPp|CRRR|pPPp|"
