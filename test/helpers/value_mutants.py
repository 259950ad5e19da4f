"""Breaks what a pipeline computes, in one place, mostly without a race.

shifted-slot         a copy or a read in a loop uses the next slot
shifted-subscript    one subscript + 1
swapped-subscripts   two subscripts of one access change places
operand              one operand of an op becomes another value of its type
constant             a constant + 1: a bound, a step, a number of elements
guard                a comparison takes or leaves the equal case
lost-store           a store of the prologue, the kernel or the epilogue is gone
full-copy            a copy that fills up with zeros copies all its elements
swapped-carry        two carried values of a loop change places in its yield
swapped-start        two carried values change places where the loop begins
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from helpers import check_mutants, thread_mutants
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    create,
    erase,
    integer_attribute,
    operations,
    set_integer,
    walk,
)
from mlir_async_pipe.vocabulary import groups_of

# A copy of four numbers an iteration, of 38 numbers; the last iteration has two, and zeros fill the tile.
COPIES = """
gpu.module @k {
  gpu.func @sums(%from: memref<38xf32> {llvm.noalias}, %to: memref<40xf32> {llvm.noalias})
      workgroup(%tile: memref<4xf32, #gpu.address_space<workgroup>> {llvm.align = 16 : i64})
      kernel attributes {known_block_size = array<i32: 1, 1, 1>} {
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c38 = arith.constant 38 : index
    %zero = arith.constant dense<0.0> : vector<4xf32>
    %total = scf.for %i = %c0 to %c38 step %c4 iter_args(%sum = %zero) -> (vector<4xf32>) {
      %left = arith.subi %c38, %i : index
      %count = arith.minsi %left, %c4 : index
      %copy = nvgpu.device_async_copy %from[%i], %tile[%c0], 4, %count : memref<38xf32> to memref<4xf32, #gpu.address_space<workgroup>>
      %group = nvgpu.device_async_create_group %copy
      nvgpu.device_async_wait %group
      gpu.barrier
      %v = vector.load %tile[%c0] : memref<4xf32, #gpu.address_space<workgroup>>, vector<4xf32>
      %w = arith.addf %sum, %v : vector<4xf32>
      vector.store %w, %to[%i] : memref<40xf32>, vector<4xf32>
      gpu.barrier
      scf.yield %w : vector<4xf32>
    } {async_pipe.num_stages = 3 : i64}
    gpu.return
  }
}
"""

Mutate = Callable[[Any, int], "bool | None"]
_STORES = ("memref.store", "vector.store", "vector.transfer_write")
# slt and sle, sgt and sge, ult and ule, ugt and uge.
_OTHER = {2: 3, 3: 2, 4: 5, 5: 4, 6: 7, 7: 6, 8: 9, 9: 8}


def _pick(found: list[Any], number: int) -> Any:
    return found[number] if number < len(found) else None


def operand(module: Any, number: int) -> bool | None:
    """The value that the op right before gives, or the other operand."""
    places = [
        (op, place)
        for op in walk(module)
        if op.name.split(".")[0] in ("arith", "math", "vector", "nvgpu") and len(op.operands) > 1
        for place in range(len(op.operands))
    ]
    found = _pick(places, number)
    if found is None:
        return None
    op, place = found
    old = op.operands[place]
    siblings = operations(op.block)
    before = [r for other in siblings[: siblings.index(op)] for r in other.results]
    fitting = [v for v in (*op.operands, *reversed(before)) if v.type == old.type and v != old]
    if not fitting:
        return False
    op.operands[place] = fitting[0]
    return True


def constant(module: Any, number: int) -> bool | None:
    integers = [
        op
        for op in walk(module)
        if op.name == "arith.constant" and integer_attribute(op, "value") is not None
    ]
    op = _pick(integers, number)
    if op is None:
        return None
    value = integer_attribute(op, "value") or 0
    more = value + 1 if value < 2**63 - 1 else -(2**63)
    op.attributes["value"] = ir.IntegerAttr.get(op.results[0].type, more)
    return True


def guard(module: Any, number: int) -> bool | None:
    ordered = [
        op
        for op in walk(module)
        if op.name == "arith.cmpi" and integer_attribute(op, "predicate") in _OTHER
    ]
    op = _pick(ordered, number)
    if op is None:
        return None
    set_integer(op, "predicate", _OTHER[integer_attribute(op, "predicate") or 0], 64)
    return True


def lost_store(module: Any, number: int) -> bool | None:
    op = _pick([op for op in walk(module) if op.name in _STORES], number)
    if op is None:
        return None
    erase([op])
    return True


def full_copy(module: Any, number: int) -> bool | None:
    copies = [
        (op, places[0])
        for op in walk(module)
        if op.name == "nvgpu.device_async_copy" and (places := groups_of(op)["source_elements"])
    ]
    found = _pick(copies, number)
    if found is None:
        return None
    op, place = found
    kind = op.operands[place].type
    whole = ir.IntegerAttr.get(kind, integer_attribute(op, "dstElements") or 0)
    made = create(
        "arith.constant", [], [kind], {"value": whole}, ip=ir.InsertionPoint(op), loc=op.location
    )
    op.operands[place] = made.results[0]
    return True


def _swapped(name: str, first_carried: int) -> Mutate:
    """Two neighbours of one type, of the operands from `first_carried` on of loops' ops."""

    def swapped(module: Any, number: int) -> bool | None:
        pairs = []
        for op in walk(module):
            if op.name != name or (name == "scf.yield" and op.parent.name != "scf.for"):
                continue
            last: dict[str, int] = {}
            for place in range(first_carried, len(op.operands)):
                kind = str(op.operands[place].type)
                if kind in last:
                    pairs.append((op, last[kind], place))
                last[kind] = place
        found = _pick(pairs, number)
        if found is None:
            return None
        op, one, other = found
        if op.operands[one] == op.operands[other]:
            return False
        op.operands[one], op.operands[other] = op.operands[other], op.operands[one]
        return True

    return swapped


KINDS: dict[str, Mutate] = {
    "shifted-slot": check_mutants.shifted_slot,
    "shifted-subscript": thread_mutants.shifted_subscript,
    "swapped-subscripts": thread_mutants.swapped_subscripts,
    "operand": operand,
    "constant": constant,
    "guard": guard,
    "lost-store": lost_store,
    "full-copy": full_copy,
    "swapped-carry": _swapped("scf.yield", 0),
    "swapped-start": _swapped("scf.for", 3),
}
