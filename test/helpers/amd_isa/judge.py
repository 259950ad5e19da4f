"""Runs a random kernel's assembly in all orders against NumPy, and mutants of its waits."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product

import numpy as np

import mlir_async_pipe
from helpers.amd_isa.kernels import UNWRITTEN, Kernel, expected, inputs_of, text_of, trip_counts
from helpers.amd_isa.machine import GLOBAL_BASE, Hazard, run_block
from helpers.amd_isa.program import Program, parse
from mlir_async_pipe.bindings import ir, new_context

GUARD_BYTES = 4096
COUNTERS = ("vmcnt", "asynccnt", "tensorcnt")


@dataclass(frozen=True)
class Verdict:
    """What became of a kernel: what was wrong with it (None: nothing), and of its mutants."""

    wrong: str | None
    copies: int
    pipelined: bool
    mutants: int = 0
    without_effect: int = 0
    missed: tuple[str, ...] = ()


def assembly_of(k: Kernel) -> tuple[str, bool, list[int]]:
    """Assembly by the package, whether its loop was pipelined, and the count of each wait."""
    with new_context():
        module = ir.Module.parse(text_of(k))
        report = mlir_async_pipe.pipeline(module, target=f"rocdl:{k.chip}")
        code = mlir_async_pipe.lower(module, target=f"rocdl:{k.chip}", emit="isa")
        return code.text, bool(report.of("loops")), [wait.count for wait in report.of("waits")]


def judge(k: Kernel, *, mutants: bool) -> Verdict:
    """Assemble, run, and run with each wait that the package asked for one weaker."""
    text, pipelined, counts = assembly_of(k)
    program = parse(text)
    wrong, copies, _ = run(k, program)
    if wrong is not None or not mutants:
        return Verdict(wrong, copies, pipelined)
    waves = 1 if k.mover == "wave" else k.waves
    group = copies // (waves * k.outer * max(trip_counts(k)) * k.groups)
    made = list(weakened(program, [count * group for count in counts]))
    without_effect, missed = 0, []
    for place, mutant in made:
        found, _, loosened = run(k, mutant)
        # A masked copy is one branch of two, and the back end counts for the path with the fewest
        # ops: on another path the copy that is left in flight may be a younger one.
        if found is None and (k.masked or not loosened):
            without_effect += 1
        elif found is None:
            missed.append(place)
    return Verdict(None, copies, pipelined, len(made), without_effect, tuple(missed))


def run(k: Kernel, program: Program) -> tuple[str | None, int, int]:
    """What is wrong in some order (None: nothing), the copies that were issued, and how often a
    weakened wait left a copy in flight that the right one completes."""
    copies = loosened = 0
    inputs = inputs_of(k)
    for trips, late, backward in product(trip_counts(k), (True, False), (False, True)):
        memory, arguments, result = memory_of(k, trips)
        wanted = expected(k, trips, *inputs)
        how = f"{trips} iterations, {'late' if late else 'eager'}"
        try:
            outcome = run_block(program, memory, arguments, k.block, late=late, backward=backward)
        except Hazard as hazard:
            return f"{how}: {hazard}", copies, loosened
        copies, loosened = max(copies, outcome.copies), loosened + outcome.loosened
        given = outcome.memory[result : result + 4 * k.length].view(np.uint32)
        if not np.array_equal(given, wanted):
            first = int(np.flatnonzero(given != wanted)[0])
            return f"{how}: B[{first}] is {given[first]}", copies, loosened
    return None, copies, loosened


def memory_of(k: Kernel, trips: int) -> tuple[np.ndarray, int, int]:
    """Global memory with A, C, B and the arguments; the addresses of arguments, the place of B."""
    a, c = (_laid_out(k, array) for array in inputs_of(k))
    arrays = [a, c, np.full(k.length, UNWRITTEN, np.uint32)]
    starts, end = [], 0
    for array in arrays:
        starts.append(end)
        end += -(-array.nbytes // 256) * 256 + GUARD_BYTES
    words: list[int] = []
    columns = k.trips * k.width
    for start, apart in zip(starts, (k.apart, k.apart, False), strict=True):
        shape = [k.length // columns, columns, columns, 1] if apart else [k.length, 1]
        words += [GLOBAL_BASE + start, GLOBAL_BASE + start, 0, *shape]
    words += [trips, k.limit]
    place = end
    memory = np.zeros(end + 8 * len(words) + 256, np.uint8)
    for start, array in zip(starts, arrays, strict=True):
        memory[start : start + array.nbytes] = array.view(np.uint8)
    memory[place : place + 8 * len(words)] = np.array(words, np.uint64).view(np.uint8)
    return memory, GLOBAL_BASE + place, starts[2]


def _laid_out(k: Kernel, array: np.ndarray) -> np.ndarray:
    """An input as it lies in memory: a row a thread holds what it copies, iteration by iteration."""
    if not k.apart:
        return array
    return array.reshape(k.outer, k.trips, k.threads, k.width).swapaxes(1, 2).reshape(-1)


def weakened(program: Program, allowed: list[int]) -> list[tuple[str, Program]]:
    """The program with one of the package's waits one weaker, for each of them.

    `allowed` are the copies of a wave that each wait may leave in flight, by its number.
    """
    found = []
    for number, i in enumerate(program.instructions):
        if i.wait is None:
            continue
        changed = None
        # A wait of the input, in the loop that stays for short trips, leaves none.
        most = allowed[i.wait] if i.wait < len(allowed) else 0
        if i.name == "s_waitcnt" and "vmcnt(" in i.operands[0]:
            before, _, rest = i.operands[0].partition("vmcnt(")
            count, _, after = rest.partition(")")
            changed = replace(
                i, operands=(f"{before}vmcnt({int(count) + 1}){after}",), allowed=most
            )
        elif i.name in ("s_wait_asynccnt", "s_wait_tensorcnt"):
            changed = replace(i, operands=(str(int(i.operands[0], 0) + 1),), allowed=most)
        if changed is not None:
            instructions = list(program.instructions)
            instructions[number] = changed
            found.append((f"line {i.line}", replace(program, instructions=instructions)))
    return found
