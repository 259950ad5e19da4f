"""A second machine: judges kernels beside the package's own, and shares nothing with it.

It reads the generic text of a module (`mlir-opt --mlir-print-op-generic`), runs every thread on
its own from barrier to barrier, and finds races by vector clocks. Written from the semantics of
PTX cp.async, AMD's asynchronous operations and TVM's RFC 0077; it imports the standard library
only. What it has no meaning for raises NotJudged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from helpers.second_machine import (
    async_operations,
    control_flow,
    memory,
    memory_operations,
    plain_operations,
    pointer_operations,
)
from helpers.second_machine import numbers_of_types as types
from helpers.second_machine.happens_before import Finding
from helpers.second_machine.machine import Block, Frame, Thread, World, run_together
from helpers.second_machine.memory import Buffer, Pointer, row_major
from helpers.second_machine.memory_order import ACCESSES, PLAIN, order_of
from helpers.second_machine.syntax import NotJudged, Operation, Region, parse

__all__ = ["Finding", "Judgement", "NotJudged", "Program", "judge"]

OPERATIONS = {
    **plain_operations.OPERATIONS,
    **memory_operations.OPERATIONS,
    **async_operations.OPERATIONS,
    **pointer_operations.OPERATIONS,
}
RACES = frozenset(
    "read-in-flight overwrite-in-flight source-overwritten atomic-in-flight not-visible "
    "missing-barrier cross-block".split()
)


@dataclass(frozen=True)
class Judgement:
    """The bytes of each array argument after the run (None for numbers), and what is wrong."""

    arrays: tuple[bytes | None, ...]
    findings: tuple[Finding, ...]

    @property
    def races(self) -> frozenset[Finding]:
        """The findings that are races."""
        return frozenset(f for f in self.findings if f.code in RACES)

    @property
    def codes(self) -> frozenset[str]:
        """All codes."""
        return frozenset(f.code for f in self.findings)


def judge(text: str, function: str, arguments: Sequence[Any], **options: Any) -> Judgement:
    """Run `function` of a module given as generic text; see Program.run."""
    vendor = options.pop("vendor", None)
    return Program(text, vendor).run(function, arguments, **options)


class Program:
    """A module, whose functions are compiled when they are first called."""

    def __init__(self, text: str, vendor: str | None = None) -> None:
        self.vendor = vendor
        self.dynamic_shared_bytes = 0
        self._symbols: dict[str, Operation] = {}
        self._functions: dict[str, tuple] = {}
        self._sizes = {8}
        self.has_flags = False
        for op in parse(text):
            self._find(op)

    def _find(self, op: Operation) -> None:
        if "sym_name" in op.attributes and op.name != "gpu.module":
            self._symbols[op.attributes["sym_name"].strip('"')] = op
        self.has_flags = self.has_flags or order_of(op) != PLAIN
        for kind in (*op.operand_types, *op.result_types):
            self._see(kind)
            if op.name in ACCESSES and kind.startswith(("i", "f")):
                self._sizes.add(types.element(kind).size)
        for region in op.regions:
            self._find_in(region)

    def _find_in(self, region: Region) -> None:
        for block in region.blocks:
            for _, kind in block.arguments:
                self._see(kind)
            for op in block.operations:
                self._find(op)

    def _see(self, kind: str) -> None:
        if kind.startswith("memref<"):
            self._sizes.add(types.memory(kind).element.size)

    def plain(self, writer: control_flow.Writer, op: Operation) -> None:
        """Write one operation without regions."""
        build = OPERATIONS.get(op.name)
        if build is not None:
            build(writer, op)
        elif not plain_operations.numbers(writer, op):
            raise NotJudged(op.name)

    def function(self, name: str) -> tuple:
        """The compiled function: instructions, number of registers, argument registers."""
        if name not in self._functions:
            op = self._symbols.get(name)
            if op is None or not op.regions or not op.regions[0].blocks:
                raise NotJudged(f"no body of @{name}")
            self._functions[name] = control_flow.function(self, op)
        return self._functions[name]

    def global_has_values(self, name: str) -> bool:
        """Whether a global starts with anything but zeros."""
        op = self._symbols[name.lstrip("@").strip('"')]
        return op.attributes.get("initial_value", "unit") != "unit"

    def shared(self, thread: Thread, key: tuple, size: int) -> Buffer:
        """Workgroup memory that the threads of a block share."""
        found = thread.block.shared
        if key not in found:
            found[key] = Buffer(bytearray(size), "workgroup", set())
        return found[key]

    def run(
        self,
        function: str,
        arguments: Sequence[Any],
        *,
        threads: tuple[int, int, int] = (1, 1, 1),
        grid: tuple[int, int, int] = (1, 1, 1),
        completion: str = "late",
        seed: int = 0,
        order: str = "forward",
        warp: int = 32,
        step_limit: int = 2_000_000,
    ) -> Judgement:
        """Run on all threads: `arguments` are the bytes of arrays, and numbers."""
        op = self._symbols[function]
        code, size, places = self.function(function)
        self.dynamic_shared_bytes = op.integer("async_pipe.dynamic_shared_bytes", 48 * 1024)
        kinds = [kind for _, kind in op.regions[0].blocks[0].arguments]
        shared = op.integer("workgroup_attributions", 0)
        world = World(completion, seed, step_limit, min(self._sizes), self.has_flags)
        given = [_argument(kind, value) for kind, value in zip(kinds, arguments, strict=False)]

        def start(thread: Thread) -> Frame:
            registers: list[Any] = [None] * size
            values = list(given)
            for number, kind in enumerate(kinds[len(given) :]):
                bytes_ = memory.size_in_bytes(types.memory(kind), [])
                if number < shared:
                    buffer = self.shared(thread, ("attribution", number), bytes_)
                else:
                    buffer = Buffer(bytearray(bytes_), "private", set())
                values.append(memory.view_of(types.memory(kind), buffer, []))
            for place, value in zip(places, values, strict=True):
                registers[place] = value
            return Frame(code, registers)

        blocks = [
            Block(world, number, threads, warp, grid)
            for number in range(grid[0] * grid[1] * grid[2])
        ]
        for group in [blocks] if self.has_flags else [[block] for block in blocks]:
            run_together(world, group, start, order)
        arrays = tuple(
            bytes(v.buffer.data) if isinstance(v, memory.View | Pointer) else None for v in given
        )
        return Judgement(arrays, tuple(world.shadow.findings))


def _argument(kind: str, value: Any) -> Any:
    if kind.startswith("!llvm.ptr"):
        return Pointer(Buffer(bytearray(value[0]), "global"), 0)
    if not kind.startswith("memref<"):
        return types.element(kind).settle(value)
    found = types.memory(kind)
    data, shape = value
    buffer = Buffer(bytearray(data), found.space)
    strides = found.strides
    if strides is None:
        return memory.View(buffer, 0, 0, shape, row_major(shape), found.element)
    raise NotJudged(f"an argument of type {kind}")
