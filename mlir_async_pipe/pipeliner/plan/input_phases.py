"""Whether the waits of a loop of tensor copies ask for the phases of its copies, and of its products in
tensor memory, before the pipeline's take their place.

    scf.for … iter_args(%phase = %false) {          tile t on one mbarrier: parity t mod 2, with t
      try_wait.parity %full[%c0], %phase            counted since the initialisation
      scf.yield %phase xor 1
    }

A kernel whose waits ask for other phases reads tiles that are not there yet, or hangs. Pipelined it
would do what it never did, so it is refused. What is no sum modulo 2 of a carried value is not decided.
"""

from __future__ import annotations

from typing import NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    defining_op,
    is_block_argument,
    operations,
    terminator,
)
from mlir_async_pipe.facts.loops.annotations import static_trip_count
from mlir_async_pipe.facts.loops.transactions import Completion, Transaction, operand
from mlir_async_pipe.facts.values.integer_ops import integer_constant
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary.operator_table import OPERATORS


class Parity(NamedTuple):
    """The lowest bit of a number: that of `root` (None: 0), or the other one if `flipped` is 1."""

    root: Value | None
    flipped: int

    def same(self, other: Parity) -> bool:
        """Values cannot be compared with None."""
        if self.root is None or other.root is None:
            return self.root is other.root and self.flipped == other.flipped
        return self.root == other.root and self.flipped == other.flipped


def undecided_phases(
    loop: Operation,
    transactions: tuple[Transaction, ...],
    completions: tuple[Completion, ...],
    outer: tuple[Operation, ...],
    sharing: tuple[Operation, ...] = (),
) -> tuple[Operation, ...]:
    """The waits whose phases are not decided here; `outer` are the ops between mbarriers and loop,
    `sharing` the other loops on the same mbarriers.

    Raises PipelineError (input-phase) for one that is wrong."""
    waits = [*(t.wait for t in transactions), *(c.wait for c in completions)]
    return tuple(wait for wait in waits if not _is_right(loop, wait, outer, sharing))


def _is_right(
    loop: Operation, wait: Operation, outer: tuple[Operation, ...], sharing: tuple[Operation, ...]
) -> bool:
    """Whether a wait asks for the phase of its tile; False if that is not known."""
    phase = operand(wait, "phase")
    assert phase is not None
    asked = _parity(phase)
    if asked.root is None:
        _refuse_constant(loop, wait, asked.flipped)
        return not outer and not sharing
    number = _carried_by(loop, asked.root)
    if number is None:
        return False
    next_ = _parity(terminator(loop.regions[0].blocks[0]).operands[number])
    if next_.root is None or next_.root != asked.root:
        return False
    trips = static_trip_count(loop)
    if not next_.flipped and (trips is None or trips > 1):
        raise _wrong(wait, "it is the same in each iteration", loop)
    if any(other.block != loop.block for other in sharing):
        return False
    beside = _through_others(loop, wait, number, sharing)
    if beside is None:
        return False
    current, start = beside
    together = (loop, *sharing)
    for above in reversed(outer):
        if above.name == "scf.if":
            found = _through_branch(above, current, start)
        else:
            found = _through_loop(together, wait, above, current, start)
        if found is None:
            return False
        current, start = found
    if start.root is not None:
        return False
    if start.flipped ^ asked.flipped:
        raise _wrong(wait, "that of the first tile has parity 0, and it asks for 1", loop)
    return True


def _refuse_constant(loop: Operation, wait: Operation, phase: int) -> None:
    trips = static_trip_count(loop)
    if phase:
        raise _wrong(wait, "that of the first tile has parity 0, and it asks for 1", loop)
    if trips is None or trips > 1:
        raise _wrong(wait, "it is the same in each iteration", loop)


def _through_others(
    loop: Operation, wait: Operation, number: int, sharing: tuple[Operation, ...]
) -> tuple[Value, Parity] | None:
    """What the last of the loops in a row leaves of the phase, and with what the first one starts."""
    start, current = _parity(loop.operands[3 + number]), loop.results[number]
    order = operations(loop.block)
    place = order.index(loop)
    for other in reversed([op for op in order[:place] if op in sharing]):
        if start.root is None:
            trips = static_trip_count(other)
            if trips is None or trips % 2:
                raise _wrong(wait, "it starts again after another loop on its mbarrier", other)
            continue
        at = next((n for n, result in enumerate(other.results) if result == start.root), None)
        if at is None or not _flips(other, at):
            return None
        first = _parity(other.operands[3 + at])
        start = Parity(first.root, first.flipped ^ start.flipped)
    for other in [op for op in order[place:] if op in sharing]:
        for at, value in enumerate(list(other.operands)[3:]):
            if _parity(value).same(Parity(current, 0)) and _flips(other, at):
                current = other.results[at]
                break
    return current, start


def _flips(loop: Operation, number: int) -> bool:
    """Whether each iteration forwards the other parity of a value that the loop carries."""
    block = loop.regions[0].blocks[0]
    own: Value = block.arguments[number + 1]
    return _parity(terminator(block).operands[number]).same(Parity(own, 1))


def _through_branch(
    branch: Operation, current: Value, start: Parity
) -> tuple[Value, Parity] | None:
    """The result of an scf.if that forwards what the loop leaves, and what it had where it does not
    run."""
    if start.root is None:
        return current, start
    blocks = [region.blocks[0] for region in branch.regions if len(list(region.blocks))]
    if len(blocks) != 2:
        return None
    yielded = [[_parity(v) for v in terminator(block).operands] for block in blocks]
    for result, pair in zip(branch.results, zip(*yielded, strict=True), strict=True):
        if any(each.same(Parity(current, 0)) for each in pair) and any(map(start.same, pair)):
            return result, start
    return None


def _through_loop(
    together: tuple[Operation, ...],
    wait: Operation,
    above: Operation,
    current: Value,
    start: Parity,
) -> tuple[Value, Parity] | None:
    """The result of a loop around that carries the phase, and with what it starts; `together`: the
    loops in it on the same mbarriers."""
    if start.root is None:
        trips = [static_trip_count(loop) for loop in together]
        if None in trips or sum(count or 0 for count in trips) % 2:
            raise _wrong(wait, "it starts again with each iteration of the loop around it", above)
        return current, start
    number = _carried_by(above, start.root)
    if number is None:
        return None
    if not _parity(terminator(above.regions[0].blocks[0]).operands[number]).same(
        Parity(current, 0)
    ):
        return None
    first = _parity(above.operands[3 + number])
    return above.results[number], Parity(first.root, first.flipped ^ start.flipped)


def _carried_by(loop: Operation, value: Value) -> int | None:
    """The number of a value among those that a loop carries, None if it is none of them."""
    if not is_block_argument(value) or loop.name != "scf.for":
        return None
    argument = ir.BlockArgument(value)
    if argument.owner != loop.regions[0].blocks[0] or argument.arg_number == 0:
        return None
    return int(argument.arg_number) - 1


def _parity(value: Value) -> Parity:
    """The lowest bit of an integer."""
    known = integer_constant(value)
    if known is not None:
        return Parity(None, known & 1)
    op = defining_op(value)
    row = None if op is None else OPERATORS.get(op.name)
    if op is None or row is None:
        return Parity(value, 0)
    if row.method == "cast":
        return _parity(op.operands[0])
    if row.method in ("xor", "add", "sub"):
        a, b = (_parity(source) for source in op.operands)
        if a.root is None or b.root is None:
            return Parity(a.root if b.root is None else b.root, a.flipped ^ b.flipped)
    if row.method in ("and_", "rem"):
        mask = integer_constant(op.operands[1])
        if mask is not None and mask % 2 == (row.method == "and_"):
            return _parity(op.operands[0])
    return Parity(value, 0)


def _wrong(wait: Operation, why: str, at: Operation) -> PipelineError:
    return PipelineError(
        f"cannot pipeline: '{wait.name}' does not wait for the phase of its tile: {why}",
        code="input-phase",
        at=wait,
        notes=(("the loop", at),),
        advice="tile t since the initialisation has parity t mod 2: carry the phase, through loops "
        "around too, and flip it in each iteration",
    )
