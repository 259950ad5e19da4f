"""Where the mbarriers of a loop are made and initialised, what stands between that and the loop, and whether
the loop waits for the phases of its tiles.

%full = nvgpu.mbarrier.create                              the group: V mbarriers for each
nvgpu.mbarrier.init %full[%c0], %c1, predicate = %leader
gpu.barrier
scf.for %tile = … {                                        carries slot and phase through
  scf.for %k = … { expect, copy, wait, use }
}
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestor_in_block,
    ancestors,
    defining_op,
    is_block_argument,
    operations,
    parent,
    terminator,
    users,
    walk,
)
from mlir_async_pipe.facts.loops.annotations import static_trip_count
from mlir_async_pipe.facts.loops.transactions import (
    Completion,
    Transaction,
    handle_of,
    operand,
    operand_constant,
)
from mlir_async_pipe.facts.values.integer_ops import integer_constant
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.vocabulary import is_barrier, shows_writes, use_of
from mlir_async_pipe.vocabulary.mbarrier_ops import number_of_mbarriers
from mlir_async_pipe.vocabulary.operator_table import OPERATORS


@dataclass(frozen=True)
class MbarrierSetup:
    """The group `create` makes, with `count` mbarriers, and the ops that initialise them.

    `last_init` is the op after which all are initialised, in the block that leads to the loop;
    `fenced`: a fence for copies follows it already; `meeting` is the barrier of the block that
    does. `sharing`: other loops of tensor copies on the group."""

    create: Operation
    count: int
    inits: tuple[Operation, ...]
    last_init: Operation
    fenced: bool
    meeting: Operation | None
    sharing: tuple[Operation, ...]


def mbarrier_setups(
    loop: Operation, phases: list[Transaction | Completion], beside: tuple[Operation, ...]
) -> tuple[tuple[MbarrierSetup, ...], tuple[Operation, ...]]:
    """The setup of each group, and the ops between them and the loop, outermost first. `phases` begin with a
    transaction, `beside` are the other loops of tensor copies.

    Raises PipelineError (transaction-incomplete, mbarrier-shared, phase-not-carried)."""
    groups = dict.fromkeys(phase.barriers for phase in phases)
    setups = []
    for group in groups:
        numbers = [phase.number for phase in phases if phase.barriers == group]
        create = defining_op(group)
        if create is None or use_of(create) != "handle" or len(create.operands):
            raise PipelineError(
                "cannot pipeline: the mbarriers of these copies are not made in this function",
                code="transaction-incomplete",
                at=phases[0].ops[0],
                advice="make them with nvgpu.mbarrier.create, and initialise them there",
            )
        parts = {op for phase in phases for op in phase.ops}
        setups.append(_setup(loop, create, numbers, parts, beside))
    outer = [_between(loop, setup) for setup in setups]
    if any(len(chain) != len(outer[0]) for chain in outer):
        raise shared(setups[0].create, setups[-1].create, "another group is made elsewhere")
    return tuple(setups), outer[0]


def _setup(
    loop: Operation,
    create: Operation,
    numbers: list[int],
    parts: set[Operation],
    beside: tuple[Operation, ...],
) -> MbarrierSetup:
    parts |= {handle for op in list(parts) if (handle := handle_of(op)) is not None}
    using = {op for op in users(create.results[0]) if op not in parts}
    above = {op: list(ancestors(op)) for op in using} if beside else {}
    holders = set[Operation]().union(*above.values())
    sharing = tuple(other for other in beside if other in holders)
    theirs = set(sharing)
    using = {op for op in using if not theirs or theirs.isdisjoint(above[op])}
    block = create.block
    order = operations(block)
    # In textual order, in which uses are not: fences follow the last one.
    inits = [op for top in order for op in walk(top) if op in using]
    other = next((op for op in inits if use_of(op) != "init"), None)
    if other is not None:
        raise shared(create, other, f"'{other.name}' uses them too")
    # The numbers of the mbarriers that are initialised with one arrival; -1 if that is not known.
    known = [(operand_constant(op, "arrivals"), operand_constant(op, "index")) for op in inits]
    found = [number if count == 1 and number is not None else -1 for count, number in known]
    if sharing and set(numbers) < set(found):
        raise shared(create, sharing[0], "another loop uses others of their group")
    if sorted(found) != sorted(numbers):
        raise PipelineError(
            "cannot pipeline: not each mbarrier of the loop is initialised once, with one arrival",
            code="transaction-incomplete",
            at=create,
            notes=tuple(("an initialisation", op) for op in inits),
            advice="nvgpu.mbarrier.init by one thread, with count 1 and a constant number: "
            "arrive.expect_tx is the one arrival",
        )
    tops = [top for init in inits if (top := ancestor_in_block(init, block))]
    last = max(tops, key=order.index)
    start = ancestor_in_block(loop, block)
    if start is None or order.index(start) < order.index(last):
        raise shared(create, last, "they are initialised where the loop may not have been yet")
    between = order[order.index(last) + 1 : order.index(start)]
    meets = [n for n, op in enumerate(between) if is_barrier(op)]
    count = number_of_mbarriers(create.results[0].type)
    fenced = any(map(shows_writes, between[: meets[0] if meets else None]))
    meeting = between[meets[0]] if meets else None
    return MbarrierSetup(create, count, tuple(inits), last, fenced, meeting, sharing)


def _between(loop: Operation, setup: MbarrierSetup) -> tuple[Operation, ...]:
    chain: list[Operation] = []
    for above in ancestors(loop):
        if above == parent(setup.create):
            return tuple(reversed(chain))
        if above.name != "scf.for" and above.name != "scf.if":
            break
        chain.append(above)
    why = f"cannot pipeline: slot and phase cannot be carried through this '{above.name}'"
    advice = "let nothing but scf.for and scf.if stand between the mbarriers and the loop"
    notes = (("the loop", loop), ("its mbarriers are made here", setup.create))
    raise PipelineError(why, code="phase-not-carried", at=above, notes=notes, advice=advice)


def shared(create: Operation, user: Operation, why: str) -> PipelineError:
    return PipelineError(
        f"cannot pipeline: the loop needs its mbarriers for itself, and {why}",
        code="mbarrier-shared",
        at=create,
        notes=(("here", user),),
        advice="make an mbarrier group for each loop, or let both use the same ones of it",
    )


# Phases that the input's waits ask for -------------------------------------------------------
#
# Whether the waits of a loop of tensor copies ask for the phases of its copies, and of its products in
# tensor memory, before the pipeline's take their place.
#
#     scf.for … iter_args(%phase = %false) {          tile t on one mbarrier: parity t mod 2, with t
#       try_wait.parity %full[%c0], %phase            counted since the initialisation
#       scf.yield %phase xor 1
#     }
#
# A kernel whose waits ask for other phases reads tiles that are not there yet, or hangs. Pipelined it
# would do what it never did, so it is refused. What is no sum modulo 2 of a carried value is not decided.


class Parity(NamedTuple):
    """The lowest bit of a number: that of `root` (None: 0), or the other one if `flipped` is 1."""

    root: Value | None
    flipped: int

    def same(self, other: Parity) -> bool:
        """Values cannot be compared with None."""
        if self.root is None or other.root is None:
            return self.root is other.root and self.flipped == other.flipped
        return self.root == other.root and self.flipped == other.flipped

    def after(self, other: Parity) -> Parity:
        """What this is if its root has another value."""
        return Parity(other.root, other.flipped ^ self.flipped)


@dataclass(frozen=True)
class InputPhases:
    """The phases that the waits of a loop ask for; `outer` are the ops between mbarriers and loop, `sharing` the
    other loops on the same mbarriers."""

    loop: Operation
    outer: tuple[Operation, ...]
    sharing: tuple[Operation, ...]

    def undecided(self, phases: Iterable[Transaction | Completion]) -> tuple[Operation, ...]:
        """The waits whose phases are not decided here. Raises PipelineError (input-phase) for one that is wrong."""
        return tuple(phase.wait for phase in phases if not self._is_right(phase.wait))

    def _is_right(self, wait: Operation) -> bool:
        """Whether a wait asks for the phase of its tile; False if that is not known."""
        phase, loop = operand(wait, "phase"), self.loop
        assert phase is not None
        asked, trips = _parity(phase), static_trip_count(loop)
        several = trips is None or trips > 1
        if asked.root is None:
            if asked.flipped:
                raise _wrong(wait, "that of the first tile has parity 0, and it asks for 1", loop)
            if several:
                raise _wrong(wait, "it is the same in each iteration", loop)
            return not self.outer and not self.sharing
        number = _carried_by(loop, asked.root)
        if number is None:
            return False
        next_ = _parity(terminator(loop.regions[0].blocks[0]).operands[number])
        if next_.root is None or next_.root != asked.root:
            return False
        if several and not next_.flipped:
            raise _wrong(wait, "it is the same in each iteration", loop)
        if any(other.block != loop.block for other in self.sharing):
            return False
        found = self._through_others(wait, number)
        for above in reversed(self.outer):
            if found is not None and above.name == "scf.if":
                found = self._through_branch(above, *found)
            elif found is not None:
                found = self._through_loop(wait, above, *found)
        if found is None or found[1].root is not None:
            return False
        if found[1].flipped ^ asked.flipped:
            raise _wrong(wait, "that of the first tile has parity 0, and it asks for 1", loop)
        return True

    # What the ops so far leave of the phase, and with what the first of them starts; None if that is not known.

    def _through_others(self, wait: Operation, number: int) -> tuple[Value, Parity] | None:
        """Through the loops in a row."""
        start, current = _parity(self.loop.operands[3 + number]), self.loop.results[number]
        order = operations(self.loop.block)
        place = order.index(self.loop)
        for other in reversed([op for op in order[:place] if op in self.sharing]):
            if start.root is None:
                trips = static_trip_count(other)
                if trips is None or trips % 2:
                    raise _wrong(wait, "it starts again after another loop on its mbarrier", other)
                continue
            at = next((n for n, result in enumerate(other.results) if result == start.root), None)
            if at is None or not _flips(other, at):
                return None
            start = start.after(_parity(other.operands[3 + at]))
        for other in [op for op in order[place:] if op in self.sharing]:
            for at, value in enumerate(list(other.operands)[3:]):
                if _parity(value).same(Parity(current, 0)) and _flips(other, at):
                    current = other.results[at]
                    break
        return current, start

    def _through_branch(
        self, branch: Operation, current: Value, start: Parity
    ) -> tuple[Value, Parity] | None:
        """The result of an scf.if that forwards what the loop leaves, and what it had where it does not run."""
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
        self, wait: Operation, above: Operation, current: Value, start: Parity
    ) -> tuple[Value, Parity] | None:
        """The result of a loop around that carries the phase."""
        if start.root is None:
            trips = [static_trip_count(loop) for loop in (self.loop, *self.sharing)]
            if None in trips or sum(count or 0 for count in trips) % 2:
                raise _wrong(
                    wait, "it starts again with each iteration of the loop around it", above
                )
            return current, start
        number = _carried_by(above, start.root)
        if number is None:
            return None
        following = terminator(above.regions[0].blocks[0]).operands[number]
        if not _parity(following).same(Parity(current, 0)):
            return None
        return above.results[number], start.after(_parity(above.operands[3 + number]))


def _flips(loop: Operation, number: int) -> bool:
    """Whether each iteration forwards the other parity of a value that the loop carries."""
    block = loop.regions[0].blocks[0]
    own: Value = block.arguments[number + 1]
    return _parity(terminator(block).operands[number]).same(Parity(own, 1))


def _carried_by(loop: Operation, value: Value) -> int | None:
    """The number of a value among those that a loop carries, None if it is none of them."""
    if not is_block_argument(value) or loop.name != "scf.for":
        return None
    argument = ir.BlockArgument(value)
    if argument.owner != loop.regions[0].blocks[0] or argument.arg_number == 0:
        return None
    return int(argument.arg_number) - 1


def _parity(value: Value) -> Parity:
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
