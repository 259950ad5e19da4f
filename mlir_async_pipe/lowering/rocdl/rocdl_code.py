"""From a module after `async-pipe-to-rocdl` to AMDGCN assembly and code objects.

The back end is LLVM's, as built into the flydsl package, in a child process. Barriers and LDS
accesses stay as they are; which waits the back end made of ours is read back in `isa`.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import shutil
import stat
import sys
import tempfile
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mlir_async_pipe.bindings import back_end_process, ir
from mlir_async_pipe.bindings.back_end_child import Request
from mlir_async_pipe.bindings.back_end_process import back_end
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    OpWriter,
    Value,
    attribute,
    before,
    constant_value,
    create,
    functions,
    symbol_name,
    walk_named,
)
from mlir_async_pipe.bindings.structured_ops import end_of
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter, bits_of
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.lowering.ordered_steps import BARE_POINTERS, has_complex, one_gpu_module
from mlir_async_pipe.lowering.rocdl.copy_addresses import give_narrow_versions
from mlir_async_pipe.lowering.rocdl.isa import (
    IsaKernel,
    WaitReadback,
    explain,
    loop_bodies,
    mark,
    read,
)
from mlir_async_pipe.lowering.rocdl.unrolled_shifts import unroll_shifts
from mlir_async_pipe.session.diagnostics import Diagnostics, LoweringError, UsageError

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
    waits = () if emit == "llvm" else mark(root)
    # The copies of a loop have the marks of its waits.
    unroll_shifts(root)
    give_narrow_versions(root, chip)
    end_by_equality(root)
    if emit == "llvm":
        text = (yield from back_end_process.run(_request(root, chip, "", bare_pointers))).decode()
        return RocdlCode(text, b"")
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


def remark_spills(code: RocdlCode, root: Operation, diagnostics: Diagnostics) -> None:
    """Say (spills) which kernels have more values than registers. On gfx9 vmcnt counts loads of spilled values with the
    copies, in order."""
    spilling = [kernel for kernel in code.kernels if kernel.vector_spills]
    loops = loop_bodies(code.text) if spilling else {}
    for kernel in spilling:
        said = f"'{kernel.name}' spills {kernel.vector_spills} vector registers"
        inside = [line for body in loops.get(kernel.name, ()) for line in body]
        if loads := sum("scratch_load" in line for line in inside):
            said += f"; {loads} loads of them are in loops, where each waits for older copies"
        elif code.text:
            said += "; no loop loads them"
        at = next(op for op in functions(root) if symbol_name(op) == kernel.name)
        diagnostics.remark(said, code="spills", at=at)


def _request(root: Operation, chip: Chip, options: str, bare_pointers: bool) -> Request:
    """Ask for the LLVM dialect, or with `options` of gpu-module-to-binary for an object."""
    attach = f"rocdl-attach-target{{chip={chip.name} O=3}}"
    binary = f"builtin.module({attach},gpu-module-to-binary{{{options}}})" if options else ""
    vectors = bool(walk_named(root, _VECTOR_OPS.__contains__))
    widened = walk_named(root, _WIDENED.__contains__)
    short = any("bf16" in str(op.results[0].type) for op in widened)
    numbers = has_complex(root)
    lowering = (*[_COMPLEX] * numbers, *[_VECTOR_PIPELINE] * vectors, *[_WIDENING] * short)
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
    for found in walk_named(root, _LEFT_OUT.__contains__):
        name = found.name.removeprefix("llvm.intr.")
        why = f"the back end does not know the intrinsic '{found.name}'"
        advice = f"write 'math.{name}', which becomes a call of ROCm's device libraries"
        raise LoweringError(why, code="unknown-intrinsic", at=found, advice=advice)


_LIBRARY_CALL = re.compile(r"llvm\.call @(__oc[km]l_(\w+?)(?:_[fi]\d+)?)\(")


def _check_libraries(dialect: str, root: Operation) -> None:
    """Raise LoweringError (device-libraries-missing) if code needs what is not installed."""
    found = _LIBRARY_CALL.search(dialect)
    if found is None or device_libraries() is not None:
        return
    called, name = found.groups()
    callers = iter(walk_named(root, lambda op: op.startswith(f"math.{name}")))
    why = f"this needs '{called}' of ROCm's device libraries, which are not installed"
    advice = "pip install triton (or iree-base-compiler), which have them, or set ROCM_PATH"
    raise LoweringError(why, code="device-libraries-missing", at=next(callers, root), advice=advice)


# Back ends turn an intrinsic that they do not know into a call without a word.
_CALLED_INTRINSIC = re.compile(r"llvm\.[a-z0-9_.]+@")
# What they write for a move from a vector register to a scalar one, which there is not, and go on.
_ILLEGAL_COPY = re.compile(r"; illegal copy .*")


def _check_calls(text: str) -> None:
    if illegal := _ILLEGAL_COPY.search(text):
        raise LoweringError(
            f"the back end made code that does not work: '{illegal.group()[2:]}'",
            code="codegen-failed",
        )
    found = _CALLED_INTRINSIC.search(text)
    if found:
        why = f"the back end does not know the intrinsic '{found.group().rstrip('@')}' and made it a call"
        raise LoweringError(why, code="unknown-intrinsic")


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
    for op in walk_named(root, (INSERT, EXTRACT).__contains__):
        if all(_length(v) is not None for v in op.operands):
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
    kind = op.results[0].type
    made = OpWriter.before(op).make("vector.shuffle", operands, kind, {"mask": mask})
    op.results[0].replace_all_uses_with(made)
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
    for op in walk_named(root, "vector.constant_mask".__eq__):
        kept = [int(size) for size in ir.DenseI64ArrayAttr(op.attributes["mask_dim_sizes"])]
        shape = [int(size) for size in ir.VectorType(op.results[0].type).shape]
        kind = op.results[0].type
        value = attribute(f"dense<{_elements(shape, kept, True)}> : {kind}", op.context)
        constant = OpWriter.before(op).make("arith.constant", (), kind, {"value": value})
        op.results[0].replace_all_uses_with(constant)
        op.erase()


def _elements(shape: list[int], kept: list[int], inside: bool) -> str:
    """The nested list of a mask: true where every subscript is below what is kept."""
    if not shape:
        return "true" if inside else "false"
    rows = (_elements(shape[1:], kept[1:], inside and i < kept[0]) for i in range(shape[0]))
    return f"[{', '.join(rows)}]"


# Loops of 64-bit counters end where the counter is equal to its end, not where it is less no more.
#
#     scf.for %k = %from to %to step %c32 {      -->  %end = %from + 32 * (iterations)
#       body                                          scf.while (%k = %from) {
#     }                                                 condition(%k != %end) %k
#                                                     } do { body; yield %k + 32 }
#
# AMD's scalar units compare 64-bit numbers for equality only: "less" is an instruction of the vector
# unit, a second one that brings its result back, and the end in vector registers.
#
# The iterations of an scf.for are (%to - %from) / step, rounded up, where %from < %to. %from must be
# proven not to be negative: then the difference and the step are below 2^63, and %end - %from is
# below 2^64, so that no counter before the last one is equal to %end modulo 2^64.
#
# LLVM knows how often such a loop runs, too, and unrolls short ones by two. That is of use where slots
# are carried: two that alternate become constants. Other loops, as those for few iterations beside a
# pipeline, would only take more registers, and stay.


def end_by_equality(root: Operation) -> None:
    """Rewrite the loops below `root` that carry slots, whose counter has 64 bits and whose length is
    not constant."""
    arithmetic = Arithmetic()
    loops = walk_named(root, "scf.for".__eq__)
    for loop in [loop for loop in loops if _is_counted(loop, arithmetic)]:
        _with_equal_ends(loop)


def _is_counted(loop: Operation, arithmetic: Arithmetic) -> bool:
    """Whether it counts in 64 bits and signed, from 0 or more by a constant, and carries a slot."""
    lower, upper, step, *carried = loop.operands
    least, _ = arithmetic.value_range(lower)
    return (
        bits_of(lower.type) == 64
        and any(value.type == lower.type for value in carried)
        and "unsignedCmp" not in loop.attributes
        and (constant_value(step) or 0) > 0
        and None in (constant_value(lower), constant_value(upper))
        and least is not None
        and least >= 0
    )


def _with_equal_ends(loop: Operation) -> None:
    build = IntegerWriter(before(loop), loop.location)
    lower, upper, step, *initial = loop.operands
    end = _end(lower, upper, step, build)
    carried = [lower, *initial]
    kinds = [value.type for value in carried]
    made = create("scf.while", carried, kinds, regions=2, ip=before(loop), loc=loop.location)
    test = made.regions[0].blocks.append(*kinds, arg_locs=[loop.location] * len(kinds))
    inner = IntegerWriter(ir.InsertionPoint(test), loop.location)
    goes_on = inner.compare("ne", test.arguments[0], end)
    create("scf.condition", [goes_on, *test.arguments], ip=inner.ip, loc=loop.location)
    body = loop.regions[0].blocks[0]
    last = end_of(loop.regions[0])
    following = IntegerWriter(before(last), last.location).add(body.arguments[0], step)
    create("scf.yield", [following, *last.operands], ip=before(last), loc=last.location)
    last.erase()
    body.append_to(made.regions[1])
    for old, new in zip(loop.results, list(made.results)[1:], strict=True):
        old.replace_all_uses_with(new)
    loop.erase()


def _end(lower: Value, upper: Value, step: Value, build: IntegerWriter) -> Value:
    """What the counter is after the last iteration."""
    whole = build.divide(build.subtract(build.subtract(upper, lower), 1), step)
    length = build.multiply(build.add(whole, 1), step)
    return build.select(build.compare("slt", lower, upper), build.add(lower, length), lower)


# Finds what code for AMD chips is linked with: ld.lld, and ROCm's device libraries.
#
# The libraries (`ocml.bc`: mathematics, `ockl.bc`: the launch) come with ROCm, and inside of the
# packages triton and iree-base-compiler; `ROCM_PATH` says where ROCm is, and is looked at first.

# Packages that have the libraries, each with the folder inside of it.
_LIBRARY_PACKAGES = {
    "triton": "backends/amd/lib",
    "iree": "compiler/_mlir_libs/iree_platform_libs/rocm",
}


@contextlib.contextmanager
def toolkit(*, linking: bool) -> Iterator[Path]:
    """A folder that holds amdgcn/bitcode, if there are device libraries, and for `linking`
    llvm/bin/ld.lld, as MLIR looks for them. Raises UsageError (linker-missing)."""
    # The linker is looked for first: without it the rest is for nothing.
    command = _require_linker() if linking else None
    with tempfile.TemporaryDirectory(prefix="async-pipe-") as name:
        folder = Path(name)
        if command is not None:
            script = folder / "llvm" / "bin" / "ld.lld"
            script.parent.mkdir(parents=True)
            quoted = " ".join(f"'{part}'" for part in command)
            script.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n')
            script.chmod(script.stat().st_mode | stat.S_IXUSR)
        libraries = device_libraries()
        if libraries is not None:
            (folder / "amdgcn").mkdir()
            (folder / "amdgcn" / "bitcode").symlink_to(libraries.absolute())
        yield folder


def device_libraries() -> Path | None:
    """The folder with ocml.bc and ockl.bc: of ROCm, else of an installed package."""
    places = [Path(os.environ.get("ROCM_PATH", "/opt/rocm"), "amdgcn", "bitcode")]
    for package, inside in _LIBRARY_PACKAGES.items():
        # A namespace package has several folders.
        found = importlib.util.find_spec(package)
        roots = [] if found is None else found.submodule_search_locations or []
        places += [Path(root, inside) for root in roots]
    return next((place for place in places if (place / "ocml.bc").is_file()), None)


def linker() -> list[str] | None:
    """The command of an ld.lld: on the path, of a ROCm install, or of the ziglang package."""
    places = [os.environ.get("ROCM_PATH", "/opt/rocm") + "/llvm/bin"]
    found = shutil.which("ld.lld") or shutil.which("ld.lld", path=os.pathsep.join(places))
    if found:
        return [found]
    if importlib.util.find_spec("ziglang") is not None:
        return [sys.executable, "-m", "ziglang", "ld.lld"]
    return None


def _require_linker() -> list[str]:
    command = linker()
    if command is None:
        why = "no ld.lld is installed, and a code object has to be linked"
        advice = "install lld (Debian: apt install lld; or pip install ziglang), or use --emit=isa"
        raise UsageError(why, code="linker-missing", advice=advice)
    return command
