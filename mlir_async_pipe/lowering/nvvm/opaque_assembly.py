"""Inline assembly that LLVM and ptxas cannot see through, so that what stands behind it stays where it is.

    constants of loops         stay in registers
    special functions          stay beside products
    loads of tensor memory     are read after their waits

Both fold, move and rename whatever they know: of an assembly they know its operands and results alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    ancestors,
    as_kind,
    before,
    defining_op,
    has_body,
    operations,
    raw,
    type_text,
    unchanged,
    users,
    walk,
    walk_named,
)
from mlir_async_pipe.facts.costs.cost_model import is_special
from mlir_async_pipe.facts.flow.region_flow import Varying
from mlir_async_pipe.facts.values.integer_ops import integer_constant
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.vocabulary import accesses, given_count, named_row, row_of, tensor_use
from mlir_async_pipe.vocabulary.operator_table import OPERATORS
from mlir_async_pipe.vocabulary.rows import WGMMA
from mlir_async_pipe.vocabulary.tensor_memory import waits_for

# Constants in registers ----------------------------------------------------------------------
#
# Keeps constants of loops in registers, where an instruction has room for one and needs two.
#
#     %a = llvm.and %w, 0x000f000f                     %held = asm "max.u32 of %laneid and 0x000f000f"   before all loops
#     %b = llvm.or %a, 0x64006400            -->       %a = llvm.and %w, %held
#                                                      %b = llvm.or %a, 0x64006400
#
# Both ops are one LOP3, which takes one immediate. ptxas makes the other constant again before each of them, in
# every iteration: 60 of the 471 instructions in the loop of an int4 GEMM. It folds whatever it knows to be a
# constant, so the number has to come from something that it does not know: the number of a lane is below
# 32 (PTX ISA, %laneid), and the larger one of it and a constant of 32 or more is the constant.

# Of these two in a row are one LOP3.
_BITWISE = ("and_", "or_", "xor")
# A register for less than that many instructions an iteration is not worth it.
FEWEST = 8
# Registers that a kernel gives for it.
MOST = 2
LANES = 32


class Pair(NamedTuple):
    """Two ops in a row, each with a constant: its number among the operands, and what it is."""

    ops: tuple[Operation, Operation]
    places: tuple[int, int]
    constants: tuple[int, int]


def hold_constants(root: Operation) -> None:
    """Do so in every llvm.func below `root`."""
    for function in walk_named(root, "llvm.func".__eq__, inside=False):
        if has_body(function):
            _hold_in(function)


def _hold_in(function: Operation) -> None:
    with unchanged():
        pairs = [
            pair
            for block in Varying(function.regions[0]).blocks()
            for op in operations(block)
            if (pair := _pair_of(op)) is not None
        ]
    for _ in range(MOST):
        counted = Counter(c for pair in pairs for c in pair.constants if c >= LANES)
        if not counted:
            return
        constant, times = counted.most_common(1)[0]
        if times < FEWEST:
            return
        first = operations(function.regions[0].blocks[0])[0]
        held = _held(constant, LlvmBuilder(before(first), function.location))
        for pair in pairs:
            if constant in pair.constants:
                number = pair.constants.index(constant)
                pair.ops[number].operands[pair.places[number]] = held
        pairs = [pair for pair in pairs if constant not in pair.constants]


def _pair_of(op: Operation) -> Pair | None:
    """An op and the only one that uses it, both bitwise of 32 bits with constants that differ."""
    constant = _constant_of(op)
    if constant is None:
        return None
    following = users(op.results[0])
    other = _constant_of(following[0]) if len(following) == 1 else None
    if other is None or other[1] == constant[1]:
        return None
    return Pair((op, following[0]), (constant[0], other[0]), (constant[1], other[1]))


def _constant_of(op: Operation) -> tuple[int, int] | None:
    row = OPERATORS.get(op.name)
    if row is None or row.method not in _BITWISE or type_text(op.results[0].type) != "i32":
        return None
    for place, operand in enumerate(op.operands):
        number = integer_constant(operand)
        if number is not None:
            return place, number % (1 << 32)
    return None


def _held(constant: int, build: LlvmBuilder) -> Any:
    text = f"{{ .reg .b32 %lane; mov.u32 %lane, %laneid; max.u32 $0, %lane, {constant}; }}"
    return build.assembly(text, "=r", [], [build.integer(32)]).results[0]


# Keeps special functions beside the products of a warpgroup that they were written beside.
#
#     nvvm.wgmma.wait.group 1                     nvvm.wgmma.wait.group 1
#     %w = nvvm.ex2 …   %l = … %w …        -->    %w = nvvm.ex2 …   %l = … %w …
#     nvvm.wgmma.wait.group 0                     asm "@p pmevent 0", with p = the bits of %l are all ones
#                                                 nvvm.wgmma.wait.group 0
#
# The softmax of attention is computed while the tensor cores multiply for the tile before (Shah and others,
# FlashAttention-3, 2024, section 3.2). ptxas moves arithmetic over a wait: of an attention whose weights stay in registers it sank
# all 34 exponentials below the second wait, where the tensor cores have nothing to do. It does not move an instruction
# with an effect, nor what that one needs: a pmevent triggers a counter of a profiler (PTX ISA, pmevent), and
# would only do so on a NaN that no instruction makes (PTX ISA, NaN payloads: 0x7fffffff). Three instructions hold a whole softmax.
#
# A store of what was computed does the same, so nothing is written where most of it is stored before the wait.


# Values that are named before a wait: each is a comparison.
MOST_EVENTS = 4


def keep_beside_products(root: Operation) -> None:
    """Do so before each wait for products in a block below `root`."""
    with unchanged():
        blocks = dict.fromkeys(op.block for op in walk_named(root, _is_wait))
        found = [held for block in blocks for held in _held_in(operations(block))]
    for wait, values in found:
        _hold(wait, values)


def _is_wait(name: str) -> bool:
    row = named_row(name)
    return row.queue == WGMMA and row.wait is not None


def _held_in(ops: list[Operation]) -> Iterator[tuple[Operation, tuple[Value, ...]]]:
    """Waits, each with the values that are to be there before it begins."""
    flying, since = 0, 0
    for at, op in enumerate(ops):
        row = row_of(op)
        if row.queue != WGMMA:
            continue
        if row.wait is not None:
            left = given_count(op) or 0
            values = _last_of_special(ops[since:at]) if flying > left else ()
            if values:
                yield op, values
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
        for owner in map(defining_op, op.operands):
            need |= needs.get(owner, 0) if owner is not None else 0
        if is_special(op):
            need |= 1 << special
            special += 1
        needs[op] = need
        if any(access.writes for access in accesses(op)):
            covered |= need
    if 2 * covered.bit_count() > special:
        return ()
    values: list[Value] = []
    single = (op for op in ops if len(op.results) == 1)
    registers = [op for op in single if type_text(op.results[0].type) in ("f32", "i32")]
    while registers and covered != (1 << special) - 1 and len(values) < MOST_EVENTS:
        best = max(registers, key=lambda op: (needs[op] & ~covered).bit_count())
        if not needs[best] & ~covered:
            break
        covered |= needs[best]
        values.append(best.results[0])
    return tuple(values)


def _hold(wait: Operation, values: tuple[Value, ...]) -> None:
    build = LlvmBuilder(before(wait), wait.location)
    i32 = build.integer(32)
    bits = [v if v.type == i32 else build.cast("arith.bitcast", v, i32) for v in values]
    more = "".join(f"setp.eq.or.b32 p, ${n}, -1, p; " for n in range(1, len(bits)))
    text = f"{{ .reg .pred p; setp.eq.b32 p, $0, -1; {more}@p pmevent 0; }}"
    build.assembly(text, ",".join("r" * len(bits)), bits, [], has_effects=True)


# Has what a load from tensor memory fills read after its wait, in PTX too.
#
#     %v = nvvm.tcgen05.ld %a : vector<32xi32>         %v = nvvm.tcgen05.ld %a : vector<32xi32>
#     nvvm.tcgen05.wait <load>                   -->   nvvm.tcgen05.wait <load>
#     … %v …                                           %w = asm "", "=r,…,0,…" %v        … %w …
#
# The load is asynchronous: its registers hold nothing before the wait (PTX ISA, tcgen05.ld). LLVM does not know that the wait
# has to do with them. Of pairs that are stored as 64 bits it packed all 32 registers above the wait, `mov.b64 %rd63, {%r81, %r82};
# …; tcgen05.wait::ld`. An empty assembly with an effect stays behind the wait, and gives the registers anew.


def read_after_waits(root: Operation) -> None:
    """Do so for the loads and waits that stand in one block below `root`."""
    waits = [op for op in walk(root) if waits_for(op) == "load"]
    for block in dict.fromkeys(op.block for op in waits):
        earlier: set[Operation] = set()
        loading: list[Value] = []
        for op in operations(block):
            earlier.add(op)
            if tensor_use(op) == "load":
                loading += op.results
            elif waits_for(op) == "load":
                for value in loading:
                    _read_after(op, value, earlier)
                loading = []


def _read_after(wait: Operation, value: Value, earlier: set[Operation]) -> None:
    build = LlvmBuilder(after(wait), wait.location)
    i32, vector = build.integer(32), as_kind(ir.VectorType, value.type)
    if (value.type if vector is None else vector.element_type) != i32:
        return
    early = [
        user
        for user in (raw(use.owner) for use in value.uses)
        if not earlier.isdisjoint((user, *ancestors(user)))
    ]
    if vector is None:
        new = build.assembly("", "=r,0", [value], [i32], has_effects=True).results[0]
        value.replace_all_uses_except(new, [*early, raw(new.owner)])
        return
    count = vector.shape[0]
    parts = [build.element(value, number) for number in range(count)]
    struct = ir.Type.parse(f"!llvm.struct<({', '.join(['i32'] * count)})>", wait.context)
    constraints = ",".join(["=r"] * count + [str(number) for number in range(count)])
    read = build.assembly("", constraints, parts, [struct], has_effects=True).results[0]
    new = build.make("llvm.mlir.poison", [], value.type, {})
    for number in range(count):
        position = {"position": ir.DenseI64ArrayAttr.get([number], wait.context)}
        member = build.make("llvm.extractvalue", [read], i32, position)
        new = build.with_element(new, member, number)
    value.replace_all_uses_except(new, [*early, *(raw(part.owner) for part in parts)])
