"""What a user promises of a module, written on the copy of it that is proven (`as_read`).

    assume-no-overflow                arith.addi %a, %b : i32    -->    … overflow<nsw>
    assume-independent                llvm.store %v, %p          -->    … {async_pipe.independent = 0}
    assume-boxes=0=128x64xf16         tensor copies by argument 0                   (below)
    assume-block-size=128             kernels that do not say how large blocks are  (below)

A promise that nothing uses, or that cannot be kept, is an error: the user means another kernel or argument.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from math import prod
from typing import Any, Literal, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    is_function,
    symbol_name,
    type_text,
    users,
    walk,
    walk_named,
)
from mlir_async_pipe.checker.selection import kernels
from mlir_async_pipe.chips.target import ChipOptions
from mlir_async_pipe.facts.loops.annotations import INDEPENDENT
from mlir_async_pipe.facts.values.domains import is_sum_or_product, set_no_wrap, typed
from mlir_async_pipe.facts.values.integer_ops import bits_of_text
from mlir_async_pipe.facts.values.memory_roots import GIVEN, given_place, parameter_of, root_of
from mlir_async_pipe.session.diagnostics import InputError, UsageError
from mlir_async_pipe.vocabulary import accesses, groups_of, row_of
from mlir_async_pipe.vocabulary.launch_ids import (
    BLOCK_SIZES,
    LARGEST_BLOCK,
    LARGEST_CLUSTER,
    LIMITS_OF_THREADS,
    Size,
    block_size,
    cluster_size,
    launch_id,
    set_cluster_size,
    threads_allowed,
)
from mlir_async_pipe.vocabulary.operator_table import OPERATORS, is_operator
from mlir_async_pipe.vocabulary.tensor_boxes import BOX, box_of

# Numbers of fewer bits are data, and may wrap whatever is promised: pixels, quantised weights.
LEAST_BITS = 32


@dataclass(frozen=True)
class CheckOptions(ChipOptions):
    """Options of `async-pipe-check`: those of `mlir_async_pipe.check`. In `assume_boxes`, `1+64=…` is said of the map at
    byte 64 of argument 1, `gemm:0=…` of one kernel; so is `gemm:128` in the sizes."""

    assume_noalias_arguments: bool = False
    assume_several_blocks: bool = False
    assume_several_threads: bool = False
    assume_noalias_maps: bool = False
    assume_no_overflow: bool = False
    assume_independent: bool = False
    assume_boxes: str = ""
    assume_block_size: str = ""
    assume_cluster_size: str = ""


NO_PROMISES = CheckOptions()


class Promises:
    """What options say, read once. Raises UsageError (bad-option-value)."""

    def __init__(self, options: CheckOptions) -> None:
        self.no_overflow, self.independent = options.assume_no_overflow, options.assume_independent
        self.boxes = read_boxes(options.assume_boxes)
        self.blocks = read_sizes("block", options.assume_block_size)
        self.clusters = read_sizes("cluster", options.assume_cluster_size)

    def __bool__(self) -> bool:
        return any((self.no_overflow, self.independent, self.boxes, self.blocks, self.clusters))

    def write(self, root: Operation) -> None:
        """Write them to the ops below `root`. Raises UsageError (unused-box, unused-size), InputError (bad-box,
        block-size-conflict, cluster-conflict)."""
        for op in walk_named(root, OPERATORS.__contains__) if self.no_overflow else ():
            wide = (bits_of_text(type_text(op.results[0].type)) or 0) >= LEAST_BITS
            if wide and (is_sum_or_product(op.name) or _is_product(op)):
                set_no_wrap(op)
        promise = ir.IntegerAttr.get(ir.IntegerType.get_signless(64, root.context), 0)
        for op in walk(root) if self.independent else ():
            if _is_of_global_memory(op):
                op.attributes[INDEPENDENT] = promise
        if self.boxes:
            promise_boxes(root, self.boxes)
        promise_sizes(root, "block", self.blocks)
        promise_sizes(root, "cluster", self.clusters)


# What takes some bits of a number, and asks for no number that fits.
_OF_BITS = frozenset({"and_", "or_", "xor", "shr"})


def _is_product(op: Operation) -> bool:
    """Whether a shift is one: compilers write 8 x as x << 3, and so they do where some bits of x are meant, (x << 3) & 2040. With other
    bits below it is one of a block's id: 8 b + (t & 7) is b << 3 | t & 7, where another number may stand for what is packed."""
    if not is_operator(op.name, "shl"):
        return False
    of = launch_id(op.operands[0])
    found = [user for user in users(op.results[0]) if user.name in OPERATORS]
    rows = [OPERATORS[user.name] for user in found]
    if of is not None and of.kind == "block":
        rows = [typed(user).row for user in found]
    cut = any(user.name.endswith(("trunc", "trunci")) for user in found)
    return not cut and not any(row.method in _OF_BITS for row in rows)


def _is_of_global_memory(op: Operation) -> bool:
    """Whether all that an op accesses is certainly global memory."""
    roots = [root_of(access.memory) for access in accesses(op)]
    return bool(roots) and all(
        root.space == "global"
        and (root.kind in GIVEN or type_text(root.value.type) == "!llvm.ptr<1>")
        for root in roots
    )


# What a user promises of tensor maps that are made elsewhere, on the host: which box a copy by them moves.
#
#     assume-boxes=0=128x64xf16,2+64=64x64xf16
#
#     nvvm.cp.async.bulk.tensor… by the map that argument 0 is    -->  … {async_pipe.box = memref<128x64xf16>}
#     … by the map at byte 64 of argument 2                       -->  … {async_pipe.box = memref<64x64xf16>}
#
# A promise that nothing uses, or that no tensor map can keep, is an error: the user means another argument.


_PROMISE = re.compile(r"(?:([\w$.]+):)?(\d+)(?:\+(\d+))?=((?:\d+x)+)([a-zA-Z]\w*)")


class Promise(NamedTuple):
    """The box of the map at a byte of an argument, of the kernel of a name or of all."""

    text: str
    kernel: str | None
    argument: int
    byte: int
    box: str


def read_boxes(text: str) -> list[Promise]:
    """The promises of an option `[KERNEL:]ARGUMENT[+BYTE]=SHAPExTYPE,…`. Raises UsageError (bad-option-value)."""
    promises = []
    for part in filter(None, text.split(",")):
        found = _PROMISE.fullmatch(part)
        if found is None:
            raise UsageError(
                f"'{part}' of assume-boxes is no box",
                code="bad-option-value",
                advice="the number of the argument, and the box as a shape whose rows come last: 0=128x64xf16; "
                "1+64=… for a map at byte 64 of argument 1, gemm:0=… for one kernel",
            )
        kernel, argument, byte, shape, kind = found.groups()
        box = f"memref<{shape}{kind}>"
        promises.append(Promise(part, kernel, int(argument), int(byte or 0), box))
    return promises


def promise_boxes(root: Operation, promises: list[Promise]) -> None:
    """Write the boxes to the tensor copies by maps that are given. Raises InputError (bad-box), UsageError (unused-box)."""
    unused = set(promises)
    given: list[str] = []
    for op in walk(root):
        place = _map_of(op)
        if place is None or box_of(op) is not None:
            continue
        function, argument, byte = place
        kernel = symbol_name(function)
        given.append(f"{kernel}:{argument}" + (f"+{byte}" if byte else ""))
        for one in promises:
            if one.kernel in (None, kernel) and (one.argument, one.byte) == (argument, byte):
                op.attributes[BOX] = _attribute(op, one)
                box_of(op)
                unused.discard(one)
    if unused:
        one = next(promise for promise in promises if promise in unused)
        raise UsageError(
            f"no tensor copy is by the map of '{one.text}'",
            code="unused-box",
            advice="maps whose box nothing says: " + (", ".join(dict.fromkeys(given)) or "none"),
        )


def _map_of(op: Operation) -> tuple[Operation, int, int] | None:
    """The function, the number of the argument and the byte in it of the map by which an op copies."""
    copies = "tensor_map" in row_of(op).operands
    place = given_place(op.operands[groups_of(op)["tensor_map"][0]]) if copies else None
    parameter = None if place is None else parameter_of(root_of(place[0]))
    return None if place is None or parameter is None else (*parameter, place[1])


def _attribute(op: Operation, one: Promise) -> Any:
    try:
        return ir.TypeAttr.get(ir.Type.parse(one.box, op.context), op.context)
    except ir.MLIRError:
        raise UsageError(
            f"'{one.text}' of assume-boxes is no type of MLIR", code="bad-option-value"
        ) from None


# What a user promises of the launch: how many threads a block has, and how many blocks a cluster, where a kernel does
# not say it.
#
#     assume-block-size=256,gemm:16x8
#
#     llvm.func @gemm … {nvvm.maxntid = 128}    -->    … {nvvm.maxntid = 128, known_block_size = 16, 8, 1}
#     any other kernel of unknown size          -->    … {known_block_size = 256, 1, 1}

Extent = Literal["block", "cluster"]
_SIZE = re.compile(r"(?:([\w$.]+):)?(\d+(?:x\d+){0,2})")
_LARGEST = {"block": LARGEST_BLOCK, "cluster": LARGEST_CLUSTER}


def read_sizes(extent: Extent, text: str) -> dict[str, Size]:
    """The promises of an option `[KERNEL:]X[xY[xZ]],…` by kernel, "" for all others. Raises UsageError
    (bad-option-value)."""
    promises: dict[str, Size] = {}
    for part in filter(None, text.split(",")):
        found = _SIZE.fullmatch(part)
        x, y, z = [*map(int, found[2].split("x")), 1, 1][:3] if found else (0, 0, 0)
        if found is None or not 0 < x * y * z <= _LARGEST[extent] or (found[1] or "") in promises:
            raise UsageError(
                f"'{part}' of assume-{extent}-size is no size of a {extent}",
                code="bad-option-value",
                advice=f"the numbers along x, y and z, {_LARGEST[extent]} in all at most, once for each kernel: 8, "
                "4x2x1, gemm:2",
            )
        promises[found[1] or ""] = x, y, z
    return promises


def promise_sizes(root: Operation, extent: Extent, promises: dict[str, Size]) -> None:
    """Write the sizes to the kernels that do not say theirs. Raises UsageError (unused-size), InputError
    (block-size-conflict, cluster-conflict)."""
    unused = set(promises)
    found = [kernel for kernel in kernels(root) if is_function(kernel)]
    for kernel in found if promises else ():
        name = symbol_name(kernel)
        size = promises.get(name, promises.get(""))
        stated = block_size(kernel) if extent == "block" else cluster_size(kernel)
        if size is None or (stated is not None and name not in promises):
            continue
        unused.discard(name if name in promises else "")
        _check_size(kernel, extent, size, stated)
        if extent == "cluster":
            set_cluster_size(kernel, size)
        else:
            given = ir.DenseI32ArrayAttr.get(list(size), kernel.context)
            kernel.attributes[BLOCK_SIZES[0]] = given
    if unused:
        name = min(unused)
        meant = name or "x".join(map(str, promises[name]))
        raise UsageError(
            f"no kernel of unknown size is meant by '{meant}' of assume-{extent}-size",
            code="unused-size",
            advice="the kernels are: " + (", ".join(map(symbol_name, found)) or "none"),
        )


def _check_size(kernel: Operation, extent: Extent, size: Size, stated: Size | None) -> None:
    limits = [threads_allowed(kernel, of) for of in LIMITS_OF_THREADS if of in kernel.attributes]
    is_allowed = extent == "cluster" or all(low <= prod(size) <= high for low, high in limits)
    if stated in (None, size) and is_allowed:
        return
    said = " x ".join(map(str, stated)) if stated else " to ".join(map(str, limits[0]))
    raise InputError(
        f"a {extent} of '{symbol_name(kernel)}' has the size {said}, and not {' x '.join(map(str, size))}",
        code="block-size-conflict" if extent == "block" else "cluster-conflict",
        at=kernel,
        advice=f"let assume-{extent}-size say what the kernel is launched with",
    )
