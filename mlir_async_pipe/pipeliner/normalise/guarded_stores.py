"""Pass `async-pipe-normalise-guards`: writes a guarded copy that stores zeros otherwise as a copy of a guarded load.

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

An asynchronous copy fills with zeros by itself, but for AMD's, if its group is waited for before its memory is used:

    scf.if %c { copy %A[%i], %tile[%t], 4 }               %n = arith.select %c, %c4, %c0
    else { vector.store %zeros, %tile[%t] }        -->    copy %A[%i], %tile[%t], 4, %n

Anything else under a condition stays.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    OpWriter,
    Value,
    again,
    attributes_of,
    before,
    clone,
    constant,
    constant_value,
    defining_op,
    enclosing,
    erase,
    grow_group,
    integer_attribute,
    operations,
    outermost,
    type_text,
    users,
    walk,
    walk_named,
)
from mlir_async_pipe.bindings.structured_ops import end_of, write_if, yield_values
from mlir_async_pipe.chips.target import ChipOptions, with_target
from mlir_async_pipe.facts.loops.annotations import counted_loops, read_loop, static_trip_count
from mlir_async_pipe.facts.loops.statements import (
    Copies,
    copied_load,
    copies_of,
    fills_workgroup,
    needed_values,
    read_body,
    reads_global,
)
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter, bits_of_text
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import Root, may_meet, roots_in
from mlir_async_pipe.lowering.scopes.masked_loads import NotCopies, is_zero, loaded_value, may_move
from mlir_async_pipe.lowering.scopes.scope_copies import CopyPair, copy_width
from mlir_async_pipe.pipeliner.normalise.affine_loops import MOST_PIECES
from mlir_async_pipe.pipeliner.normalise.sink_annotations import loads_itself
from mlir_async_pipe.pipeliner.plan.legality import zero_of
from mlir_async_pipe.session.passes import register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import accesses, flag_order, given_count, is_pure, row_of
from mlir_async_pipe.vocabulary.async_ops import DEVICE_COPY
from mlir_async_pipe.vocabulary.launch_ids import enclosing_launch_size
from mlir_async_pipe.vocabulary.memory_ops import size_of_last_group
from mlir_async_pipe.vocabulary.rows import UNORDERED


@dataclass(frozen=True)
class GuardedStore:
    """A store of what `load` reads, under a condition, and the store of zeros otherwise."""

    load: Operation
    store: Operation
    zeros: Operation


def simplify_guards(loop: Operation, *, fills: bool) -> None:
    """Rewrite the conditions in the body of a loop, inner ones first; copies can fill with zeros if it `fills`."""
    conditions = [op for op in walk_named(loop, "scf.if".__eq__) if not len(op.results)]
    for condition in reversed(conditions):
        _merge_inner(condition)
        decided = constant_value(condition.operands[0])
        if decided is not None:
            _decide(condition, bool(decided))
            continue
        found = _guarded_stores(condition)
        copies = _filled_copies(condition) if fills and not found else []
        if found:
            _rewrite(condition, found)
        elif copies and _are_waited_for(condition, copies):
            _fill(condition, copies)


def _filled_copies(condition: Operation) -> list[Operation]:
    """All copies under a condition, if it does nothing else, and otherwise fills each place with zeros; [] if not."""
    zeros = [op for op in _side(condition, 1) if not may_move(op)]
    copies = [op for op in _side(condition, 0) if not may_move(op)]
    if len(zeros) != len(copies):
        return []
    for copy in copies:
        whole = copy.name == DEVICE_COPY and not size_of_last_group(copy)
        if not whole or any(map(users, copy.results)):
            return []
        match = next((z for z in zeros if _fills_place(copy, z)), None)
        if match is None:
            return []
        zeros.remove(match)
    return copies


def _fills_place(copy: Operation, zeros: Operation) -> bool:
    if not fills_workgroup(zeros) or not is_zero(zeros.operands[0]):
        return False
    (place,) = (access for access in accesses(copy) if access.writes)
    (filled,) = accesses(zeros)
    return (
        place.memory == filled.memory
        and None not in (place.extent, filled.extent)
        and prod(place.extent or ()) == prod(filled.extent or ())
        and all(map(_same_value, place.indices, filled.indices))
    )


def _are_waited_for(condition: Operation, copies: list[Operation]) -> bool:
    """Whether the group of copies is committed after a condition, and waited for by all before their memory is used."""
    roots = roots_in(copies, writes=True)
    tokens: list[Value] | None = None
    siblings = operations(condition.block)
    for op in siblings[siblings.index(condition) + 1 :]:
        row, inside = row_of(op), list(walk(op))
        if any(row_of(inner).wait is not None for inner in inside):
            given = 0 if row.wait is None else given_count(op)
            by_token = given is None and any(value in (tokens or ()) for value in op.operands)
            return tokens is not None and row.wait is not None and (given == 0 or by_token)
        if row.commits is not None:
            tokens = list(op.results) if tokens is None else tokens
        elif any(row_of(inner).commits is not None for inner in inside):
            return False
        elif op.name == DEVICE_COPY or (op.name == "scf.if" and _filled_copies(op)):
            continue
        elif may_meet(roots_in([op]), roots):
            return False
    return False


def _fill(condition: Operation, copies: list[Operation]) -> None:
    for copy in copies:
        mapping = _computed(list(copy.operands), condition, before(condition))
        write = IntegerWriter(before(condition), copy.location)
        count = write.constant(integer_attribute(copy, "dstElements") or 0)
        limit = write.select(condition.operands[0], count, write.constant(0))
        filling = clone(copy, mapping, before(condition))
        attributes = attributes_of(filling)
        grow_group(attributes, -1, 1)
        again(filling, [*filling.operands, limit], attributes=attributes)
    condition.erase()


def _merge_inner(condition: Operation) -> None:
    """Make one of two conditions around copies whose places are zeroed before."""
    *pure, inner = _side(condition, 0) or [condition]
    if (
        inner.name != "scf.if"
        or len(inner.results)
        or any(list(op.regions[1].blocks) for op in (condition, inner))
        or not all(map(may_move, pure))
        or not _pairs(_side(inner, 0), [], _stores_before(condition))
    ):
        return
    for op in pure:
        op.move_before(condition)
    outer, other = condition.operands[0], inner.operands[0]
    write = OpWriter(before(condition), inner.location)
    condition.operands[0] = write.make("arith.andi", [outer, other], outer.type)
    _decide(inner, True)


def _decide(condition: Operation, holds: bool) -> None:
    for op in _side(condition, 0 if holds else 1):
        op.move_before(condition)
    condition.erase()


def _guarded_stores(condition: Operation) -> list[GuardedStore]:
    """All stores under a condition that only loads and stores, and zeroes each place otherwise; [] if it does not."""
    otherwise = _side(condition, 1)
    zeros = [op for op in otherwise if not may_move(op)] or _stores_before(condition)
    return _pairs(_side(condition, 0), otherwise, zeros)


def _side(condition: Operation, number: int) -> list[Operation]:
    """The ops of a side of a condition, but for its end; none of a side that there is not."""
    return [op for block in condition.regions[number].blocks for op in operations(block)[:-1]]


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
    touched: set[Root] = set()
    for op in reversed(siblings[: siblings.index(condition)]):
        inner = [part for part in walk(op) if part.name != "scf.yield"]
        if not all(
            may_move(part)
            or part.name == "scf.if"
            or (accesses(part) and flag_order(part) == UNORDERED)
            for part in inner
        ):
            break
        roots = roots_in([op])
        if fills_workgroup(op) and is_zero(op.operands[0]) and not may_meet(roots, touched):
            found.append(op)
        else:
            touched |= roots
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
        value, *place = each.store.operands
        mapping = {value: _guarded_load(condition, each)}
        clone(
            each.store, _computed(place, condition, before(condition), mapping), before(condition)
        )
    gone = [each.zeros for each in found if each.zeros.block == condition.block]
    condition.erase()
    erase(gone)


def _guarded_load(condition: Operation, each: GuardedStore) -> Value:
    """`scf.if` that gives what is loaded, else zero."""
    value, zero = each.store.operands[0], each.zeros.operands[0]
    chosen = write_if(condition.operands[0], [value], [zero], before(condition), each.load.location)
    for end in map(end_of, chosen.regions):
        wanted = end.operands[0]
        yield_values(end, [_computed([wanted], condition, before(end)).get(wanted, wanted)])
    return chosen.results[0]


def _computed(
    values: list[Value], condition: Operation, ip: Any, known: dict[Value, Value] | None = None
) -> dict[Value, Value]:
    """What values are made of under a condition, computed elsewhere; but for what is `known` there."""
    inside = [*_side(condition, 0), *_side(condition, 1)]
    needed, mapping = needed_values(values, set(inside)), known or {}
    for op in inside:
        if not needed.isdisjoint(op.results):
            clone(op, mapping, ip)
    return mapping


@register(
    "async-pipe-normalise-guards", "write guarded copies as copies of guarded loads", ChipOptions
)
def run(module: Any, options: ChipOptions, session: Session) -> None:
    target = with_target(options, session).target
    for loop in counted_loops(module):
        simplify_guards(loop, fills=target is None or target.lowering == "nvvm")


def take_loads_out(loop: Operation, *, fills: bool) -> None:
    """Do so with the conditions in the body of a loop, also with those that fill workgroup memory if it `fills`."""
    for condition in _conditions(loop):
        if fills or not any(map(fills_workgroup, walk(condition))):
            _take_out(condition)


def take_apart_copies(loop: Operation) -> None:
    """Do so with all of them, and with loops of copies, of a loop that cannot have them asynchronous."""
    unroll_copy_loops(loop)
    take_loads_out(loop, fills=True)


def _conditions(within: Operation) -> list[Operation]:
    """The conditions without results in the body of a loop, or in one of these, inner ones first."""
    blocks = [block for region in within.regions for block in region.blocks]
    found = [op for block in blocks for op in operations(block)]
    conditions = [op for op in found if op.name == "scf.if" and len(op.results) == 0]
    return [op for each in conditions for op in (*_conditions(each), each)]


def _take_out(condition: Operation) -> None:
    (block,) = condition.regions[0].blocks
    first = _reading(operations(block)[:-1])
    loaded = [result for op in first if _loads(op) for result in op.results]
    if not loaded or any(zero_of(value.type) is None for value in loaded):
        return
    write = IntegerWriter.before(condition)
    values = _loaded_if(condition.operands[0], first, loaded, write)
    for value, result in zip(loaded, values, strict=True):
        value.replace_all_uses_with(result)
    erase(op for op in reversed(first) if not any(users(result) for result in op.results))


def _reading(ops: list[Operation]) -> list[Operation]:
    """The loads from global memory that come first, and the pure ops that they need."""
    found: list[Operation] = []
    for op in ops:
        if not (may_move(op) or _loads(op)):
            break
        found.append(op)
    while found and not _loads(found[-1]):
        found.pop()
    return found


def _loads(op: Operation) -> bool:
    """Whether an op does nothing but load from global memory, or is a condition of such loads."""
    if op.name != "scf.if":
        return reads_global(op) and len(op.regions) == 0
    inside = [*_side(op, 0), *_side(op, 1)]
    return len(op.results) > 0 and all(may_move(inner) or _loads(inner) for inner in inside)


# Loops that fill a tile ----------------------------------------------------------------------


def unroll_copy_loops(loop: Operation) -> None:
    """Do so with the loops in the body of a loop, inner ones first."""
    for op in operations(loop.regions[0].blocks[0]):
        if op.name == "scf.for":
            unroll_copy_loops(op)
            if _copies_a_tile(op):
                _unroll(op)


def _copies_a_tile(loop: Operation) -> bool:
    trips = static_trip_count(loop)
    if trips is None or len(loop.results) or constant_value(loop.operands[0]) is None:
        return False
    body = [op for op in walk(loop) if op != loop]
    loads = sum(map(reads_global, body))
    return 0 < loads * trips <= MOST_PIECES and all(
        op.name == "scf.if" or is_pure(op) or reads_global(op) or fills_workgroup(op) for op in body
    )


def _unroll(loop: Operation) -> None:
    block = loop.regions[0].blocks[0]
    counter, ip = block.arguments[0], before(loop)
    first, step = (constant_value(loop.operands[number]) for number in (0, 2))
    assert first is not None and step is not None
    for number in range(static_trip_count(loop) or 0):
        value = constant(first + number * step, counter.type, ip, loop.location)
        mapping = {counter: value}
        for op in operations(block)[:-1]:
            clone(op, mapping, ip)
    loop.erase()


# Indices that do not change ------------------------------------------------------------------


def take_indices_out(loop: Operation) -> None:
    """Load the integers before a loop that each of its iterations loads from the same address. Nobody may write
    them meanwhile: nothing in the function may write that memory, or order what other functions write."""
    found = _same_in_all_iterations(loop)
    if not any(map(accesses, found)) or not _nobody_writes(loop, filter(accesses, found)):
        return
    loaded = [result for op in found if accesses(op) for result in op.results]
    if static_trip_count(loop):
        mapping: dict[Value, Value] = {}
        for op in found:
            clone(op, mapping, before(loop))
        values = [mapping[value] for value in loaded]
    else:
        write = IntegerWriter.before(loop)
        signed = "ult" if "unsignedCmp" in loop.attributes else "slt"
        runs = write.compare(signed, loop.operands[0], loop.operands[1])
        values = _loaded_if(runs, found, loaded, write)
    for value, new in zip(loaded, values, strict=True):
        value.replace_all_uses_with(new)
    erase(op for op in reversed(found) if accesses(op))


def _same_in_all_iterations(loop: Operation) -> list[Operation]:
    """The loads of integers in a loop whose addresses do not change, and what these are computed with, in order."""
    block = loop.regions[0].blocks[0]
    varying = set(block.arguments)
    fixed: dict[Operation, None] = {}
    for op in operations(block)[:-1]:
        kinds = (type_text(result.type) for result in op.results)
        loads = reads_global(op) and len(op.regions) == 0 and None not in map(bits_of_text, kinds)
        if (may_move(op) or loads) and varying.isdisjoint(op.operands):
            fixed[op] = None
        else:
            varying.update(op.results)
    reading = [op for op in fixed if accesses(op)]
    needed = needed_values([value for op in reading for value in op.operands], fixed)
    return [op for op in fixed if op in reading or not needed.isdisjoint(op.results)]


def _nobody_writes(loop: Operation, loads: Iterable[Operation]) -> bool:
    """Whether nothing in the function of a loop may write what these loads read, or orders writes of others."""
    function = enclosing(loop, FUNCTION_OPS)
    if function is None:
        return False
    if may_meet(roots_in(loads), roots_in([function], writes=True)):
        return False
    return all(flag_order(op) == UNORDERED for op in walk(function))


def _loaded_if(
    condition: Value, ops: list[Operation], loaded: list[Value], write: IntegerWriter
) -> list[Value]:
    """What copies of `ops` load under a condition, and zeros where it does not hold."""
    zeros = [write.zero(value.type, zero_of(value.type)) for value in loaded]
    chosen = write_if(condition, loaded, zeros, write.ip, write.location)
    end = end_of(chosen.regions[0])
    mapping: dict[Value, Value] = {}
    for op in ops:
        clone(op, mapping, before(end))
    yield_values(end, [mapping[value] for value in loaded])
    return list(chosen.results)


# Loops whose copies go through registers -------------------------------------------------------

# The widest load into registers, of all chips.
_LOAD_BYTES = 16


def takes_registers(loop: Operation, session: Session) -> bool:
    """Whether a loop loads into registers: it asks for that, or its copies would take more instructions than loads."""
    through = read_loop(loop).stage_through
    if through == "auto":
        return not_issued(copies_of(read_body(loop)), session) is not None
    return through == "registers"


def not_issued(copies: Copies, session: Session) -> tuple[str, Operation] | None:
    """Why the chip cannot issue a copy, or only as more instructions than a load takes, and at which op; None if it can."""
    chip = None if session.target is None else session.target.chip
    if chip is None or not copies.pairs:
        return None
    if not chip.copy_bytes:
        return f"{chip.name} has no asynchronous copy to workgroup memory", copies.pairs[0][0]
    arithmetic, waves = Arithmetic(), None
    if chip.copy_form is not None and chip.copy_form.wave_base:
        from mlir_async_pipe.lowering.rocdl.rocdl_copies import WaveCopies

        waves = WaveCopies(outermost(copies.pairs[0][0]), chip)
    for load, store in copies.pairs:
        found = loaded_value(store)
        if isinstance(found, NotCopies):
            return found.reason, found.at
        (source,), (target,) = accesses(load), accesses(store)
        width = copy_width(source, target, chip, arithmetic)
        if isinstance(width, str):
            return width, load
        bytes_, widest = width.elements * width.element_bytes, max(chip.copy_bytes)
        if widest < min(bytes_, _LOAD_BYTES):
            return (
                f"{chip.name} copies {widest} bytes at once, so a copy of {bytes_} bytes takes "
                f"{bytes_ // widest} instructions, and a load {-(-bytes_ // _LOAD_BYTES)}",
                load,
            )
        if waves is not None and enclosing_launch_size(store) is not None:
            refused = waves.refuse(CopyPair(store, found, width))
            if refused is not None:
                return refused, store
    return None


@register(
    "async-pipe-normalise-loads",
    "take loads out of conditions, so that they can run_loads ahead of them, and indices that do not change out of the loop",
    ChipOptions,
)
def run_loads(module: Any, options: ChipOptions, session: Session) -> None:
    """Takes loads out of a condition that computes and stores too, so that they can run ahead of it, and
    indices that do not change out of the loop.

        scf.if %c {                               %l = scf.if %c -> (f32) {
          %l = memref.load %A[%i]                   %v = memref.load %A[%i]
          %w = arith.addf %l, %x                    scf.yield %v
          memref.store %w, %O[%i]        -->      } else {
        }                                           scf.yield %zero
                                                  }
                                                  scf.if %c { %w = …; memref.store %w, %O[%i] }

    Only loads from global memory that come before all other memory accesses of the branch: they read the
    same values. A branch that fills workgroup memory is a guarded copy, and stays in one piece unless it has to
    go through registers: where the loop asks for them, or the chip issues its copies in more instructions
    than loads. A loop is one statement, so its loads run ahead of its stores only if they stand on their
    own: static loops of at most `MOST_PIECES` loads that do nothing else to memory are unrolled then,
    guards included.

        scf.for %r = %c0 to %c4 step %c1 {        %v0 = vector.load %A[%c0, …]
          %v = vector.load %A[%r, …]              vector.store %v0, %tile[%c0, …]
          vector.store %v, %tile[%r, …]     -->   … the same for rows 1 to 3
        }

    An index that is loaded in every iteration, and is the same in all, is loaded before the loop, if there is
    an iteration. A copy whose address it is then waits for nothing and runs as far ahead as all others.

        scf.for %k = %lo to %hi … {               %some = arith.cmpi slt, %lo, %hi
          %i = memref.load %rows[%t]        -->   %i = scf.if %some { memref.load %rows[%t] } else { 0 }
          copy %A[%i, %k] …                       scf.for … { copy %A[%i, %k] … }
    """
    session = with_target(options, session)
    for loop in counted_loops(module):
        take_indices_out(loop)
        if not any(len(op.regions) for op in operations(loop.regions[0].blocks[0])):
            continue
        if not loads_itself(loop):
            take_loads_out(loop, fills=False)
        if takes_registers(loop, session):
            take_apart_copies(loop)
