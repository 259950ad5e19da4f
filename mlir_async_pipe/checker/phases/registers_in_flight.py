"""Accumulators: nothing but a product reads them before the wait for its group, and no product adds to
what threads wrote or read before a fence (PTX ISA, wgmma.fence).

    %d = nvgpu.warpgroup.mma … {waitGroup = 1}     %d is of the youngest group, which is in flight
    nvvm.wgmma.wait.group.sync.aligned 0           now it is not

    %s = llvm.insertvalue %d, %all[1]              no read: the part [1] of %s is what %d is
    %x = llvm.extractvalue %d[65]                  no read: %x is that register
    %h = llvm.insertvalue %x, %part[1]             nor is this: it stays where it is
    %y = llvm.fadd %x, %x                          its thread reads it

    %z = llvm.insertvalue %number, %sums[0]        its thread writes a register of %z
    nvvm.wgmma.fence.aligned                       so this must come
    %d = nvvm.wgmma.mma_async %a, %b, %z           before this
    %e = nvvm.wgmma.mma_async %a, %b, %d           products of one shape need none between them

What is loaded from tensor memory is there after the wait for all loads.

A product in assembly names its registers one by one (`products.assembled`). Those of its left factor it reads until its
group is waited for:

    %a = llvm.bitcast %p                           its thread writes %a, so a fence must come
    %d = llvm.inline_asm "wgmma…" %x…, %a…, %b     before this; and this must be over where %a is
    %a = …                                         made again, in the next iteration
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mlir_async_pipe.bindings.raw_ops import Operation, defining_op, terminator, type_text
from mlir_async_pipe.checker.phase_faults import PhaseFault
from mlir_async_pipe.checker.step_graph import Flow, Run
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.vocabulary import Row, accesses, given_count, groups_of, row_of, tensor_use
from mlir_async_pipe.vocabulary.memory_names import (
    MEMBER_PUT,
    PARTS,
    THREAD_ALLOCATION_OPS,
    position_of,
)
from mlir_async_pipe.vocabulary.products import (
    SUMS,
    UNDEFINED,
    holds_sums,
    is_assembled,
    is_given_alone,
    is_register_of_sums,
    products_left,
    shape_of_product,
    stays_in_place,
)
from mlir_async_pipe.vocabulary.rows import WGMMA
from mlir_async_pipe.vocabulary.tensor_memory import is_loaded, waits_for

OPEN = -1
EVERYBODY = -1
# Where in a struct of accumulators one is; () is all of it.
Position = tuple[int, ...]


class Held(NamedTuple):
    """Registers that `op` touched. `how`: the shape of the product that fills them as long as its group
    has an `age` (`OPEN`: it is in no group yet; None: they are complete), or what the threads did. No fence
    came since in the threads `by`."""

    op: int
    age: int | None
    by: int
    how: Hashable

    @property
    def counts(self) -> bool:
        """Whether it matters to what may come."""
        return self.age is not None or bool(self.by)


READ, WRITTEN, COPIED, FACTOR = "read", "written", "copied", "factor"
# What makes values that no thread writes into registers where it stands.
_NOT_WRITTEN = UNDEFINED | {"llvm.mlir.constant"}
Parts = frozenset[tuple[Position, Held]]
Plan = Callable[["Registers", int | None], None]


@dataclass
class Registers:
    """The parts of each value by what touched them last; those that are complete and fenced are left out.
    `fenced`: the threads that have made a fence. `loading` are loads from tensor memory by the value that
    they fill; `members` the registers that were taken out of sums, which all paths have alike."""

    held: dict[int, Parts] = field(default_factory=dict)
    fenced: int = 0
    loading: dict[int, int] = field(default_factory=dict)
    members: dict[int, tuple[int, Position]] = field(default_factory=dict)

    @staticmethod
    def kept(flow: Flow) -> set[int]:
        """The values that may be accumulators."""
        return {
            number
            for number, (_, value) in enumerate(flow.values)
            if hasattr(value, "type")
            and (type_text(value.type).startswith(SUMS) or is_given_alone(value))
        }

    @staticmethod
    def plan(run: Run, number: Callable[[Run], int]) -> Plan | None:
        """What an op does to accumulators, in threads that are given; None: nothing."""
        op, row = run.op, row_of(run.op)
        if tensor_use(op) == "load":
            own = number(run)
            return lambda registers, mask: registers.loading.update(dict.fromkeys(run.results, own))
        if waits_for(op) == "load":
            return lambda registers, mask: registers.loading.clear()
        if row.queue == WGMMA:
            return _queued(run, row, number)
        if op.name in PARTS:
            return _part(run, number)
        used = list(zip(run.operands, op.operands, strict=True))
        read = [n for n, value in used if holds_sums(value) or is_loaded(value)]
        members = [n for n, value in used if is_register_of_sums(value)]
        results = list(zip(run.results, op.results, strict=False))
        made = [n for n, value in results if holds_sums(value)]
        alone = [n for n, value in results if is_given_alone(value)]
        if op.name in _NOT_WRITTEN or not (read or members or made or alone):
            return None
        own, in_place = number(run), _keeps_in_variable(op)

        def touch(registers: Registers, mask: int | None) -> None:
            for value in read:
                registers.check(value, own)
                registers.touch(value, (), Held(own, None, _those(mask), READ))
            for value in members:
                registers.read(value, own, mask, certain=not in_place)
            for value in alone:
                registers.check_factor(value, own)
            for value in (*alone, *made):
                registers.touch(value, (), Held(own, None, _those(mask), WRITTEN))

        return touch

    def copy(self) -> Registers:
        return replace(self, held=dict(self.held), loading=dict(self.loading))

    def key(self) -> Hashable:
        return frozenset(self.held.items()), self.fenced, frozenset(self.loading.items())

    def join(self, other: Registers) -> None:
        """Threads with other registers go on with these."""
        for value, parts in other.held.items():
            self.held[value] = self.parts(value) | parts
        self.fenced |= other.fenced

    def assign(self, assigns: list[tuple[int, int]]) -> None:
        for target, parts in [(target, self.parts(source)) for target, source in assigns]:
            # What is forwarded to itself, by other names perhaps, is not written.
            self._check_factor(self.parts(target) - parts, None)
            self.fill(target, parts)

    def parts(self, value: int) -> Parts:
        """What was touched of a value."""
        return self.held.get(value, frozenset())

    def fill(self, value: int, parts: Parts) -> None:
        if parts:
            self.held[value] = parts
        else:
            self.held.pop(value, None)

    def _each(self, change: Callable[[Held], Held]) -> None:
        for value, parts in list(self.held.items()):
            changed = ((position, change(held)) for position, held in parts)
            self.fill(value, frozenset(entry for entry in changed if entry[1].counts))

    # Products -----------------------------------------------------------------------------

    def multiply(
        self, sums: list[int], factors: list[int], result: int, now: Held, *, undefined: bool
    ) -> None:
        """A product adds to sums, or to their registers one by one, and reads others until its group is over."""
        of_sums, of_factors = (
            [self.members.get(number, (number, ())) for number in numbers]
            for numbers in (sums, factors)
        )
        for value, at in of_factors:
            self.check(value, now.op, at)
        for value, at in (*of_sums, *of_factors):
            parts = (entry for entry in self.parts(value) if _meet(entry[0], at))
            self._check_fenced(frozenset(parts), undefined, now)
        for value, at in () if undefined else of_sums:
            # Who adds to them once more has a copy of them.
            self.touch(value, at, now._replace(age=None, how=COPIED))
        for value, at in of_factors:
            self.fill(value, self.parts(value) | {(at, now._replace(by=0, how=FACTOR))})
        self.fill(result, frozenset({((), now)}))

    def check_factor(self, value: int, op: int, at: Position = ()) -> None:
        """An op writes a part of a value."""
        parts = (entry for entry in self.parts(value) if _meet(entry[0], at))
        self._check_factor(frozenset(parts), op)

    @staticmethod
    def _check_factor(parts: Parts, op: int | None) -> None:
        """An op writes a register, or another value is forwarded there."""
        for _, held in sorted(parts):
            if held.how == FACTOR and held.age is not None:
                note = f"it reads these registers until its group is waited for: count {max(held.age, 0)} would do"
                raise PhaseFault("source-overwritten", held.op if op is None else op, held.op, note)

    def _check_fenced(self, parts: Parts, undefined: bool, now: Held) -> None:
        if now.by & ~self.fenced:
            note = "no 'nvvm.wgmma.fence.aligned' comes before the first product"
            raise PhaseFault("missing-register-fence", now.op, now.op, note)
        note = "'nvvm.wgmma.fence.aligned' is missing after this, before the product"
        for _, held in sorted(parts):
            if held.by & now.by and held.how != now.how:
                raise PhaseFault("missing-register-fence", now.op, held.op, note)
        # Registers that hold nothing yet may be any that threads have read.
        for held in (held for parts in self.held.values() for _, held in parts if undefined):
            if held.by & now.by and held.how == READ:
                raise PhaseFault("missing-register-fence", now.op, held.op, note, False)

    def fence(self, mask: int) -> None:
        """What threads did to registers comes before products."""
        self.fenced |= mask
        self._each(lambda held: held._replace(by=held.by & ~mask))

    def commit(self) -> None:
        """All groups are one older."""
        self._each(lambda held: held if held.age is None else held._replace(age=held.age + 1))

    def wait(self, left: int) -> None:
        """Groups older than the `left` youngest ones are complete."""
        self._each(lambda h: h if h.age is None or h.age < left else h._replace(age=None))

    def complete(self, op: int) -> None:
        self._each(lambda held: held._replace(age=None) if held.op == op else held)
        self.loading = {value: load for value, load in self.loading.items() if load != op}

    # Threads ------------------------------------------------------------------------------

    def check(self, value: int, op: int, at: Position = (), *, certain: bool = True) -> None:
        """An op reads a part of a value."""
        if value in self.loading:
            note = "its registers are there after 'nvvm.tcgen05.wait <load>'"
            raise PhaseFault("read-in-flight", op, self.loading[value], note)
        parts = (held for position, held in self.parts(value) if _meet(position, at))
        filling = sorted(
            (held.age, held.op) for held in parts if held.age is not None and held.how != FACTOR
        )
        for age, product in filling[:1]:
            note = f"it adds to these registers until its group is waited for: count {max(age, 0)} would do"
            raise PhaseFault("read-in-flight", op, product, note, certain)

    def read(self, member: int, op: int, mask: int | None, *, certain: bool = True) -> None:
        """Threads read a register of sums, in an op."""
        value, at = self.members[member]
        self.check(value, op, at, certain=certain)
        self.touch(value, at, Held(op, None, _those(mask), READ))

    def touch(self, value: int, at: Position, held: Held) -> None:
        """Threads read or write a part of a value."""
        others = {entry for entry in self.parts(value) if not _meet(entry[0], at)}
        self.fill(value, frozenset({*others, (at, held)}))


def _meet(one: Position, other: Position) -> bool:
    """Whether one of two positions is inside of the other."""
    return one[: len(other)] == other[: len(one)]


def _those(mask: int | None) -> int:
    """Threads; all of them, where it is not known which."""
    return EVERYBODY if mask is None else mask


def _keeps_in_variable(op: Operation) -> bool:
    """Whether an op stores to a variable of its thread, which the compiler may keep in the register that is stored."""
    roots = [root_of(access.memory).value for access in accesses(op) if access.kind == "write"]
    made = [defining_op(root) for root in roots]
    return any(one is not None and one.name in THREAD_ALLOCATION_OPS for one in made)


def _queued(run: Run, row: Row, number: Callable[[Run], int]) -> Plan | None:
    """Products, their groups, waits and fences."""
    op, left = run.op, products_left(run.op)
    if is_assembled(op) or row.descriptors:
        groups, own, shape = groups_of(op), number(run), shape_of_product(op)
        sums = [run.operands[n] for n in groups["sums"]]
        names = [name for name in row.operands if name.startswith("factor")]
        factors = [run.operands[groups[name][0]] for name in names]
        made = defining_op(op.operands[groups["sums"][0]])
        undefined = len(sums) == 1 and made is not None and made.name in UNDEFINED

        def multiply(registers: Registers, mask: int | None) -> None:
            if row.fences_sums:
                registers.fence(_those(mask))
            now = Held(own, OPEN, _those(mask), shape)
            registers.multiply(sums, factors, run.results[0], now, undefined=undefined)
            if left is not None:
                registers.commit()
                registers.wait(left)

        return multiply
    if row.commits:
        return lambda registers, mask: registers.commit()
    if row.wait is not None:
        count = given_count(op) or 0
        return lambda registers, mask: registers.wait(count)
    return lambda registers, mask: registers.fence(mask or 0) if row.fences_sums else None


def _part(run: Run, number: Callable[[Run], int]) -> Plan | None:
    """A part of a struct: sums of one product, which go on with all that is known of them, or one of their
    registers, which threads read or fill, if it does not stay where it is."""
    at = position_of(run.op)
    (result,), operands = run.results, run.operands
    whole, inserts = run.op.operands[0], run.op.name == MEMBER_PUT
    if not holds_sums(whole):
        return None
    if holds_sums(run.op.operands[1] if inserts else run.op.results[0]):

        def move(registers: Registers, mask: int | None) -> None:
            if not inserts:
                parts = ((p[len(at) :], h) for p, h in registers.parts(operands[0]) if _meet(p, at))
                registers.fill(result, frozenset(parts))
                return
            kept = {entry for entry in registers.parts(operands[0]) if entry[0][: len(at)] != at}
            added = {(at + position, held) for position, held in registers.parts(operands[1])}
            registers.fill(result, frozenset(kept | added))

        return move
    own, sums = number(run), at[:-1] if _depth(whole) == len(at) else at
    if not inserts:
        # Who uses the register has to wait for the product; here, if nobody in the block does.
        users = [use.owner for use in run.op.results[0].uses]
        ends_block = any(terminator(op.operation.block) == op.operation for op in users)
        here, stays = not users or ends_block, stays_in_place(run.op.results[0])

        def take(registers: Registers, mask: int | None) -> None:
            registers.members[result] = operands[0], sums
            if here:
                registers.check(operands[0], own, sums)
            if not stays:
                # A product may still be filling it.
                held = Held(own, None, _those(mask), READ)
                registers.fill(operands[0], registers.parts(operands[0]) | {(sums, held)})

        return take
    put_in = run.op.operands[1]
    moved, member = stays_in_place(put_in), is_register_of_sums(put_in)

    def put(registers: Registers, mask: int | None) -> None:
        parts = registers.parts(operands[0])
        if moved:
            of, place = registers.members[operands[1]]
            moves = (held for position, held in registers.parts(of) if _meet(position, place))
            registers.fill(result, parts | {(sums, held) for held in moves})
            return
        registers.check(operands[0], own, at)
        registers.check_factor(operands[0], own, sums)
        if member:
            registers.read(operands[1], own, mask)
        registers.fill(result, parts)
        registers.touch(result, sums, Held(own, None, _those(mask), WRITTEN))

    return put


def _depth(value: Any) -> int:
    """How many structs are inside of each other in a value."""
    depth = most = 0
    for bracket in type_text(value.type):
        depth += (bracket == "(") - (bracket == ")")
        most = max(most, depth)
    return most
