"""One point of one path: the numbers, what is known of them, the memory, and which threads are there."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, Self

from mlir_async_pipe.bindings.raw_ops import type_text
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.phase_faults import NotFollowedError
from mlir_async_pipe.checker.phases.amounts import EachThread
from mlir_async_pipe.checker.phases.block_memory import BlockMemory
from mlir_async_pipe.checker.phases.byte_places import (
    Asked,
    BytePlace,
    EachRotation,
    OfRanks,
    Value,
    among,
    is_made_of,
    settled,
    with_indices,
)
from mlir_async_pipe.checker.phases.mbarrier_state import Blocked
from mlir_async_pipe.checker.phases.ranges_of_sums import Knowledge, mentions
from mlir_async_pipe.checker.phases.registers_in_flight import Registers
from mlir_async_pipe.checker.precision import OpenError
from mlir_async_pipe.checker.step_graph import ControlEdge, Run
from mlir_async_pipe.facts.values import sums

# An unknown number of iterations beside other roles, and how many there are at most, if known.
TRIP = "trip"
# Places where paths meet that a state may pass, for each of its roles.
UNASKED = 16


class Iteration(NamedTuple):
    """A loop on a path: the number of its iteration (None: any), what it advances by, and the
    unknown that it is made of, if it is. `over`: the iterations that are over, where they are
    counted beside other roles (else -1)."""

    value: int | Form | None
    step: int = 0
    unknown: Atom | None = None
    over: int = -1


class Parted(NamedTuple):
    """Threads that part up to the block `join` (None: up to the end): those around it (`whole`), the
    other side that is to come (its edge and threads), what the side before handed to `join`, and the
    bit that parts them. `roles`: the sides run beside each other."""

    join: int | None
    whole: int | None
    rest: tuple[ControlEdge, int | None] | None
    at_join: tuple[tuple[int, Value], ...] = ()
    condition: Value = None
    roles: bool = False


@dataclass
class RoleState:
    """What the threads of a mask have for themselves: values by number, those that no step makes as `given`, registers,
    the loops (`iterations`) and branches on threads (`sides`) around. `meeting`: the phase of a numbered barrier that they
    have arrived in; `acted`: those that have done something since they parted from others."""

    given: Callable[[int], Value]
    mask: int | None
    env: dict[int, Value] = field(default_factory=dict)
    registers: Registers = field(default_factory=Registers)
    iterations: dict[int, Iteration] = field(default_factory=dict)
    sides: tuple[Parted, ...] = ()
    meeting: tuple[int, int] | None = None
    acted: int = 0

    def get(self, number: int) -> Value:
        return self.env[number] if number in self.env else self.given(number)

    def own(self) -> dict[str, Any]:
        """These fields by name, of a state or strand that has more."""
        return {name: getattr(self, name) for name in RoleState.__match_args__}

    def copied(self, **changed: Any) -> Self:
        changed |= {"env": dict(self.env), "iterations": dict(self.iterations)}
        return replace(self, registers=self.registers.copy(), **changed)

    def own_key(self, memory: BlockMemory) -> Hashable:
        return (
            self.mask,
            _values_of(self.env, memory),
            self.registers.key(),
            frozenset(self.iterations.items()),
            _sides_of(self.sides, memory),
        )


@dataclass
class Strand(RoleState):
    """A role while another one runs, and where it goes on.

    `blocked`: why it waits, and how far the memory had come when it was asked last. `at_join`: it is
    at the end of its side, and hands these values on. `edge`: it begins with this one.
    """

    block: int = field(kw_only=True)
    position: int = field(kw_only=True)
    blocked: tuple[Blocked, int] | None = None
    at_join: tuple[tuple[int, Value], ...] | None = None
    edge: ControlEdge | None = None

    def key(self, memory: BlockMemory) -> Hashable:
        return (
            self.block,
            self.position,
            self.own_key(memory),
            self.acted,
            self.blocked is not None and self.blocked[1] == memory.progress,
            self.at_join and _values_of(dict(self.at_join), memory),
            self.edge,
            self.meeting and memory.phases_ago(*self.meeting),
        )


@dataclass
class PathState(RoleState):
    """A state that steps change: what the role that runs has, and `others` that do not run now. `doubtful`: it need not
    exist. `split`: its path did since it was asked last whether it is new, and
    it has `passed` so many places since where it might have been."""

    memory: BlockMemory = field(kw_only=True)
    known: Knowledge = field(default_factory=Knowledge)
    doubtful: bool = False
    others: tuple[Strand, ...] = ()
    split: bool = False
    passed: int = 0

    def copy(self, known: Knowledge | None = None) -> PathState:
        """A state that can be changed on its own, on another path if something else is `known` there."""
        self.split |= known is not None
        return self.copied(
            known=known or self.known.copy(),
            memory=self.memory.copy(),
            others=tuple(strand.copied() for strand in self.others),
        )

    def is_asked(self, begins: bool) -> bool:
        """Whether to ask here if a state of roles is new; `begins`: an iteration does.

        What all of them know of each other is long, most of all in a cluster. As long as a path does not split, its states repeat if
        those do in which its first role begins an iteration: so only they are asked, those in which another one does after the
        path has split, and those after many others. Who asks less follows more, never less."""
        first = all((self.mask or 0) < (r.mask or 0) for r in self.others if r.at_join is None)
        self.passed += 1
        often = self.passed > UNASKED * (1 + len(self.others))
        if not (often or (begins and (first or self.split))):
            return False
        self.split, self.passed = False, 0
        return True

    def shape_with(self, memory: Hashable) -> Hashable:
        """What is equal for the same state, where its memory is such a one."""
        return (
            self.own_key(self.memory),
            self.known.key(),
            memory,
            self.doubtful,
            self.acted if self.others else 0,
            tuple(strand.key(self.memory) for strand in self.others),
        )

    def spot(self) -> Spot:
        return Spot(self.memory, self.known, self.mask, self.get_here, self.meeting)

    def get_here(self, number: int) -> Value:
        """A value by its number, as the threads that run have it."""
        value = self.get(number)
        if isinstance(value, EachThread | EachRotation | OfRanks) and self.mask is not None:
            return among(value, self.mask)
        if isinstance(value, BytePlace) and value.each is not None and self.mask is not None:
            return among(value, self.mask)
        return value

    @property
    def is_role(self) -> bool:
        """Whether there are, or were, others beside the threads that run."""
        return bool(self.others) or self.mask != self.memory.everybody

    def strands(self) -> Iterator[RoleState]:
        yield self
        yield from self.others

    def take_apart(self, atom: Atom, form: Form, quotient: Atom) -> None:
        """An argument of the kernel becomes `by` quotients and a remainder, minus a constant."""
        by = dict(form.terms)[quotient]
        ends = self.known.bounds(Form(-form.constant, frozenset({(atom, 1)})))
        self.known.forget(atom)
        self.known.learn(forms.of_atom(quotient), *sums.divided(ends, by))
        number = atom.key
        assert isinstance(number, int)
        for strand in self.strands():
            for other, value in [(number, strand.get(number)), *strand.env.items()]:
                if isinstance(value, Form):
                    factor = dict(value.terms).get(atom, 0)
                    rest = Form(value.constant, value.terms - {(atom, factor)})
                    if factor:
                        strand.env[other] = forms.add(rest, forms.scale(form, factor))
                    elif mentions(value, atom):
                        strand.env[other] = None
                elif is_made_of(value, atom):
                    strand.env[other] = None

    def values(self) -> Iterator[Value]:
        """The numbers that roles have, or forward."""
        for strand in self.strands():
            yield from strand.env.values()
            for side in strand.sides:
                yield from (value for _, value in side.at_join)
        for role in self.others:
            yield from (value for _, value in role.at_join or ())

    def rewrite(self, change: Callable[[Value], Value]) -> None:
        """Each number that a role has, or forwards, is written differently."""

        def changed(at_join: tuple[tuple[int, Value], ...]) -> tuple[tuple[int, Value], ...]:
            return tuple((number, change(value)) for number, value in at_join)

        for strand in self.strands():
            for number, value in strand.env.items():
                strand.env[number] = change(value)
            if any(side.at_join for side in strand.sides):
                strand.sides = tuple(s._replace(at_join=changed(s.at_join)) for s in strand.sides)
        for role in self.others:
            role.at_join = role.at_join and changed(role.at_join)

    def count_from(self, atom: Atom, residue: int, beside: set[Atom]) -> None:
        """What is so many tiles after others as some unknowns say, of which none is counted, is counted from
        this one: n of them are n - k + `residue`, where k is that, modulo the tiles after which rings repeat."""
        done = forms.add(forms.of_atom(atom), Form(-residue))

        def left(index: Form) -> Form:
            atoms = dict(index.terms)
            counted = beside.isdisjoint(atoms) or any(other.kind == TRIP for other in atoms)
            return index if counted else forms.subtract(index, done)

        self.rewrite(lambda value: with_indices(value, left))

    def forget(self, atom: Atom) -> None:
        """An unknown gets another value: nothing is known of it and of what it made."""

        def without(value: Value) -> Value:
            now = settled(value, self.known)
            return None if is_made_of(now, atom) else now

        self.rewrite(without)
        self.known.forget(atom)


def _values_of(env: dict[int, Value], memory: BlockMemory) -> Hashable:
    """Values, those that tests answered by how many phases are over since."""
    if not memory.asks:
        return frozenset(env.items())
    return frozenset([(number, _aged(value, memory)) for number, value in env.items()])


def _sides_of(sides: tuple[Parted, ...], memory: BlockMemory) -> Hashable:
    if not memory.asks:
        return sides
    return tuple(
        [
            (
                side._replace(at_join=(), condition=_aged(side.condition, memory)),
                _values_of(dict(side.at_join), memory),
            )
            for side in sides
        ]
    )


def _aged(value: Value, memory: BlockMemory) -> Value:
    if not isinstance(value, Asked) or value.mbarrier not in memory.mbarriers:
        return value
    return replace(value, phase=value.phase - memory.mbarriers[value.mbarrier].over)


def fresh(run: Run, state: PathState, number: int) -> Form | None:
    """What a pure op without a rule gives: a number that all threads share, if they share its operands."""
    values = [state.get(n) for n in run.operands]
    if not run.makes_values or not values:
        return None
    if not all(isinstance(value, int | Form) for value in values):
        return None
    return unknown(state, number)


def loaded(run: Run, state: PathState, number: int, *, by_root: bool) -> Form:
    """The number that all threads load from a place where nobody writes: of a place that is made of what the kernel is given
    alone it is one, whoever loads it. `by_root`: the memory is a memref as it is given, or a pointer."""
    values = tuple([state.get(n) for n in run.operands])
    if by_root and all(map(_stays, values)):
        return forms.of_atom(Atom("unknown", ("loaded", type_text(run.op.results[0].type), values)))
    return unknown(state, number)


def unknown(state: PathState, number: int) -> Form:
    """A number that all threads share, of which nothing is known."""
    atom = Atom("unknown", ("made", number))
    state.forget(atom)
    return forms.of_atom(atom)


def _stays(value: Value) -> bool:
    """Whether a number or place is made of what a kernel is given, or of what such places hold, not of a loop's count."""
    if isinstance(value, Form):
        return all(_is_given(atom) for atom, _ in value.terms)
    if isinstance(value, BytePlace):
        return value.low is not None and value.low == value.high and value.each is None
    return isinstance(value, int)


def _is_given(atom: Atom) -> bool:
    """Whether an unknown is an argument, an id of the launch, or loaded from a place that stays."""
    if isinstance(atom.key, int):
        return atom.kind in ("size", "unknown")
    return (atom.kind, atom.tag) == ("unknown", "loaded") or (
        atom.kind == "size" and atom.tag != "dim"
    )


@dataclass
class Spot:
    """A point of a path: the memory, what its numbers are, and the threads there (None: not known which)."""

    memory: BlockMemory
    known: Knowledge
    mask: int | None
    get: Callable[[int], Value]
    # The phase of a numbered barrier that the threads have arrived in, and wait for.
    meeting: tuple[int, int] | None = None

    def threads(self) -> int:
        if self.mask is None:
            raise NotFollowedError("unknown-threads")
        return self.mask

    def where(self, value: Value) -> int:
        """The threads in which a bit holds."""
        mask = self.threads()
        if isinstance(value, Form):
            return mask if self.known.at_least_one(value) else 0
        if isinstance(value, EachThread):
            return mask & value.mask
        if value is None:
            raise NotFollowedError("unknown-threads")
        assert isinstance(value, int)
        return mask if value & 1 else 0

    def exact(self, number: int) -> int:
        """A number that all threads know."""
        value = self.get(number)
        if not isinstance(value, int):
            raise self._unknown(value)
        return value

    def _unknown(self, value: Value) -> Exception:
        """Threads that have different numbers may be roles of their own."""
        if isinstance(value, EachThread):
            return OpenError(value)
        return NotFollowedError("unknown-number")

    def parity(self, number: int) -> int:
        value = self.get(number)
        if isinstance(value, int):
            return value & 1
        if isinstance(value, Form):
            residue = self.known.residue(value, 2)
            if residue is not None:
                return residue
            if len(value.terms) == 1 and next(iter(value.terms))[0].kind == "bit":
                return int(self.known.at_least_one(value))
        raise self._unknown(value)

    def place(self, number: int) -> BytePlace:
        place = self.get(number)
        if not isinstance(place, BytePlace):
            raise NotFollowedError("unknown-place")
        return place


Effect = Callable[[Spot], None]
"""What an op does there."""
