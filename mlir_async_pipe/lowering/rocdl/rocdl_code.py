"""From a module after `async-pipe-to-rocdl` to AMDGCN assembly and code objects.

The back end is LLVM's, as built into the flydsl package, in a child process. Barriers and LDS
accesses stay as they are; which waits the back end made of ours is read back in `isa`.
"""

from __future__ import annotations

import re
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import back_end_process, ir
from mlir_async_pipe.bindings.back_end_child import Request
from mlir_async_pipe.bindings.back_ends import back_end
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    attribute,
    before,
    create,
    walk,
)
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.lowering.ordered_steps import BARE_POINTERS, has_complex, one_gpu_module
from mlir_async_pipe.lowering.rocdl.equal_ends import end_by_equality
from mlir_async_pipe.lowering.rocdl.isa import IsaKernel, read
from mlir_async_pipe.lowering.rocdl.isa_markers import WaitReadback, explain, mark
from mlir_async_pipe.lowering.rocdl.rocm_tools import device_libraries, toolkit
from mlir_async_pipe.session.diagnostics import Diagnostics, LoweringError

# Vector ops of several dimensions become vector.load, vector.fma and so on. MLIR has no pass
# for that alone: convert-vector-to-llvm does not know gpu's memory spaces.
_VECTORS = """
  transform.named_sequence private @__transform_main(%module : !transform.any_op) {
    %functions = transform.structured.match ops{["gpu.func", "func.func"]} in %module
      : (!transform.any_op) -> !transform.any_op
    transform.apply_patterns to %functions {
      transform.apply_patterns.vector.lower_contraction lowering_strategy = "outerproduct"
      transform.apply_patterns.vector.lower_outerproduct
      transform.apply_patterns.vector.lower_transpose lowering_strategy = "eltwise"
      transform.apply_patterns.vector.lower_transfer max_transfer_rank = 1
      transform.apply_patterns.vector.transfer_to_scf full_unroll = true
      transform.apply_patterns.vector.materialize_masks
    } : !transform.any_op
    transform.yield
  }
"""
_VECTOR_OPS = frozenset(
    f"vector.{name}"
    for name in "contract create_mask outerproduct transfer_read transfer_write transpose".split()
)
# symbol-dce takes the transform sequence away again.
_VECTOR_PIPELINE = "builtin.module(transform-interpreter,symbol-dce)"

# MLIR lowers these of f32 and f16, and has another pass for bf16, which runs only where it is
# needed: it dies of ops of unknown dialects.
_WIDENED = ("math.exp", "math.log")
_WIDENING = "builtin.module(math-extend-to-supported-types{target-type=f32 extra-types=f16})"

# What convert-gpu-to-rocdl lowers of complex numbers are their parts.
_COMPLEX = "builtin.module(gpu.module(convert-complex-to-standard))"

_LOWERING = (
    "builtin.module(gpu.module(convert-vector-to-scf),convert-math-to-rocdl{{chipset={chip}}},"
    "gpu.module(convert-scf-to-cf,expand-strided-metadata,"
    "lower-affine,convert-amdgpu-to-rocdl{{chipset={chip}}},"
    "convert-gpu-to-rocdl{{chipset={chip}{bare}}},canonicalize,cse,reconcile-unrealized-casts))"
)


# On the LLVM dialect, which only the stack that made it can be trusted to read.
_REWRITE = "mlir_async_pipe.lowering.rocdl.native_calls:finish"


@dataclass(frozen=True)
class RocdlCode:
    """Emitted code: `text` or `binary` (the other is empty), and what was read back from the
    assembly: its kernels, and what became of each wait."""

    text: str
    binary: bytes
    kernels: tuple[IsaKernel, ...] = ()
    waits: tuple[WaitReadback, ...] = ()


def generate(
    root: Operation, chip: Chip, emit: str, *, bare_pointers: bool = False
) -> Generator[None, None, RocdlCode]:
    """Code of a module after `async-pipe-to-rocdl`, which is changed: "llvm" (dialect), "isa"
    (assembly, with a comment before each of our waits) or "hsaco" (a linked code object).
    Yields while the back end works.

    Raises LoweringError (no-kernels, several-gpu-modules, left-over-op, lowering-failed,
    device-libraries-missing, codegen-failed, unknown-intrinsic), UsageError (back-end-missing,
    linker-missing).
    """
    root = _around(one_gpu_module(root), root)
    _check_intrinsics(root)
    slices_to_shuffles(root)
    masks_to_constants(root)
    end_by_equality(root)
    if emit == "llvm":
        text = (yield from back_end_process.run(_request(root, chip, "", bare_pointers))).decode()
        return RocdlCode(text, b"")
    waits = mark(root)
    linking = emit == "hsaco"
    with toolkit(linking=linking) as folder:
        asked = _request(root, chip, f"format=isa toolkit={folder}", bare_pointers)
        try:
            text = (yield from back_end_process.run(asked)).decode().rstrip("\0")
        except LoweringError as error:
            if error.code != "lowering-failed":
                raise
            dialect = yield from back_end_process.run(_request(root, chip, "", bare_pointers))
            _check_libraries(dialect.decode(), root)
            raise
        _check_calls(text)
        kernels = read(text)
        readback = explain(waits, kernels)
        if not linking:
            return RocdlCode(text, b"", kernels, readback)
        request = _request(root, chip, f"format=bin toolkit={folder}", bare_pointers)
        linked = yield from back_end_process.run(request)
        return RocdlCode("", linked, kernels, readback)


def _around(gpu_module: Operation, root: Operation) -> Operation:
    """The module that holds a gpu.module: a new one where it stands in a module of the module, since
    MLIR makes code of what stands in the outermost one."""
    if gpu_module == root or gpu_module.parent.operation == root:
        return root
    holder = ir.Module.create(root.location).operation
    gpu_module.clone(ip=ir.InsertionPoint(holder.regions[0].blocks[0]))
    return holder


def remark_stricter(waits: tuple[WaitReadback, ...], diagnostics: Diagnostics) -> None:
    """Say (back-end-wait) where the back end waits for more than the count asks for, and why."""
    for wait in waits:
        if wait.verdict == "stricter":
            diagnostics.remark(
                f"the back end made this wait stricter: {wait.reason}",
                code="back-end-wait",
                at=wait.wait.place,
            )


def _request(root: Operation, chip: Chip, options: str, bare_pointers: bool) -> Request:
    """Ask for the LLVM dialect, or with `options` of gpu-module-to-binary for an object."""
    attach = f"rocdl-attach-target{{chip={chip.name} O=3}}"
    binary = f"builtin.module({attach},gpu-module-to-binary{{{options}}})" if options else ""
    vectors = any(op.name in _VECTOR_OPS for op in walk(root))
    short = any(op.name in _WIDENED and "bf16" in str(op.results[0].type) for op in walk(root))
    numbers = has_complex(root)
    lowering = (
        *[_COMPLEX] * numbers,
        *[_VECTOR_PIPELINE] * vectors,
        *[_WIDENING] * short,
    )
    return Request(
        back_end("rocdl"),
        _text(root, _VECTORS if vectors else ""),
        (*lowering, _LOWERING.format(chip=chip.name, bare=BARE_POINTERS if bare_pointers else "")),
        binary,
        "object" if options else "module",
        f"{_REWRITE}:{chip.name}",
    )


def _text(root: Operation, sequence: str) -> str:
    """The module as text with its locations, and with a transform sequence in front.

    In the ops' own syntax, which stays the same for longer than the attributes behind it
    (amdgpu.mfma's blgp is an attribute of amdgpu in one version of MLIR and of rocdl in the next).
    """
    if sequence:
        unit = ir.UnitAttr.get(root.context)
        root.attributes["transform.with_named_sequence"] = unit
    text: str = root.get_asm(enable_debug_info=True)
    if not sequence:
        return text
    return _MODULE_LINE.sub(lambda found: found.group() + sequence, text, count=1)


_MODULE_LINE = re.compile(r"^module\b.*\{$", re.M)


# LLVM has no code for these on AMD chips: it complains on its error output, and leaves them out
# together with all that depends on them. MLIR's own ops become calls instead.
_LEFT_OUT = frozenset(
    f"llvm.intr.{name}" for name in "acos asin atan atan2 cosh sinh tan tanh".split()
)


def _check_intrinsics(root: Operation) -> None:
    found = next((op for op in walk(root) if op.name in _LEFT_OUT), None)
    if found is not None:
        name = found.name.removeprefix("llvm.intr.")
        raise LoweringError(
            f"the back end does not know the intrinsic '{found.name}'",
            code="unknown-intrinsic",
            at=found,
            advice=f"write 'math.{name}', which becomes a call of ROCm's device libraries",
        )


_LIBRARY_CALL = re.compile(r"llvm\.call @(__oc[km]l_(\w+?)(?:_[fi]\d+)?)\(")


def _check_libraries(dialect: str, root: Operation) -> None:
    """Raise LoweringError (device-libraries-missing) if code needs what is not installed."""
    found = _LIBRARY_CALL.search(dialect)
    if found is None or device_libraries() is not None:
        return
    called, name = found.groups()
    callers = (op for op in walk(root) if op.name.startswith(f"math.{name}"))
    raise LoweringError(
        f"this needs '{called}' of ROCm's device libraries, which are not installed",
        code="device-libraries-missing",
        at=next(callers, root),
        advice="pip install triton (or iree-base-compiler), which have them, or set ROCM_PATH",
    )


# Back ends turn an intrinsic that they do not know into a call without a word.
_CALLED_INTRINSIC = re.compile(r"llvm\.[a-z0-9_.]+@")


def _check_calls(text: str) -> None:
    found = _CALLED_INTRINSIC.search(text)
    if found:
        raise LoweringError(
            f"the back end does not know the intrinsic '{found.group().rstrip('@')}' and made it "
            "a call",
            code="unknown-intrinsic",
        )


# Slices with strides -------------------------------------------------------------------------
#
# Slices of one-dimensional vectors as shuffles, for a back end that has no pattern for them.
#
#     vector.extract_strided_slice %v {offsets = [4], sizes = [4], …}      8 elements
#         -->  vector.shuffle %v, %v [4, 5, 6, 7]
#     vector.insert_strided_slice %s, %v {offsets = [4], …}                4 into 8 elements
#         -->  vector.shuffle %v, %s [0, 1, 2, 3, 8, 9, 10, 11]
#
# Places in a shuffle count through both operands: those of the second begin at 8 here.

INSERT = "vector.insert_strided_slice"
EXTRACT = "vector.extract_strided_slice"


def slices_to_shuffles(root: Operation) -> None:
    """Rewrite every slice of one-dimensional vectors below `root`; others stay."""
    for op in list(walk(root)):
        if op.name in (INSERT, EXTRACT) and all(_length(v) is not None for v in op.operands):
            _rewrite(op)


def _rewrite(op: Operation) -> None:
    (first,) = _integers(op, "offsets")
    if op.name == EXTRACT:
        (size,) = _integers(op, "sizes")
        operands = (op.operands[0], op.operands[0])
        places = [*range(first, first + size)]
    else:
        source, target = op.operands
        held, size = _length(target) or 0, _length(source) or 0
        operands = (target, source)
        places = [*range(first), *range(held, held + size), *range(first + size, held)]
    mask = ir.DenseI64ArrayAttr.get(places, op.context)
    made = create(
        "vector.shuffle",
        operands,
        [op.results[0].type],
        {"mask": mask},
        ip=before(op),
        loc=op.location,
    )
    op.results[0].replace_all_uses_with(made.results[0])
    op.erase()


def _length(value: Value) -> int | None:
    """The length of a one-dimensional vector, None for anything else."""
    kind: Any = ir.VectorType(value.type)
    return int(kind.shape[0]) if kind.rank == 1 and not kind.scalable else None


def _integers(op: Operation, name: str) -> list[int]:
    return [int(ir.IntegerAttr(entry).value) for entry in ir.ArrayAttr(op.attributes[name])]


# Masks that are constant ---------------------------------------------------------------------
#
# Turns constant masks into constants, which every conversion knows.
#
#     vector.constant_mask [2] : vector<4xi1>   -->   arith.constant dense<[true, true, false, false]>
#
# MLIR's patterns for AMD's path lower `vector.create_mask` and leave this one.


def masks_to_constants(root: Operation) -> None:
    """Replace every vector.constant_mask below `root`."""
    for op in [op for op in walk(root) if op.name == "vector.constant_mask"]:
        kept = [int(size) for size in ir.DenseI64ArrayAttr(op.attributes["mask_dim_sizes"])]
        shape = [int(size) for size in ir.VectorType(op.results[0].type).shape]
        kind = op.results[0].type
        value = attribute(f"dense<{_elements(shape, kept, True)}> : {kind}", op.context)
        constant = create(
            "arith.constant",
            results=[kind],
            attributes={"value": value},
            ip=before(op),
            loc=op.location,
        )
        op.results[0].replace_all_uses_with(constant.results[0])
        op.erase()


def _elements(shape: list[int], kept: list[int], inside: bool) -> str:
    """The nested list of a mask: true where every subscript is below what is kept."""
    if not shape:
        return "true" if inside else "false"
    rows = (_elements(shape[1:], kept[1:], inside and i < kept[0]) for i in range(shape[0]))
    return f"[{', '.join(rows)}]"
