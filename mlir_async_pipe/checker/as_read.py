"""How a module is read before it is proven: a copy in which more is known than the text says.

    llvm.inline_asm "cp.async …"                  the op that it is
    llvm.alloca, memref.alloca of a thread        values, by MLIR's sroa and mem2reg
    %q = llvm.inttoptr (llvm.ptrtoint %p)    -->  %p
    amdgpu.ds_barrier_poll_state, compared        a test of a phase
    a test of a phase, asked until it is true     a wait (`poll_loops`)
    rocdl.raw.ptr.buffer.load %resource, %n  -->  … of the bytes at %n
    br ^bb1(%s : struct<(ptr<3>, i32)>)           br ^bb1(%s, %p, %n)
    arith.addi, a kernel                          … with what is promised of all of them

The module that is checked stays as it is, and is no copy where nothing of that is in it.
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir, passmanager
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    KERNEL_OPS,
    Operation,
    OpWriter,
    Value,
    attribute,
    before,
    constant,
    constant_value,
    defining_op,
    edits,
    enclosing,
    integer_attribute,
    operations,
    users,
    walk,
    walk_named,
)
from mlir_async_pipe.checker import poll_loops
from mlir_async_pipe.checker.promises import NO_PROMISES, CheckOptions, Promises
from mlir_async_pipe.facts.values import same_values
from mlir_async_pipe.facts.values.integer_ops import PREDICATES, IntegerWriter
from mlir_async_pipe.facts.values.memory_roots import EncodedMaps
from mlir_async_pipe.ptx import raise_assembly
from mlir_async_pipe.vocabulary import accesses, groups_of, row_of
from mlir_async_pipe.vocabulary.control_flow import SCOPE
from mlir_async_pipe.vocabulary.mbarrier_ops import PARITY_OF_STATE, POLL
from mlir_async_pipe.vocabulary.memory_names import (
    MAKES_RESOURCE,
    MEMBER_TAKEN,
    POINTER_STEPS,
    RESOURCE_ACCESSES,
    THREAD_ALLOCATION_OPS,
    VIEW_OPS,
    in_workgroup_memory,
)
from mlir_async_pipe.vocabulary.op_table import INLINE_ASSEMBLY
from mlir_async_pipe.vocabulary.tensor_boxes import BOX, box_of
from mlir_async_pipe.waits.ssa.carried_structs import carry_sums, sink_moves, split_fields


def as_read(root: Operation, options: CheckOptions = NO_PROMISES) -> Operation:
    """The module, or the copy to prove something of, with what is promised."""
    promises = Promises(options)
    otherwise = bool(promises) or any(True for _ in walk_named(root, _is_read_otherwise))
    if not otherwise and not _of_variables(root):
        return root
    copy = root.clone(ip=False).operation
    with edits():
        changed = _promote(_of_variables(copy))
        # What assembly becomes may be another value, or a struct of which a field is taken.
        changed += raise_assembly(copy) + same_values.replace(copy)
        changed += carry_sums(copy) + split_fields(copy)
        sink_moves(copy)
        changed += _name_places(copy) + _ask_for_phases(copy)
        changed += poll_loops.replace(copy)
        promises.write(copy)
        changed += _write_encoded_boxes(copy)
    return copy if changed or promises else root


def _is_read_otherwise(name: str) -> bool:
    return (
        name in (INLINE_ASSEMBLY, MEMBER_TAKEN, MAKES_RESOURCE, POLL)
        or poll_loops.asks(name)
        or same_values.may_be_another(name)
    )


def _of_variables(root: Operation) -> list[Operation]:
    """The functions whose thread has variables in memory, and uses all of them in place: where a part of one is shown to others,
    sroa parts it from the rest, which they may reach, too. Nor does mem2reg look at the space of a memref.alloca: workgroup
    memory is no variable. Variables of the host, around a launch, are another matter."""
    found: dict[Operation, bool] = {}
    hosts = [enclosing(op, FUNCTION_OPS) for op in walk_named(root, "gpu.launch".__eq__)]
    for op in walk_named(root, THREAD_ALLOCATION_OPS.__contains__):
        function = enclosing(op, FUNCTION_OPS)
        if function in hosts and enclosing(op, KERNEL_OPS) == function:
            continue
        if function is not None and found.get(function, True):
            memory = op.results[0]
            found[function] = not in_workgroup_memory(memory.type) and _is_used_in_place(memory)
    return [function for function, in_place in found.items() if in_place]


def _promote(functions: list[Operation]) -> int:
    for function in functions:
        passmanager.PassManager.parse("any(sroa,mem2reg)", function.context).run(function)
    return len(functions)


def _is_used_in_place(pointer: Value) -> bool:
    """Whether a pointer or memref is only loaded from, stored to and counted on, when its thread comes there."""
    for op in users(pointer):
        if op.name in POINTER_STEPS or op.name in VIEW_OPS:
            if not _is_used_in_place(op.results[0]):
                return False
        elif (
            list(op.operands).count(pointer) != 1
            or all(access.memory != pointer for access in accesses(op))
            or row_of(op).asynchronous(op)
            or enclosing(op, (SCOPE,)) is not None
        ):
            return False
    return True


def _write_encoded_boxes(root: Operation) -> int:
    """Write the boxes of maps that the host around a launch encodes to the copies by them."""
    maps, written = EncodedMaps(), 0
    for launch in walk_named(root, "gpu.launch".__eq__):
        for op in walk(launch):
            if "tensor_map" in row_of(op).operands and box_of(op) is None:
                box = maps.box_of_map(op.operands[groups_of(op)["tensor_map"][0]], op)
                if box is not None:
                    op.attributes[BOX] = ir.TypeAttr.get(ir.Type.parse(box, op.context), op.context)
                    written += 1
    return written


# Accesses through AMD's buffer resources, as accesses to the bytes that they name.
#
#     %r = rocdl.make.buffer.rsrc %p, 0, 2147483646, …
#     %o = llvm.select %mask, %n, -2147483648
#     rocdl.raw.ptr.buffer.store %v, %r, %o, 0, …      -->      rocdl.raw.ptr.buffer.store %v, %p[%n], %o, 0, …
#
# An offset is a number of bytes without a sign, and what lies beyond the range of the resource is neither read nor written
# (AMD, MI300 ISA, 9.1.5 "Buffer addressing"). A range below 2^31 bytes holds no offset that is negative as a signed
# number, so that the select above is a mask: at most the bytes at %n are touched. Of other resources (rows of a stride, a range
# that is not known) the place is not followed: any byte behind their pointer.

# Bytes that an offset without a sign reaches as one with a sign does.
RANGE = 1 << 31
# ADD_TID_ENABLE of the fourth word: each lane adds its number (MI300 ISA, 9.1.8 "Buffer resource descriptor").
OF_LANES = 1 << 23


def _name_places(root: Operation) -> int:
    """Put the place that it touches for the resource of each access below `root` that is followed; how often."""
    return sum(map(_name_place, walk_named(root, lambda name: name.startswith(RESOURCE_ACCESSES))))


def _name_place(op: Operation) -> int:
    groups = groups_of(op)
    if not {"offset", "scalar_offset"} <= groups.keys():
        return 0
    named = "memory" if "memory" in groups else "source"
    memory, offset, scalar = (groups[name].start for name in (named, "offset", "scalar_offset"))
    pointer = _pointer_of(op.operands[memory])
    if pointer is None or constant_value(op.operands[scalar]) != 0:
        return 0
    bytes_after = {
        "elem_type": attribute("i8", op.context),
        "rawConstantIndices": attribute("array<i32: -2147483648>", op.context),
    }
    operands = [pointer, _unmasked(op.operands[offset])]
    op.operands[memory] = OpWriter.before(op).make(
        "llvm.getelementptr", operands, pointer.type, bytes_after
    )
    return 1


def _pointer_of(resource: Value) -> Value | None:
    """What a resource points to, if an offset from there is a number of bytes."""
    made = defining_op(resource)
    if made is None or made.name != MAKES_RESOURCE:
        return None
    stride, size, flags = map(constant_value, list(made.operands)[1:])
    if stride != 0 or size is None or not 0 <= size <= RANGE or flags is None or flags & OF_LANES:
        return None
    return made.operands[0]


def _unmasked(offset: Value) -> Value:
    """An offset where it is in range: the one of two that may be."""
    chosen = defining_op(offset)
    if chosen is None or chosen.name != "llvm.select":
        return offset
    _, one, other = chosen.operands
    for kept, left in ((one, other), (other, one)):
        number = constant_value(left)
        if number is not None and number < 0:
            return kept
    return offset


# Polls of mbarriers in LDS whose parity is compared: each asks for a phase, as a test of an mbarrier does.
#
#     %s = amdgpu.ds_barrier_poll_state %b[%i]
#     %now = amdgpu.ds_barrier_state_phase_parity %s
#     %over = arith.cmpi ne, %now, %parity              %over = amdgpu.ds_barrier_poll_state %b[%i], %parity
#     %again = arith.cmpi eq, %now, %parity     -->     %again = arith.xori %over, true
#
# The running phase has the other parity if the phase of `%parity` is over. That is written on the copy that is proven,
# where the poll gives this bit. What else is done with a state is not followed (`asks-for-a-phase`).
# Which loop then waits until the answer is yes, `poll_loops` tells, of AMD and NVIDIA alike.

_EQUAL, _OTHER = PREDICATES.index("eq"), PREDICATES.index("ne")


def _ask_for_phases(root: Operation) -> int:
    """Make each poll below `root` that asks for one phase a test; how many did."""
    return sum(_replaced(poll) for poll in walk_named(root, POLL.__eq__))


def _replaced(poll: Operation) -> bool:
    parities = users(poll.results[0])
    if len(parities) != 1 or parities[0].name != PARITY_OF_STATE:
        return False
    (parity,) = parities
    asked = users(parity.results[0])
    if len(asked) != 1:
        return False
    (compared,) = asked
    other = _compared_with(compared, parity.results[0])
    if other is None or not _is_there(other, poll):
        return False
    i1 = ir.IntegerType.get_signless(1, poll.context)
    build = IntegerWriter(before(poll), poll.location)
    over = build.make(POLL, [*poll.operands, other], i1)
    if compared.name == "arith.cmpi" and integer_attribute(compared, "predicate") == _EQUAL:
        # It asks whether the phase still runs.
        over = build.binary("arith.xori", over, constant(1, i1, build.ip, build.location))
    compared.results[0].replace_all_uses_with(over)
    for op in (compared, parity, poll):
        op.erase()
    return True


def _compared_with(op: Operation, parity: Value) -> Value | None:
    """With what a parity is compared; None if it is not."""
    is_compared = op.name == "arith.xori" or (
        op.name == "arith.cmpi" and integer_attribute(op, "predicate") in (_EQUAL, _OTHER)
    )
    others = [value for value in op.operands if value != parity]
    return others[0] if is_compared and len(others) == 1 else None


def _is_there(value: Value, op: Operation) -> bool:
    """Whether a value that is used after an op, in its block, is made before it."""
    made = defining_op(value)
    if made is None or made.block != op.block:
        return True
    ops = operations(op.block)
    return ops.index(made) < ops.index(op)
