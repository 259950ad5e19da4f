"""Keeps special functions beside the products of a warpgroup that they were written beside.

    nvvm.wgmma.wait.group 1                     nvvm.wgmma.wait.group 1
    %w = nvvm.ex2 …   %l = … %w …        -->    %w = nvvm.ex2 …   %l = … %w …
    nvvm.wgmma.wait.group 0                     asm "@p pmevent 0", with p = the bits of %l are all ones
                                                nvvm.wgmma.wait.group 0

The softmax of attention is computed while the tensor cores multiply for the tile before (Shah and others,
FlashAttention-3, 2024, section 3.2). ptxas moves arithmetic over a wait: of an attention whose weights stay in registers it sank
all 34 exponentials below the second wait, where the tensor cores have nothing to do. It does not move an instruction
with an effect, nor what that one needs: a pmevent triggers a counter of a profiler (PTX ISA, pmevent), and
would only do so on a NaN that no instruction makes (PTX ISA, NaN payloads: 0x7fffffff). Three instructions hold a whole softmax.

A store of what was computed does the same, so nothing is written where most of it is stored before the wait.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    defining_op,
    operations,
    type_text,
    unchanged,
    walk_named,
)
from mlir_async_pipe.facts.costs.cost_model import SPECIAL, costs_of
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.vocabulary import accesses, given_count, named_row, row_of
from mlir_async_pipe.vocabulary.rows import WGMMA

# Values that are named before a wait: each is a comparison.
MOST = 4


@dataclass(frozen=True)
class Held:
    """Values that are to be there before a wait begins."""

    wait: Operation
    values: tuple[Value, ...]


def keep_beside_products(root: Operation) -> None:
    """Do so before each wait for products in a block below `root`."""
    with unchanged():
        blocks = dict.fromkeys(op.block for op in walk_named(root, _is_wait))
        found = [held for block in blocks for held in _held_in(operations(block))]
    for held in found:
        _hold(held)


def _is_wait(name: str) -> bool:
    row = named_row(name)
    return row.queue == WGMMA and row.wait is not None


def _held_in(ops: list[Operation]) -> Iterator[Held]:
    flying, since = 0, 0
    for at, op in enumerate(ops):
        row = row_of(op)
        if row.queue != WGMMA:
            continue
        if row.wait is not None:
            left = given_count(op) or 0
            if flying > left:
                values = _last_of_special(ops[since:at])
                if values:
                    yield Held(op, values)
            flying = min(flying, left)
        elif row.commits:
            flying += 1
        since = at + 1


def _last_of_special(ops: list[Operation]) -> tuple[Value, ...]:
    """Values of 32 bits which need all special functions among the ops; none where most of these are stored."""
    special, covered = 0, 0
    needs: dict[Operation, int] = {}
    for op in ops:
        need = 0
        for operand in op.operands:
            owner = defining_op(operand)
            need |= needs.get(owner, 0) if owner is not None else 0
        if _is_special(op):
            need |= 1 << special
            special += 1
        needs[op] = need
        if any(access.writes for access in accesses(op)):
            covered |= need
    if 2 * covered.bit_count() > special:
        return ()
    values: list[Value] = []
    while covered != (1 << special) - 1 and len(values) < MOST:
        best = max(
            (op for op in ops if _has_register(op)),
            key=lambda op: (needs[op] & ~covered).bit_count(),
            default=None,
        )
        if best is None or not needs[best] & ~covered:
            break
        covered |= needs[best]
        values.append(best.results[0])
    return tuple(values)


def _is_special(op: Operation) -> bool:
    return costs_of(None).unit_of(op.name, op.name.partition(".")[0]).unit == SPECIAL


def _has_register(op: Operation) -> bool:
    return len(op.results) == 1 and type_text(op.results[0].type) in ("f32", "i32")


def _hold(held: Held) -> None:
    build = LlvmBuilder(before(held.wait), held.wait.location)
    i32 = build.integer(32)
    bits = [
        value if value.type == i32 else build.cast("arith.bitcast", value, i32)
        for value in held.values
    ]
    more = "".join(f"setp.eq.or.b32 p, ${n}, -1, p; " for n in range(1, len(bits)))
    text = f"{{ .reg .pred p; setp.eq.b32 p, $0, -1; {more}@p pmevent 0; }}"
    build.assembly(text, ",".join("r" * len(bits)), bits, [], has_effects=True)
