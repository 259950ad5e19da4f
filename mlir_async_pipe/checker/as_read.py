"""How a module is read before it is proven: a copy in which more is known than the text says.

    llvm.inline_asm "cp.async …"                  the op that it is
    %q = llvm.inttoptr (llvm.ptrtoint %p)    -->  %p
    br ^bb1(%s : struct<(ptr<3>, i32)>)           br ^bb1(%s, %p, %n)
    arith.addi, a kernel                          … with what is promised of all of them

The module that is checked stays as it is, and is no copy where nothing of that is in it.
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, type_text, walk, walk_named
from mlir_async_pipe.facts.loops.annotations import INDEPENDENT
from mlir_async_pipe.facts.values import same_values
from mlir_async_pipe.facts.values.domains import is_sum_or_product, set_no_wrap
from mlir_async_pipe.facts.values.integer_ops import bits_of_text
from mlir_async_pipe.facts.values.memory_roots import GIVEN, root_of
from mlir_async_pipe.ptx import raise_assembly
from mlir_async_pipe.vocabulary import accesses
from mlir_async_pipe.vocabulary.memory_names import MEMBER_TAKEN
from mlir_async_pipe.vocabulary.pure_ops import INLINE_ASSEMBLY
from mlir_async_pipe.waits.ssa.struct_fields import split_fields

# Numbers of fewer bits are data, and may wrap whatever is promised: pixels, quantised weights.
LEAST_BITS = 32


def as_read(
    root: Operation, *, assume_no_overflow: bool = False, assume_independent: bool = False
) -> Operation:
    """The module, or the copy to prove something of. The promises are those of `CheckOptions`."""
    promised = assume_no_overflow or assume_independent
    if not promised and not any(True for _ in walk_named(root, _is_read_otherwise)):
        return root
    copy = root.clone(ip=False).operation
    # What assembly becomes may be another value, or a struct of which a field is taken.
    changed = raise_assembly(copy) + same_values.replace(copy) + split_fields(copy)
    if assume_no_overflow:
        _promise_no_overflow(copy)
    if assume_independent:
        _promise_independence(copy)
    return copy if changed or promised else root


def _is_read_otherwise(name: str) -> bool:
    return name in (INLINE_ASSEMBLY, MEMBER_TAKEN) or same_values.may_be_another(name)


def _promise_no_overflow(root: Operation) -> None:
    for op in walk_named(root, is_sum_or_product):
        if (bits_of_text(type_text(op.results[0].type)) or 0) >= LEAST_BITS:
            set_no_wrap(op)


def _promise_independence(root: Operation) -> None:
    promise = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, root.context), 0)
    for op in walk(root):
        if _is_of_global_memory(op):
            op.attributes[INDEPENDENT] = promise


def _is_of_global_memory(op: Operation) -> bool:
    """Whether all that an op accesses is certainly global memory."""
    roots = [root_of(access.memory) for access in accesses(op)]
    return bool(roots) and all(
        root.space == "global"
        and (root.kind in GIVEN or type_text(root.value.type) == "!llvm.ptr<1>")
        for root in roots
    )
