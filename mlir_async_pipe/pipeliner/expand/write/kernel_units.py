"""Turns the body into the kernel's units: the first edits, after everything is decided.

    load %a[%i] {async}                           "async_pipe.scope"() ({
    addf                                            load, addf, store %b[%slot, 0]
    store %b[0] {async}                  -->      })
    barrier                                       %token = "async_pipe.commit_queue"()
    load %b[0]                                    load %b[%slot, 0]

Slot indices are placeholders (`async_pipe.slot`) that the emitter replaces by the slot of
the stage that asks. Waits and barriers of the input go, and the
emitter writes new ones; barriers that are kept belong to the unit after them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    OpWriter,
    Value,
    after,
    before,
    create,
    erase,
    integer_attribute,
    operations,
    set_integer,
    users,
    walk,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer, move_accesses
from mlir_async_pipe.pipeliner.plan.form_groups import Group
from mlir_async_pipe.pipeliner.plan.make_plan import Plan
from mlir_async_pipe.pipeliner.plan.units import Unit, physical_copy
from mlir_async_pipe.vocabulary import row_of
from mlir_async_pipe.vocabulary.async_ops import TOKEN_TYPE
from mlir_async_pipe.vocabulary.control_flow import SCOPE
from mlir_async_pipe.vocabulary.memory_names import GLOBAL_ADDRESS_OPS

# On ops of an inner pipeline that came out of a grouping region; gone when it is labelled.
GROUPED = "async_pipe.grouped"


# An op is cloned once for each step of prologue, kernel and epilogue, and asking the bindings for an
# operand costs as much as the clone itself: what an op uses is read once.
#
#     "async_pipe.scope"() ({                       uses of %i (op 1, operand 1), %one (op 2, operand 1)
#       %a = memref.load %A[%i]                     and %A, %b: for each clone only these are looked up
#       %b1 = arith.addf %a, %one            -->    and set; what the region makes itself, clone has
#       memref.store %b1, %b[%slot, %c0]            already put in place
#     })


class TemplateUse(NamedTuple):
    """Operand `operand` of the op at `place` (pre-order, 0 is the op itself) is `value`, which
    is made outside of the op."""

    place: int
    operand: int
    value: Value


@dataclass(frozen=True)
class Template:
    """An op, what it uses from outside of itself, its results, and whether it adds integers: with constants that
    folds. The op must not change."""

    op: Operation
    uses: tuple[TemplateUse, ...]
    results: tuple[Value, ...]
    adds: bool

    @staticmethod
    def of(op: Operation) -> Template:
        ops = list(walk(op))
        uses = (
            TemplateUse(place, number, value)
            for place, inner in enumerate(ops)
            for number, value in enumerate(inner.operands)
        )
        inside = {result for inner in ops[1:] for result in inner.results}
        blocks = (b for inner in ops for region in inner.regions for b in region.blocks)
        inside.update(argument for block in blocks for argument in block.arguments)
        outer = tuple(use for use in uses if use.value not in inside)
        return Template(op, outer, tuple(op.results), op.name == "arith.addi")

    def clone(self, mapping: dict[Value, Value], ip: Any) -> Operation:
        """A copy at `ip` that uses `mapping[value]` wherever the op uses an outer `value`."""
        copy = self.op.clone(ip=ip).operation
        ops = list(walk(copy)) if len(copy.regions) else (copy,)
        last, operands = 0, copy.operands
        for place, operand, old in self.uses:
            value = mapping[old]
            if value == old:
                continue
            if place != last:
                last, operands = place, ops[place].operands
            operands[operand] = value
        return copy


@dataclass(frozen=True)
class KernelUnit:
    """One piece of the kernel, ready to be cloned.

    `ops` are cloned together, in this order; `position` is the unit's place in kernel order
    (None for a commit, which stands after the last unit of its group).
    """

    ops: tuple[Operation, ...]
    stage: int
    position: int | None

    @cached_property
    def templates(self) -> tuple[Template, ...]:
        """The ops as they are cloned; read when the kernel is complete."""
        return tuple(Template.of(op) for op in self.ops)

    @cached_property
    def used(self) -> tuple[Value, ...]:
        """The values that the unit uses from outside of itself, each once."""
        inside = {result for template in self.templates for result in template.results}
        used = dict.fromkeys(use.value for template in self.templates for use in template.uses)
        return tuple(value for value in used if value not in inside)


@dataclass(frozen=True)
class KernelUnits:
    """All units in kernel order, the token of each group, and the slot placeholders by
    number of versions."""

    units: tuple[KernelUnit, ...]
    tokens: dict[int, Value]
    slots: dict[int, Value]


def build_kernel(plan: Plan, buffers: list[VersionedBuffer]) -> KernelUnits:
    """Edit the loop body into units. No handle of the plan's ops is used afterwards."""
    body = plan.units.body
    numbers = {op: number for number, op in enumerate(body.ops)}
    unit_numbers = [[numbers[op] for op in unit.ops] for unit in plan.units.units]
    slots: dict[int, Value] = {}
    for versions in dict.fromkeys(buffer.plan.versions for buffer in buffers):
        write = OpWriter(ir.InsertionPoint.at_block_begin(body.block), plan.loop.location)
        slots[versions] = write.make("async_pipe.slot", (), ir.IndexType.get(plan.loop.context))
    kept: dict[int, list[int]] = {}
    for barrier in plan.kept_barriers:
        kept.setdefault(barrier.unit.position, []).append(numbers[barrier.op])
    dropped = {numbers[op] for op in body.synchronisation} - {n for k in kept.values() for n in k}
    current = move_accesses(buffers, slots, list(body.ops))
    for places in current:
        for op in places:
            _make_asynchronous(op)
            names.remove(op, (names.STAGE, names.ORDER, names.ASYNC))
            names.keep_cycles(op)
    # Waits and groups use tokens of groups before them.
    erase(current[n][0] for n in sorted(dropped))
    commits = {group.members[-1].position: group for group in plan.groups}
    nested = bool(names.parts_of(plan.loop))
    units: list[KernelUnit] = []
    tokens: dict[int, Value] = {}
    copies: dict[int, list[Operation]] = {}
    for unit, chosen in zip(plan.units.units, unit_numbers, strict=True):
        ops = [
            inner for number in chosen for op in current[number] for inner in _ungrouped(op, nested)
        ]
        if unit.scoped:
            ops = [_scope(unit, ops)]
        barriers = [op for number in kept.get(unit.position, ()) for op in current[number]]
        units.append(KernelUnit((*barriers, *ops), unit.stage, unit.position))
        if unit.asynchronous:
            copies[unit.position] = ops
        group = commits.get(unit.position)
        if group is not None:
            members = [op for member in group.members for op in copies[member.position]]
            given = [op.results[0] for op in members if row_of(op).token and not group.abstract]
            commit = write_commit(group, given, after(ops[-1]), ops[-1].location)
            units.append(KernelUnit((commit,), group.stage, None))
            tokens[group.number] = commit.results[0]
    return KernelUnits(tuple(u for u in units if not _is_dead(u)), tokens, slots)


def _make_asynchronous(op: Operation) -> None:
    """Give the ops of a statement that is async by annotation the attribute that makes them so."""
    for inner in walk(op) if names.ASYNC in op.attributes else ():
        name = row_of(inner).async_attribute
        if name:
            inner.attributes[name] = ir.UnitAttr.get(op.context)


def _ungrouped(op: Operation, inside_pipeline: bool) -> list[Operation]:
    """The ops of an scf.execute_region that only held a statement together, moved out of it;
    any other op is itself. Those of an inner pipeline carry a mark: pure ones among them have to
    keep the place of their statement in the outer one."""
    if op.name != names.GROUPING_OP or len(list(op.regions[0].blocks)) != 1:
        return [op]
    *inner, end = operations(op.regions[0].blocks[0])
    _yield_cycles(op, inner)
    for member in inner:
        member.move_before(op)
        if inside_pipeline:
            member.attributes[GROUPED] = ir.UnitAttr.get(op.context)
    for result, value in zip(op.results, end.operands, strict=True):
        result.replace_all_uses_with(value)
    op.erase()
    return inner


def _yield_cycles(group: Operation, members: list[Operation]) -> None:
    """Cycles of a dissolved region: each copy takes them as its latency; where there is none,
    the last op takes them, and the others are free."""
    cycles = integer_attribute(group, names.CYCLES)
    if cycles is None or not members:
        return
    copies = [op for op in members if physical_copy(op) is not None]
    for op in copies or members:
        own = cycles if copies or op == members[-1] else 0
        set_integer(op, names.CYCLES, own, 64)


def _scope(unit: Unit, ops: list[Operation]) -> Operation:
    """Move the ops of an async unit into an async_pipe.scope before the last one; a
    scope of the input goes to the queue of its stage as it is."""
    last = ops[-1]
    if len(ops) == 1 and last.name == SCOPE:
        set_integer(last, "queue", unit.stage, 64)
        return last
    scope = create(SCOPE, regions=1, ip=before(last), loc=ops[0].location)
    set_integer(scope, "queue", unit.stage, 64)
    given = [integer_attribute(op, names.CYCLES) for op in ops]
    if any(cycles is not None for cycles in given):
        # One after the other: a load, then the store of its value.
        set_integer(scope, names.CYCLES, sum(cycles or 0 for cycles in given), 64)
    block = scope.regions[0].blocks.append()
    end = create("async_pipe.yield", ip=ir.InsertionPoint(block), loc=last.location)
    for op in ops:
        op.move_before(end)
    # From inside an unregistered op MLIR finds no symbol.
    for op in [op for op in walk(scope) if op.name in GLOBAL_ADDRESS_OPS]:
        op.move_before(scope)
    return scope


def write_commit(group: Group, copies: list[Value], ip: Any, loc: Any) -> Operation:
    """The op that commits `copies`, and what else was issued, as one group of a queue."""
    token = ir.Type.parse(TOKEN_TYPE, loc.context)
    attributes = queue_attribute(group, loc.context)
    if not copies and not attributes:
        # Without any attribute a group of no copies prints as text that does not parse again.
        attributes = {names.EMPTY: ir.UnitAttr.get(loc.context)}
    return create(group.ops.commit, copies, [token], attributes, ip=ip, loc=loc)


def queue_attribute(group: Group, context: Any) -> dict[str, Any]:
    """How the ops of a group name its queue: abstract ones by a number, which is the stage."""
    i64 = ir.IntegerType.get_signless(64, context)
    return {"queue": ir.IntegerAttr.get(i64, group.stage)} if group.abstract else {}


def _is_dead(unit: KernelUnit) -> bool:
    """A pure op that lost its last user (a get_global whose accesses moved to the slots)."""
    return (
        unit.position is not None
        and all(op.name == "memref.get_global" for op in unit.ops)
        and not any(users(result) for op in unit.ops for result in op.results)
    )
