"""Copies what is read after a loop, biases and residuals, while the loop's last products run.

    scf.for { copy; wait; products }                kernel
                                                    copy %R[%i, %j] -> %own[0, %thread]
                                           -->      the last S - 1 iterations, in which nothing else is copied
                                                    commit; wait
    %r = vector.load %R[%i, %j]                     %r = vector.load %own[0, %thread]
    %s = arith.addf %sum, %r                        %s = arith.addf %sum, %r

A thread copies what it reads itself, to places of its own: no other thread has to see them, and no barrier is needed. Copies
are committed after the loop, so that its own counts stay. Where tiles overlap they join the first group of the next
tile's copies, before which the last iterations have to wait anyway. `async_pipe.residuals = "async"` asks for it, as
it takes workgroup memory.

A load moves over the last iterations and over what stands between them and its place: nothing there may write its
memory, or order it, but stores to other elements of the array (`C += A B`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    Value,
    after,
    ancestors,
    as_kind,
    before,
    clone,
    create,
    defining_op,
    enclosing,
    integer_attribute,
    operations,
    set_integer,
    walk,
)
from mlir_async_pipe.facts.flow.region_flow import runs_again
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.transactions import only_computes
from mlir_async_pipe.facts.values.alignment import access_alignment, element_bytes, static_strides
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.linear import Arithmetic, Linear
from mlir_async_pipe.facts.values.memory_roots import may_alias, root_of
from mlir_async_pipe.pipeliner.dependence.regions import is_opaque
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.expand.wide_stores import holds_numbers, stands_in_the_way
from mlir_async_pipe.pipeliner.plan.make_plan import Limits, Plan
from mlir_async_pipe.pipeliner.plan.memory_limit import workgroup_bytes
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Access, accesses, row_of
from mlir_async_pipe.vocabulary.async_ops import DEVICE_COPY, TOKEN_TYPE
from mlir_async_pipe.vocabulary.control_flow import LOOP_OPS
from mlir_async_pipe.vocabulary.launch_ids import Size
from mlir_async_pipe.vocabulary.op_table import token_ops
from mlir_async_pipe.vocabulary.rows import CP_ASYNC

MARK = "async_pipe.residual"
# PTX ISA, cp.async: copies of 16 bytes may pass by the first-level cache.
BYPASS_BYTES = 16


class _Refusal(Exception):
    """Why a load stays as it is."""


@dataclass(frozen=True)
class Residuals:
    """Loads after the loop of `plan` by blocks of `block` threads; `places[n]` is the place of load n in a thread's
    own ones of its type, as loads of the same elements share one."""

    plan: Plan
    block: Size
    loads: tuple[Operation, ...]
    places: tuple[int, ...]

    def mark(self) -> None:
        """Until the loop is written: where tiles overlap it clones what comes after its steps."""
        for op, place in zip(self.loads, self.places, strict=True):
            set_integer(op, MARK, place, 64)


def plan_residuals(
    plans: list[Plan], limits: Limits, around: Surroundings, session: Session, spent: int = 0
) -> list[Residuals]:
    """What is to be copied ahead after each loop that asks for it; remarks say what is, and what is not, and why. `spent`
    bytes of workgroup memory are what stores take."""
    found = []
    for plan in plans:
        if names.choice(plan.loop, names.RESIDUALS) != "async":
            continue
        chooser = _Chooser(plan, limits, around)
        taken, left = chooser.choose(spent)
        for op, why in left:
            said = f"'{op.name}' after the loop is not copied ahead: {why}"
            session.diagnostics.remark(said, code="residuals-as-written", at=op)
        if taken is not None:
            bytes_ = chooser.bytes_of(taken)
            spent += bytes_
            count = f"{len(taken.loads)} load{'s' if len(taken.loads) > 1 else ''}"
            session.diagnostics.remark(
                f"{count} after the loop: what is read is copied during its last iterations, {bytes_} bytes",
                code="residuals-ahead",
                at=taken.loads[0],
            )
            found.append(taken)
    return found


class _Chooser:
    def __init__(self, plan: Plan, limits: Limits, around: Surroundings) -> None:
        self.plan, self.limits, self.around = plan, limits, around
        self.loop, self.tiles = plan.loop, plan.tiles
        self.block = around.launch_size(plan.loop)
        self.arithmetic = Arithmetic(self.block)
        if self.tiles is None:
            block = operations(self.loop.block)
            self.following = block[block.index(self.loop) + 1 :]
        else:
            tail = self.tiles.tail
            self.following = [] if tail is None else operations(tail.regions[0].blocks[0])[:-1]

    def choose(self, spent: int) -> tuple[Residuals | None, list[tuple[Operation, str]]]:
        """The loads that are copied ahead, and those that are not, each with the reason; `spent` bytes of workgroup
        memory are those of other loops."""
        taken: list[Operation] = []
        places: list[int] = []
        numbers: dict[Any, dict[Any, int]] = {}
        left: list[tuple[Operation, str]] = []
        for op, stores, obstacle in self._read_after():
            try:
                if obstacle:
                    raise _Refusal(obstacle)
                elements = self._checked(op, stores)
            except _Refusal as refusal:
                left.append((op, str(refusal)))
            else:
                of_type = numbers.setdefault(op.results[0].type, {})
                places.append(of_type.setdefault(elements, len(of_type)))
                taken.append(op)
        if not taken or self.block is None:
            return None, left
        found = Residuals(self.plan, self.block, tuple(taken), tuple(places))
        limit, needed = self.limits.workgroup_bytes, self.bytes_of(found)
        planned = {buffer.root.identity for buffer in self.plan.buffers}
        used = spent + self.around.workgroup_bytes_beside(self.loop, planned)
        used += workgroup_bytes(self.plan.buffers)
        if limit is not None and used + needed > limit:
            why = f"{needed} bytes do not fit beside {used} of {limit} bytes of workgroup memory"
            return None, [(taken[0], why), *left]
        return found, left

    def bytes_of(self, found: Residuals) -> int:
        each: dict[Any, int] = {}
        for op, place in zip(found.loads, found.places, strict=True):
            size = element_bytes(op.operands[0]) * prod(accesses(op)[0].extent or ())
            each[op.results[0].type, place] = size
        return sum(each.values()) * prod(found.block)

    def _read_after(self) -> Iterator[tuple[Operation, list[Access], str]]:
        """Loads of global memory after the loop, with the stores on their way up, and what is in their way."""
        stores: list[Access] = []
        obstacle = ""
        for op in self.following:
            if op.name in LOOP_OPS:
                # What comes after is read after that one.
                return
            for inner in walk(op):
                if stands_in_the_way(inner):
                    obstacle = obstacle or f"'{inner.name}' stands before it"
                if _is_load(inner) and root_of(inner.operands[0]).space == "global":
                    inside = "" if inner == op else f"it stands in an '{op.name}'"
                    yield inner, list(stores), obstacle or inside
            stores += [a for inner in walk(op) for a in accesses(inner) if a.kind != "read"]

    def _checked(self, op: Operation, stores: list[Access]) -> tuple[Value, tuple[Linear, ...]]:
        """The elements that an op loads: their array and subscripts. Raises _Refusal."""
        (access,) = accesses(op)
        chip, size = self.limits.chip, element_bytes(access.memory) * prod(access.extent or ())
        if chip is None or chip.lowering != "nvvm" or size not in chip.copy_bytes:
            sizes = "" if chip is None else f", and the chip copies {chip.copy_bytes or 'nothing'}"
            raise _Refusal(f"a thread loads {size} bytes{sizes}")
        if self.block is None:
            raise _Refusal("how many threads a block has is not known")
        if names.parts_of(self.loop):
            raise _Refusal("the loop is part of another pipeline")
        if not self.plan.peeled_epilogue and self.tiles is None:
            raise _Refusal("the loop's last iterations are no code of their own")
        vector = as_kind(ir.VectorType, op.results[0].type)
        if not holds_numbers(access.memory) or (vector and vector.rank != 1):
            raise _Refusal("it loads no row of numbers of whole bytes")
        if static_strides(access.memory)[-1] != 1:
            raise _Refusal("what a thread loads is not contiguous")
        given = integer_attribute(op, "alignment") or 1
        known = access_alignment(access.memory, access.indices, self.arithmetic)
        if max(given, known, element_bytes(access.memory)) < size:
            raise _Refusal(f"its address may be no multiple of {size} bytes")
        if not all(map(self._is_known_before, op.operands)):
            raise _Refusal("its place depends on what the loop computes, or on what is loaded")
        self._check_memory(access, stores)
        return access.memory, tuple(map(self.arithmetic.wrapped, access.indices))

    def _is_known_before(self, value: Value) -> bool:
        """Whether a value can be computed before the loop's last iterations."""
        op = defining_op(value)
        if op is not None and op in self.following:
            return only_computes(op) and all(map(self._is_known_before, op.operands))
        if op is None:
            inside = value.owner == self.loop.regions[0].blocks[0]
            return not inside or (self.tiles is not None and value == self.tiles.tile)
        return op != self.loop and self.loop not in ancestors(op)

    def _check_memory(self, load: Access, stores: list[Access]) -> None:
        """Raise _Refusal if somebody may write what is loaded, but for stores after the load, and before it to
        other elements."""
        function = enclosing(self.loop, FUNCTION_OPS)
        if function is None or any(is_opaque(op) for op in walk(function) if op != function):
            raise _Refusal("what else the function does to memory is not known")
        own, root = set(self.following), root_of(load.memory)
        again = self.tiles is not None or runs_again(self.loop)
        for op in walk(function):
            writes = [a for a in accesses(op) if a.kind != "read" and self._may_alias(a, root)]
            if writes and (again or op not in own):
                raise _Refusal(f"'{op.name}' may write its memory")
        for store in stores:
            if self._may_alias(store, root) and not self._is_elsewhere(store, load):
                raise _Refusal("a store before it may write what it reads")

    def _may_alias(self, access: Access, root: Any) -> bool:
        noalias = self.limits.noalias_arguments
        return may_alias(root, root_of(access.memory), assume_noalias_arguments=noalias)

    def _is_elsewhere(self, store: Access, load: Access) -> bool:
        """Whether a subscript of a store to the same array is always another one."""
        if store.memory != load.memory or store.extent is None or store.extent != load.extent:
            return False
        last = len(store.indices) - 1
        for axis, indices in enumerate(zip(store.indices, load.indices, strict=True)):
            one, other = map(self.arithmetic.wrapped, indices)
            wide = prod(store.extent) if axis == last else 1
            if one.terms == other.terms and abs(one.constant - other.constant) >= wide:
                return True
        return False


def _is_load(op: Operation) -> bool:
    """Whether an op loads what stands at subscripts of an array, and does nothing else."""
    found = accesses(op)
    if len(found) != 1 or len(op.results) != 1 or len(op.regions):
        return False
    (access,) = found
    plain = access.kind == "read" and access.certain and access.takes_slot_index
    own = len(op.operands) == 1 + len(access.indices) and access.memory_operand == 0
    named = bool(access.indices) and access.extent is not None
    return plain and own and named and not row_of(op).by_proxy


# Writing ---------------------------------------------------------------------------------------


def write_residuals(found: Residuals, kernel: Operation) -> None:
    """Write the copies after the kernel of the pipelined loop, and before the loop for short trips, and let the loads
    read them."""
    function = enclosing(kernel, FUNCTION_OPS)
    assert function is not None
    loads = [op for op in walk(function) if MARK in op.attributes]
    anchor = next(op for op in (kernel, *ancestors(kernel)) if op.block == loads[0].block)
    buffers = _allocate(loads, found.block, function)
    points = [after(kernel)]
    if anchor != kernel:
        # `scf.if trips >= S-1 { the pipeline } else { the loop as it was }`
        points.append(before(operations(anchor.regions[1].blocks[0])[0]))
    for ip in points:
        _write_copies(loads, buffers, found.block, IntegerWriter(ip, kernel.location), anchor)
    ops, group = token_ops(CP_ASYNC), None
    assert ops is not None
    if found.plan.tiles is not None:
        block = operations(kernel.block)
        later = block[block.index(kernel) : block.index(loads[0])]
        group = next((op for op in later if op.name == ops.commit), None)
    ip, loc = before(loads[0]), loads[0].location
    if group is None:
        token = ir.Type.parse(TOKEN_TYPE, kernel.context)
        empty = {names.EMPTY: ir.UnitAttr.get(kernel.context)}
        group = create(ops.commit, (), [token], empty, ip=ip, loc=loc)
    create(ops.wait, [group.results[0]], ip=ip, loc=loc)
    write = IntegerWriter(ip, loc)
    thread = _thread(found.block, write)
    zero = write.constant(0)
    numbers = [write.constant(integer_attribute(op, MARK) or 0) for op in loads]
    for op, number in zip(loads, numbers, strict=True):
        memory, kind = buffers[op.results[0].type], op.results[0].type
        vector = as_kind(ir.VectorType, kind) is not None
        name = "vector.load" if vector else "memref.load"
        aligned = {"alignment": _i64(_bytes(memory), op)} if vector else {}
        here = IntegerWriter(before(op), op.location)
        made = here.make(name, [memory, number, thread, zero], kind, aligned)
        op.results[0].replace_all_uses_with(made)
        op.erase()


def _allocate(loads: list[Operation], block: Size, function: Operation) -> dict[Any, Value]:
    first = operations(function.regions[0].blocks[0])[0]
    write, context = IntegerWriter.before(first), function.context
    space = ir.Attribute.parse("#gpu.address_space<workgroup>", context)
    attributes = {
        "alignment": _i64(BYPASS_BYTES, first),
        "operandSegmentSizes": ir.DenseI32ArrayAttr.get([0, 0], context),
    }
    made = {}
    for kind in dict.fromkeys(op.results[0].type for op in loads):
        of_kind = [op for op in loads if op.results[0].type == kind]
        count = 1 + max(integer_attribute(op, MARK) or 0 for op in of_kind)
        vector = as_kind(ir.VectorType, kind)
        width, element = (1, kind) if vector is None else (vector.shape[0], vector.element_type)
        shape = [count, prod(block), width]
        memory = ir.MemRefType.get(shape, element, memory_space=space, loc=first.location)
        made[kind] = write.make("memref.alloc", (), memory, attributes)
    return made


def _write_copies(
    loads: list[Operation], buffers: dict[Any, Value], block: Size, write: IntegerWriter, anchor: Operation
) -> None:  # fmt: skip
    """A copy for each place; where it stands is computed again where that is done after `anchor`."""
    ops = operations(anchor.block)
    late = set(ops[ops.index(anchor) :])
    mapping: dict[Value, Value] = {}

    def early(value: Value) -> Value:
        op = defining_op(value)
        if value not in mapping and op is not None and op in late:
            for operand in op.operands:
                early(operand)
            clone(op, mapping, write.ip)
        return mapping.get(value, value)

    thread, zero, done = _thread(block, write), write.constant(0), set()
    for op in loads:
        memory, place = buffers[op.results[0].type], integer_attribute(op, MARK) or 0
        if (memory, place) in done:
            continue
        done.add((memory, place))
        array, *indices = map(early, op.operands)
        width = ir.MemRefType(memory.type).shape[2]
        attributes: dict[str, Any] = {
            "dstElements": ir.IntegerAttr.get(write.index, width),
            "operandSegmentSizes": ir.DenseI32ArrayAttr.get([1, 3, 1, len(indices), 0], op.context),
        }
        if _bytes(memory) == BYPASS_BYTES:
            attributes["bypassL1"] = ir.UnitAttr.get(op.context)
        operands = [memory, write.constant(place), thread, zero, array, *indices]
        token = ir.Type.parse(TOKEN_TYPE, op.context)
        write.make(DEVICE_COPY, operands, token, attributes)


def _thread(block: Size, write: IntegerWriter) -> Value:
    number = write.thread_number(block)
    return write.constant(number) if isinstance(number, int) else number


def _bytes(memory: Value) -> int:
    return int(ir.MemRefType(memory.type).shape[2]) * element_bytes(memory)


def _i64(number: int, op: Operation) -> Any:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, op.context), number)
