"""Writes a guarded copy that stores zeros otherwise as a copy of a guarded load.

    scf.if %c {                                    %v = scf.if %c -> (f32) {
      %l = memref.load %A[%i]                        %l = memref.load %A[%i]
      memref.store %l, %tile[%t]                     scf.yield %l
    } else {                               -->     } else {
      memref.store %zero, %tile[%t]                  scf.yield %zero
    }                                              }
                                                   memref.store %v, %tile[%t]

and the same where the zeros are stored before a condition without an else. The copy is then one
that happens in each iteration: its buffer is overwritten whole, and a chip that fills with zeros
can issue it. A condition that is a constant is decided, and two around such a copy are one:

    zeros; scf.if %a { pure; scf.if %b { … } }    -->    zeros; pure; scf.if %a and %b { … }

Anything else under a condition stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    attributes_of,
    before,
    clone,
    constant_value,
    create,
    defining_op,
    erase,
    operations,
    walk,
    walk_named,
)
from mlir_async_pipe.bindings.structured_ops import end_of, write_if, yield_values
from mlir_async_pipe.facts.loops.annotations import counted_loops
from mlir_async_pipe.facts.loops.statements import copied_load, fills_workgroup, needed_values
from mlir_async_pipe.facts.values.memory_roots import Root, may_alias, root_of
from mlir_async_pipe.lowering.scopes.masked_loads import is_zero, may_move
from mlir_async_pipe.session.passes import NoOptions, register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import accesses, flag_order
from mlir_async_pipe.vocabulary.rows import UNORDERED


@dataclass(frozen=True)
class GuardedStore:
    """A store of what `load` reads, under a condition, and the store of zeros otherwise."""

    load: Operation
    store: Operation
    zeros: Operation


def simplify_guards(loop: Operation) -> None:
    """Rewrite the conditions in the body of a loop, inner ones first."""
    conditions = [op for op in walk_named(loop, "scf.if".__eq__) if not len(op.results)]
    for condition in reversed(conditions):
        _merge_inner(condition)
        decided = constant_value(condition.operands[0])
        if decided is not None:
            _decide(condition, bool(decided))
            continue
        found = _guarded_stores(condition)
        if found:
            _rewrite(condition, found)


def _merge_inner(condition: Operation) -> None:
    """Make one of two conditions around copies whose places are zeroed before."""
    *pure, inner = _then(condition) or [condition]
    if (
        inner.name != "scf.if"
        or len(inner.results)
        or any(list(op.regions[1].blocks) for op in (condition, inner))
        or not all(map(may_move, pure))
        or not _pairs(_then(inner), [], _stores_before(condition))
    ):
        return
    for op in pure:
        op.move_before(condition)
    outer, other = condition.operands[0], inner.operands[0]
    both = create(
        "arith.andi", [outer, other], [outer.type], ip=before(condition), loc=inner.location
    )
    condition.operands[0] = both.results[0]
    for op in _then(inner):
        op.move_before(inner)
    inner.erase()


def _decide(condition: Operation, holds: bool) -> None:
    region = condition.regions[0 if holds else 1]
    blocks = list(region.blocks)
    for op in operations(blocks[0])[:-1] if blocks else ():
        op.move_before(condition)
    condition.erase()


def _guarded_stores(condition: Operation) -> list[GuardedStore]:
    """All stores under a condition, if it does nothing but load and store, and each place is
    filled with zeros otherwise; [] if not."""
    blocks = list(condition.regions[1].blocks)
    otherwise = operations(blocks[0])[:-1] if blocks else []
    zeros = [op for op in otherwise if not may_move(op)] or _stores_before(condition)
    return _pairs(_then(condition), otherwise, zeros)


def _then(condition: Operation) -> list[Operation]:
    return operations(condition.regions[0].blocks[0])[:-1]


def _pairs(
    then: list[Operation], otherwise: list[Operation], zeros: list[Operation]
) -> list[GuardedStore]:
    """Each store of `then` with the one of `zeros` to its place; [] where they are not all that there is."""
    found: list[GuardedStore] = []
    for store in (op for op in then if any(a.writes for a in accesses(op))):
        load = copied_load(store)
        match = next((z for z in zeros if _same_place(store, z)), None)
        if load is None or match is None or load not in then:
            return []
        if load.results[0] != store.operands[0]:
            return []
        zeros.remove(match)
        found.append(GuardedStore(load, store, match))
    halves = {op for each in found for op in (each.load, each.store)}
    plain = all(op in halves or may_move(op) for op in then)
    return found if plain and not (otherwise and zeros) else []


def _stores_before(condition: Operation) -> list[Operation]:
    """The stores of zeros before an op, with nothing between but loads and stores that leave them alone."""
    siblings = operations(condition.block)
    found: list[Operation] = []
    touched: list[Root] = []
    for op in reversed(siblings[: siblings.index(condition)]):
        inner = [part for part in walk(op) if part.name != "scf.yield"]
        if not all(map(_lets_pass, inner)):
            break
        roots = [root_of(access.memory) for part in inner for access in accesses(part)]
        if (
            fills_workgroup(op)
            and is_zero(op.operands[0])
            and not any(may_alias(roots[0], other) for other in touched)
        ):
            found.append(op)
        else:
            touched += roots
    return found


def _lets_pass(op: Operation) -> bool:
    """Whether a store to other memory may move over an op."""
    return may_move(op) or op.name == "scf.if" or bool(accesses(op) and flag_order(op) == UNORDERED)


def _same_place(store: Operation, zeros: Operation) -> bool:
    """Whether `zeros` stores zeros of the same type with the very subscripts of `store`."""
    (value, *place), (zero, *other) = store.operands, zeros.operands
    return (
        store.name == zeros.name
        and value.type == zero.type
        and is_zero(zero)
        and len(place) == len(other)
        and all(map(_same_value, place, other))
    )


def _same_value(a: Value, b: Value) -> bool:
    """Whether two values are one, or are computed alike: once in each arm of a condition."""
    number = constant_value(a)
    if a == b or (number is not None and number == constant_value(b)):
        return True
    one, other = defining_op(a), defining_op(b)
    return (
        one is not None
        and other is not None
        and one.name == other.name
        and may_move(one)
        and len(one.results) == 1
        and len(one.operands) == len(other.operands)
        and attributes_of(one) == attributes_of(other)
        and all(map(_same_value, one.operands, other.operands))
    )


def _rewrite(condition: Operation, found: list[GuardedStore]) -> None:
    for each in found:
        mapping: dict[Value, Value] = {}
        guarded = _guarded_load(condition, each)
        mapping[each.store.operands[0]] = guarded
        for op in _slice(list(each.store.operands)[1:], condition):
            clone(op, mapping, before(condition))
        clone(each.store, mapping, before(condition))
    gone = [each.zeros for each in found if each.zeros.block == condition.block]
    condition.erase()
    erase(gone)


def _guarded_load(condition: Operation, each: GuardedStore) -> Value:
    """`scf.if` that gives what is loaded, else zero."""
    value, zero = each.store.operands[0], each.zeros.operands[0]
    chosen = write_if(condition.operands[0], [value], [zero], before(condition), each.load.location)
    for region in chosen.regions:
        end = end_of(region)
        wanted = end.operands[0]
        mapping: dict[Value, Value] = {}
        for op in _slice([wanted], condition):
            clone(op, mapping, before(end))
        yield_values(end, [mapping.get(wanted, wanted)])
    return chosen.results[0]


def _slice(values: list[Value], condition: Operation) -> list[Operation]:
    """The ops under a condition that values are made of, in order."""
    inside = [
        op for region in condition.regions for block in region.blocks for op in operations(block)
    ]
    needed = needed_values(values, set(inside))
    return [op for op in inside if not needed.isdisjoint(op.results)]


@register("async-pipe-normalise-guards", "write guarded copies as copies of guarded loads")
def run(module: Any, options: NoOptions, session: Session) -> None:
    for loop in counted_loops(module):
        simplify_guards(loop)
