"""`launch(module, kernel, arguments, grid, block)`: runs a kernel and leaves results in its arrays.

Arguments are Array (an allocation of its own), At (an address in one) or integers, in the order
of the kernel's `.param`s; a memref is Array, At, offset, sizes, strides as MLIR passes it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from helpers.ptx_machine.faults import PtxFault
from helpers.ptx_machine.machine import Machine
from helpers.ptx_machine.memory import Memory
from helpers.ptx_machine.program import Program
from helpers.ptx_machine.registers import special_registers
from helpers.ptx_machine.syntax import Module

COMPLETIONS = ("late", "eager", "random")


@dataclass(eq=False)
class Array:
    """Global memory of a kernel: `data` (contiguous) is aligned to `align` bytes, no better."""

    data: np.ndarray
    align: int
    read_only: bool = False


@dataclass(frozen=True)
class At:
    """The address of byte `offset` of an array."""

    array: Array
    offset: int = 0


Argument = Array | At | int


def memref(
    array: Array, sizes: Sequence[int], strides: Sequence[int], offset: int = 0
) -> list[Argument]:
    """The arguments that a memref becomes: two pointers, offset, sizes, strides."""
    return [At(array), At(array), offset, *sizes, *strides]


def launch(
    module: Module,
    kernel: str,
    arguments: Sequence[Argument],
    *,
    block: tuple[int, int, int],
    grid: tuple[int, int, int] = (1, 1, 1),
    dynamic_bytes: int = 0,
    completion: str = "late",
    seed: int = 0,
    program: Program | None = None,
    unwritten: int | None = None,
) -> dict[int, bool]:
    """Run a kernel on all threads of all blocks, one block after the other; `unwritten` is `Memory`'s.

    Returns, by line, whether each wait that ran retired a group that a count one larger would
    have left in flight. Raises PtxFault.
    """
    program = program or Program(module, kernel)
    function = program.functions[0]
    if function.block_threads and block[0] * block[1] * block[2] > np.prod(function.block_threads):
        raise PtxFault("bad-program", f"{block} threads, and .maxntid {function.block_threads}")
    memory, rng = Memory(unwritten), np.random.default_rng(seed)
    initial = _place_variables(memory, program)
    placed: dict[int, tuple[Array, int]] = {}
    for argument in arguments:
        array = argument.array if isinstance(argument, At) else argument
        if isinstance(array, Array) and id(array) not in placed:
            name = f"argument {len(placed)}"
            at = memory.place_global(name, array.data.nbytes, array.align, array.read_only)
            placed[id(array)] = (array, at)
    memory.global_.reserve()
    for address, data in initial:
        memory.global_.write_bytes(address, data)
    for array, at in placed.values():
        memory.global_.write_bytes(at, np.frombuffer(array.data.tobytes(), np.uint8))
    given = [_bits(argument, placed) for argument in arguments]
    if len(given) != len(function.parameters):
        raise PtxFault("bad-program", f"{len(given)} arguments for {len(function.parameters)}")
    waits: dict[int, bool] = {}
    for ids in np.ndindex(*grid[::-1]):
        special = special_registers(block, grid, ids[::-1])
        memory.start(len(special["%laneid"]), dynamic_bytes, program.granules)
        machine = Machine(program, memory, special, completion, rng)
        for parameter, value in zip(function.parameters, given, strict=True):
            data = value.to_bytes(8, "little")[: parameter.size]
            machine.parameters[function.name, parameter.name] = np.frombuffer(data, np.uint8)[None]
        machine.run()
        for line, at_stake in machine.copies.waits.items():
            waits[line] = waits.get(line, False) or at_stake
    for array, at in placed.values():
        array.data[...] = (
            memory.global_.read_bytes(at, array.data.nbytes)
            .view(array.data.dtype)
            .reshape(array.data.shape)
        )
    return waits


def _bits(argument: Argument, placed: dict) -> int:
    if isinstance(argument, Array):
        argument = At(argument)
    if isinstance(argument, At):
        return placed[id(argument.array)][1] + argument.offset
    return int(argument) & (2**64 - 1)


def _place_variables(memory: Memory, program: Program) -> list[tuple[int, np.ndarray]]:
    """Place the variables that the kernel reaches; returns addresses and bytes of global ones."""
    initial = []
    own = [(f"{f.name}.{v.name}", v) for f in program.functions for v in f.variables]
    for key, variable in own + [
        (n, v) for n, v in program.module.variables.items() if n in program.symbols
    ]:
        if variable.space == "shared" and variable.external:
            memory.place_dynamic(key, variable.align)
        elif variable.space == "shared":
            memory.place_shared(key, variable.size, variable.align)
        elif variable.space == "local":
            memory.place_local(key, variable.size, variable.align)
        elif variable.space in ("global", "const"):
            read_only = variable.space == "const"
            at = memory.place_global(key, variable.size, variable.align, read_only)
            memory.symbols[key] = at
            initial.append((at, np.frombuffer(variable.data or b"", np.uint8)))
    return initial
