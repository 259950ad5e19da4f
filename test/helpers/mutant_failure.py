"""How a kernel fails on the machine and the second machine, over trip counts, shapes and completions.

Of a block of unknown size only shapes are run that the checker's rule allows: any number of
threads in x, and several in y or z only where the kernel reads that axis (or, if it calls, a
function of its module).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import Any

from helpers import second_machine
from helpers.check_harness import RACES, argument_choices, entry_kernel
from helpers.mutation_kernels import Kernel
from helpers.second_machine import NotJudged
from helpers.two_judges import generic, passed, vendor_of
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import symbol_name
from mlir_async_pipe.checker.kernel import threads_of
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session.diagnostics import AsyncPipeError, MachineError

DIVERGES = "divergent-barrier"
# The longest run first: most mutants show there what they can.
TRIPS = (3, 4, 2, 1, 0)
STEPS = 20_000
Size = tuple[int, int, int]


@dataclass(frozen=True)
class Failure:
    """How a kernel fails, "" if no run shows that it does; `not_judged` is why some run of it
    (all runs, if it does not fail) has no meaning for the machine, "" if all have."""

    how: str = ""
    not_judged: str = ""


def block_of(text: str) -> Size:
    """The threads of a kernel, 4 where it does not say."""
    with new_context():
        module = ir.Module.parse(text)
        return threads_of(entry_kernel(module), None).size or (4, 1, 1)


def failure(text: str, of: Kernel, size: Size, thorough: bool) -> Failure:
    """How a kernel fails. `size` is the block that it was written for."""
    try:
        return _failure(text, of, size, thorough)
    except MachineError as error:
        code = error.diagnostic.code
        return Failure(code if code == "recursion-limit" else "", code)
    except (AsyncPipeError, KeyError, ValueError) as error:
        return Failure(not_judged=f"{type(error).__name__}: {error}")


def _failure(text: str, of: Kernel, size: Size, thorough: bool) -> Failure:
    with new_context():
        module = ir.Module.parse(text)
        kernel = entry_kernel(module)
        known = threads_of(kernel, None).size
        sizes = [known] if known else shapes(size, read_axes(kernel, module))
        chosen = Target.parse(of.target) if of.target else None
        run = partial(machine.run, module, symbol_name(kernel), target=chosen, step_limit=STEPS)
        found = ""
        for block in sizes if thorough else sizes[:1]:
            for arguments in islice(_choices(of, kernel), None if thorough else 2):
                late = run(arguments, threads=block, completion="late")
                if DIVERGES in late.race_codes:
                    found = DIVERGES
                    continue
                if "out-of-bounds" in late.race_codes:
                    continue
                if late.race_codes & RACES:
                    return Failure(", ".join(sorted(late.race_codes & RACES)))
                if thorough and "uninitialised-read" not in late.race_codes:
                    eager = run(arguments, threads=block, completion="eager")
                    if not _same(late, eager):
                        return Failure("result depends on completion")
        if thorough:
            second = _of_second(kernel, text, of, sizes[0])
            return second if second.how else Failure(found, second.not_judged)
        return Failure(found)


_AXIS = (
    r"(?:thread_id|block_dim|global_id)\s+{0}\b|\b(?:tid|ntid|workitem\.id|workgroup\.dim)\.{0}\b"
)


def read_axes(kernel: Any, module: Any) -> str:
    """The axes beside x along which several threads are possible: those that are read."""
    text = str(kernel)
    if "call" in text:
        text = str(module)
    return "".join(axis for axis in "yz" if re.search(_AXIS.format(axis), text))


def shapes(size: Size, axes: str) -> list[Size]:
    """Blocks to run a kernel in whose size is unknown; `axes` are those that it reads.

    (4, 1, 1)          -->   4, 8 and 2 threads in x; with y also (4, 2, 1), (2, 2, 1)
    """
    x, y, z = size[0], size[1] if "y" in axes else 1, size[2] if "z" in axes else 1
    found = [(x, y, z), (2 * x, y, z), (max(1, x // 2), y, z)]
    if "y" in axes:
        found += [(x, 2 * y, z), (max(1, x // 2), 2 * y, z)]
    if "z" in axes:
        found += [(x, y, 2 * z), (1, y, 2 * z)]
    return list(dict.fromkeys(found))


def _same(first: machine.RunResult, second: machine.RunResult) -> bool:
    pairs = zip(first.arrays, second.arrays, strict=True)
    return all(a is None or a.tobytes() == b.tobytes() for a, b in pairs)


def _choices(of: Kernel, kernel: Any) -> Iterator[list[Any]]:
    return argument_choices(kernel, TRIPS) if of.arguments is None else iter([list(of.arguments)])


def _of_second(kernel: Any, text: str, of: Kernel, size: Size) -> Failure:
    lanes = Target.parse(of.target).chip.lanes if of.target else 32
    # It counts the small steps of all threads together.
    limit = 20 * STEPS * size[0] * size[1] * size[2]
    found = ""
    try:
        program = second_machine.Program(generic(text), vendor_of(of.target))
        for arguments in islice(_choices(of, kernel), 2):
            judged = program.run(
                symbol_name(kernel), passed(arguments), threads=size, warp=lanes, step_limit=limit
            )
            if DIVERGES in judged.codes:
                found = f"{DIVERGES} (second machine)"
            elif judged.codes & RACES and "out-of-bounds" not in judged.codes:
                races = ", ".join(sorted(judged.codes & RACES))
                return Failure(f"{races} (second machine)")
    except NotJudged as error:
        return Failure(found, f"second machine: {error}")
    return Failure(found)
