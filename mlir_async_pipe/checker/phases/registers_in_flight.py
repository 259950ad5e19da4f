"""Accumulators that products may still be adding to: nothing but a product reads them before the
wait for its group.

    %d = nvgpu.warpgroup.mma … {waitGroup = 1}     %d is of the youngest group, which is in flight
    nvvm.wgmma.wait.group.sync.aligned 0           now it is not

    %s = llvm.insertvalue %d, %all[1]              no read: the part [1] of %s is what %d is

What is loaded from tensor memory is there after the wait for all loads.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import field

from mlir_async_pipe.checker.phase_faults import PhaseFault
from mlir_async_pipe.checker.step_graph import Flow, Run
from mlir_async_pipe.checker.type_kinds import REGISTERS
from mlir_async_pipe.session.light_dataclass import dataclass
from mlir_async_pipe.vocabulary import given_count, row_of
from mlir_async_pipe.vocabulary.products import INSERTED, PARTS, products_left
from mlir_async_pipe.vocabulary.queues import WGMMA
from mlir_async_pipe.vocabulary.tensor_memory import is_loaded, tensor_use, waits_for

OPEN = -1
# Where in a struct of accumulators one is; () is all of it.
Position = tuple[int, ...]
Part = tuple[int, Position]


@dataclass
class Registers:
    """By value number and part the age of the group that fills it (`OPEN`: it is in no group yet), and
    the product; None of those that are complete. `loading` are loads from tensor memory by the value that
    they fill."""

    filled: dict[Part, tuple[int, int]] = field(default_factory=dict)
    loading: dict[int, int] = field(default_factory=dict)

    @staticmethod
    def kept(flow: Flow) -> set[int]:
        """The values that may be accumulators."""
        return {
            number
            for number, (_, value) in enumerate(flow.values)
            if hasattr(value, "type") and str(value.type).startswith(REGISTERS)
        }

    @staticmethod
    def plan(run: Run, number: Callable[[Run], int]) -> Callable[[Registers], None] | None:
        """What an op does to accumulators; None: nothing."""
        row = row_of(run.op)
        if tensor_use(run.op) == "load":
            own = number(run)
            return lambda registers: registers.loading.update(dict.fromkeys(run.results, own))
        if waits_for(run.op) == "load":
            return lambda registers: registers.loading.clear()
        if row is None or row.queue != WGMMA:
            if run.op.name in PARTS and str(run.op.results[0].type).startswith(REGISTERS):
                at = tuple(int(index) for index in run.op.attributes["position"])
                (result,) = run.results
                if run.op.name == INSERTED:
                    return lambda registers: registers.insert(result, run.operands, at)
                return lambda registers: registers.extract(result, run.operands[0], at)
            held = [
                n
                for n, operand in zip(run.operands, run.op.operands, strict=True)
                if str(operand.type).startswith(REGISTERS) or is_loaded(operand)
            ]
            own = number(run) if held else -1
            return (lambda registers: registers.check(held, own)) if held else None
        left = products_left(run.op)
        if row.descriptors:
            own = number(run)
            return lambda registers: registers.multiply(run.results, own, left)
        if row.commits:
            return lambda registers: registers.commit()
        if row.wait is not None:
            count = given_count(run.op) or 0
            return lambda registers: registers.wait(count)
        return None

    def copy(self) -> Registers:
        """The same, to be changed on its own."""
        return Registers(dict(self.filled), dict(self.loading))

    def key(self) -> Hashable:
        """What is equal for the same registers."""
        return frozenset(self.filled.items()), frozenset(self.loading.items())

    def assign(self, assigns: list[tuple[int, int]]) -> None:
        """Values are handed on."""
        for target, parts in [(target, self._parts(source)) for target, source in assigns]:
            self._fill(target, parts)

    def insert(self, result: int, operands: tuple[int, ...], at: Position) -> None:
        """A struct with another part."""
        whole, part = (self._parts(operand) for operand in operands)
        kept = {p: filled for p, filled in whole.items() if p[: len(at)] != at}
        self._fill(result, kept | {at + p: filled for p, filled in part.items()})

    def extract(self, result: int, whole: int, at: Position) -> None:
        """A part of a struct."""
        parts = self._parts(whole).items()
        self._fill(result, {p[len(at) :]: f for p, f in parts if p[: len(at)] == at[: len(p)]})

    def _parts(self, value: int) -> dict[Position, tuple[int, int]]:
        return {p: filled for (number, p), filled in self.filled.items() if number == value}

    def _fill(self, value: int, parts: dict[Position, tuple[int, int]]) -> None:
        for position in self._parts(value):
            del self.filled[value, position]
        self.filled |= {(value, position): filled for position, filled in parts.items()}

    def multiply(self, results: tuple[int, ...], op: int, left: int | None) -> None:
        """A product fills its result; with `left` it commits and waits by itself."""
        for result in results:
            self._fill(result, {(): (OPEN, op)})
        if left is not None:
            self.commit()
            self.wait(left)

    def commit(self) -> None:
        """All groups are one older."""
        self.filled = {n: (age + 1, op) for n, (age, op) in self.filled.items()}

    def wait(self, left: int) -> None:
        """Groups older than the `left` youngest ones are complete."""
        self.filled = {n: (age, op) for n, (age, op) in self.filled.items() if age < left}

    def check(self, values: list[int], op: int) -> None:
        """An op reads values."""
        for value in values:
            if value in self.loading:
                raise PhaseFault(
                    "read-in-flight",
                    op,
                    self.loading[value],
                    "its registers are there after 'nvvm.tcgen05.wait <load>'",
                )
            for age, product in sorted(self._parts(value).values())[:1]:
                raise PhaseFault(
                    "read-in-flight",
                    op,
                    product,
                    "it adds to these registers until its group is waited for: "
                    f"count {max(age, 0)} would do",
                )
