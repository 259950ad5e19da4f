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
can issue it. A condition that is a constant is decided. Anything else under a condition stays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    clone,
    constant_value,
    erase,
    operations,
    walk_named,
)
from mlir_async_pipe.bindings.structured_ops import end_of, hand_on, write_if
from mlir_async_pipe.facts.loops.annotations import counted_loops
from mlir_async_pipe.facts.loops.copy_statements import copied_load, fills_workgroup, reads_global
from mlir_async_pipe.lowering.scopes.masked_loads import is_zero, may_move
from mlir_async_pipe.session.passes import NoOptions, register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import accesses


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
        decided = constant_value(condition.operands[0])
        if decided is not None:
            _decide(condition, bool(decided))
            continue
        found = _guarded_stores(condition)
        if found:
            _rewrite(condition, found)


def _decide(condition: Operation, holds: bool) -> None:
    region = condition.regions[0 if holds else 1]
    blocks = list(region.blocks)
    for op in operations(blocks[0])[:-1] if blocks else ():
        op.move_before(condition)
    condition.erase()


def _guarded_stores(condition: Operation) -> list[GuardedStore]:
    """All stores under a condition, if it does nothing but load and store, and each place is
    filled with zeros otherwise; [] if not."""
    blocks = [list(region.blocks) for region in condition.regions]
    then = operations(blocks[0][0])[:-1]
    otherwise = operations(blocks[1][0])[:-1] if blocks[1] else []
    zeros = [op for op in otherwise if not may_move(op)] or _stores_before(condition)
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
    """The stores of zeros before an op, with nothing between but loads from global memory and ops
    that touch none."""
    siblings = operations(condition.block)
    found: list[Operation] = []
    for op in reversed(siblings[: siblings.index(condition)]):
        if fills_workgroup(op) and is_zero(op.operands[0]):
            found.append(op)
        elif not may_move(op) and not reads_global(op):
            break
    return found


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
    number = constant_value(a)
    return bool(a == b) or (number is not None and number == constant_value(b))


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
        hand_on(end, [mapping.get(wanted, wanted)])
    return chosen.results[0]


def _slice(values: list[Value], condition: Operation) -> list[Operation]:
    """The ops under a condition that values are made of, in order."""
    inside = [
        op for region in condition.regions for block in region.blocks for op in operations(block)
    ]
    needed: set[Any] = set(values)
    found: list[Operation] = []
    for op in reversed(inside):
        if any(result in needed for result in op.results):
            found.append(op)
            needed.update(op.operands)
    return found[::-1]


@register("async-pipe-normalise-guards", "write guarded copies as copies of guarded loads")
def run(module: Any, options: NoOptions, session: Session) -> None:
    for loop in counted_loops(module):
        simplify_guards(loop)
