"""How a module is read before it is proven: a copy in which more is known than the text says.

    llvm.inline_asm "cp.async …"                  the op that it is
    llvm.alloca, memref.alloca of a thread        values, by MLIR's sroa and mem2reg
    %q = llvm.inttoptr (llvm.ptrtoint %p)    -->  %p
    amdgpu.ds_barrier_poll_state, compared        a test of a phase (`polled_phases`)
    a test of a phase, asked until it is true     a wait (`poll_loops`)
    rocdl.raw.ptr.buffer.load %resource, %n  -->  … of the bytes at %n (`buffer_places`)
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
    Value,
    edits,
    enclosing,
    users,
    walk,
    walk_named,
)
from mlir_async_pipe.checker import buffer_places, poll_loops, polled_phases
from mlir_async_pipe.checker.promises import NO_PROMISES, CheckOptions, Promises
from mlir_async_pipe.facts.values import same_values
from mlir_async_pipe.facts.values.memory_roots import EncodedMaps
from mlir_async_pipe.ptx import raise_assembly
from mlir_async_pipe.vocabulary import accesses, groups_of, row_of
from mlir_async_pipe.vocabulary.control_flow import SCOPE
from mlir_async_pipe.vocabulary.mbarrier_ops import POLL
from mlir_async_pipe.vocabulary.memory_names import (
    MAKES_RESOURCE,
    MEMBER_TAKEN,
    POINTER_STEPS,
    THREAD_ALLOCATION_OPS,
    VIEW_OPS,
    in_workgroup_memory,
)
from mlir_async_pipe.vocabulary.op_table import INLINE_ASSEMBLY
from mlir_async_pipe.vocabulary.tensor_boxes import BOX, box_of
from mlir_async_pipe.waits.ssa.carried_sums import carry_sums, sink_moves
from mlir_async_pipe.waits.ssa.struct_fields import split_fields


def as_read(root: Operation, options: CheckOptions = NO_PROMISES) -> Operation:
    """The module, or the copy to prove something of, with what is promised."""
    promises = Promises.of(options)
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
        changed += buffer_places.replace(copy) + polled_phases.replace(copy)
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
    """Variables become values."""
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
