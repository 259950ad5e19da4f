"""From a pipelined module to code, and back from the code to the counts in it.

    lower(module, target=Target.parse("nvvm:sm_80"), emit="cubin")
    lower(module, target=Target.parse("rocdl:gfx950"), emit="isa")

    with begin(module, target=target) as started:     the back end works in its own process
        …                                             so does this one
        lowered = started.result()

The caller's module stays as it is; passes run on a copy, and back ends in a child process.
What comes back holds the code, and what was read from it: the waits of every kernel with their
counts, registers, spills, and shared memory.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, field
from math import prod
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, function_type, is_kernel, symbol_name, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session.arguments import did_you_mean
from mlir_async_pipe.session.called_from import called_by_users
from mlir_async_pipe.session.diagnostics import Diagnostic, LoweringError, UsageError
from mlir_async_pipe.session.report import Session

if TYPE_CHECKING:
    from mlir_async_pipe.lowering.nvvm.cuda_launch import LaunchedKernel

EMIT_KINDS = {"nvvm": ("llvm", "ptx", "cubin"), "rocdl": ("llvm", "isa", "hsaco")}


@dataclass(frozen=True)
class CodeOptions:
    """How code is made: the options of `mlir_async_pipe.lower`. Without `kept` ptxas is asked anew about PTX that it has
    seen in another process."""

    strict: bool = False
    bare_pointers: bool = False
    bypass_l1: Literal["all", "formed"] = "all"
    l2_lines: bool = True
    resources: bool | None = None
    kept: bool = True


AS_USUAL = CodeOptions()


@dataclass(frozen=True)
class Lowered:
    """Emitted code: `text` or `binary` (the other is empty), and its kernels.

    `kernels` are NvidiaKernel (`lower_nvvm`) or IsaKernel (`isa`), `waits` on AMD what became
    of each wait (`isa`). `parameters` has, by kernel, what a launch hands over
    (`launch_parameters`). `diagnostics` are the remarks of the lowering, `emit` and
    `target` what was asked for. `seconds` is the wall time of each step, by its name.
    """

    target: str
    emit: str
    text: str
    binary: bytes
    kernels: tuple[Any, ...]
    waits: tuple[Any, ...] = ()
    diagnostics: tuple[Diagnostic, ...] = ()
    parameters: dict[str, tuple[EntryParameter, ...]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict, compare=False)

    @called_by_users
    def arguments(self, kernel: str, values: Sequence[Any]) -> tuple[Any, ...]:
        """The ctypes values that a launch of `kernel` hands over, one for each parameter.

        `values` are the kernel's own arguments in order, as `machine.run` takes them: arrays that
        the device sees (`__cuda_array_interface__`, or NumPy's), addresses, numbers. Raises
        UsageError (launch-argument) for what does not fit, or no such kernel.
        """
        if kernel not in self.parameters:
            why = f"there is no kernel '{kernel}'"
            advice = f"there is {', '.join(self.parameters) or 'none'}"
            raise UsageError(why, code="launch-argument", advice=advice)
        return launch_values(self.parameters[kernel], values)

    @called_by_users
    def load(self, kernel: str = "") -> LaunchedKernel:
        """A kernel on the GPU, to be called with its arguments; the only one needs no name.

            code.load("gemm")(a, b, c, grid=(m // 128, n // 128))

        Raises UsageError: no-gpu, launch-argument (code for another vendor, or no such kernel), and
        launch-failed for what the driver refuses.
        """
        from mlir_async_pipe.lowering.nvvm.cuda_launch import load

        if not self.target.startswith("nvvm"):
            raise UsageError(
                f"the code is for {self.target}, no NVIDIA GPU takes it", code="launch-argument"
            )
        found = [known for known in self.kernels if kernel in ("", known.name)]
        if len(found) != 1:
            raise UsageError(
                f"there is no kernel '{kernel}'" if kernel else "which kernel is not said",
                code="launch-argument",
                advice=f"there is {', '.join(known.name for known in self.kernels) or 'none'}",
            )
        # The driver compiles PTX itself; a text ends with a zero for it.
        return load(self.binary or self.text.encode() + b"\0", found[0], self.arguments)


class Started:
    """A lowering that has begun; leaving its context ends the back end's process."""

    def __init__(self, steps: Generator[None, None, Lowered]) -> None:
        self._steps = steps
        self._lowered: Lowered | None = None
        self._error: Exception | None = None
        self._advance()

    def __enter__(self) -> Started:
        return self

    def __exit__(self, *raised: object) -> None:
        self._steps.close()

    def result(self) -> Lowered:
        """Wait for the code; raises what the lowering raised, also while it began."""
        while self._lowered is None:
            if self._error is not None:
                raise self._error
            self._advance()
        return self._lowered

    def _advance(self) -> None:
        try:
            next(self._steps)
        except StopIteration as done:
            self._lowered = done.value
        except Exception as error:
            self._error = error


def begin(
    module: Any, *, target: Target, emit: str = "ptx", options: CodeOptions = AS_USUAL
) -> Started:
    """Begin to lower `module`, and return as soon as the back end's process works, if there is
    one. The module may be looked at meanwhile.

    Raises UsageError (emit-kind) for a kind that the target does not have; all else is raised by
    `Started.result`.
    """
    kinds = EMIT_KINDS[target.lowering]
    if emit not in kinds:
        raise UsageError(
            f"target '{target}' cannot emit '{emit}'",
            code="emit-kind",
            advice=did_you_mean(str(emit), kinds, "it can emit"),
        )
    return Started(_steps(module.operation, target, emit, options))


def lower(
    module: Any, *, target: Target, emit: str = "ptx", options: CodeOptions = AS_USUAL
) -> Lowered:
    """Lower `module` to `target` and emit "llvm" (dialect), "ptx", "cubin", "isa" or "hsaco".

    Raises AsyncPipeError: LoweringError where the module cannot be lowered, UsageError for a
    kind that the target does not have or a tool that is missing.
    """
    with begin(module, target=target, emit=emit, options=options) as started:
        return started.result()


def _steps(
    module: Any, target: Target, emit: str, options: CodeOptions
) -> Generator[None, None, Lowered]:
    """Lower a copy; yields while a back end works."""
    # It needs the bindings, which may be chosen until now.
    session = Session(target=target, witnesses=False)
    root = module.operation.clone(ip=False).operation
    bare = options.bare_pointers
    parameters = parameters_of(root, bare_pointers=bare)
    code: Any
    waits: tuple[Any, ...] = ()
    # Only the vendor that is asked for is imported: start-up counts.
    if target.lowering == "nvvm":
        from mlir_async_pipe.lowering.nvvm import lower_nvvm

        asked = asdict(options)
        how = {name: asked.pop(name) for name in ("resources", "kept")}
        code = yield from lower_nvvm.generate(root, session, target.chip, emit, asked, **how)
    else:
        from mlir_async_pipe.lowering.rocdl import rocdl_code, to_rocdl

        to_rocdl.run(root, to_rocdl.ToRocdlOptions(target.chip.name, options.strict), session)
        code = yield from rocdl_code.generate(root, target.chip, emit, bare_pointers=bare)
        waits = code.waits
        rocdl_code.remark_stricter(waits, session.diagnostics)
        rocdl_code.remark_spills(code, root, session.diagnostics)
    said = tuple(session.diagnostics.items)
    made = (code.text, code.binary, code.kernels, waits, said, parameters, session.seconds)
    return Lowered(str(target), emit, *made)


# What a kernel's launch hands over, argument by argument, and the values for it.
#
#     memref<?x64xf16>   -->  pointer, pointer, offset, 2 sizes, 2 strides     (a descriptor)
#                             pointer                                          (bare pointers)
#     index, i32, f32    -->  itself; an index as 64 bits
#
# A memref's descriptor is MLIR's (LLVM IR Target, "Default calling convention for ranked memref"):
# the pointer that was allocated and the one that is aligned, here the same, then offset, sizes and
# strides, in elements. The bare pointer convention needs static shapes and no offset.

Kind = Literal["pointer", "offset", "size", "stride", "number", "other"]
_OF_DIMENSIONS: tuple[Kind, Kind] = ("size", "stride")

_NUMBERS: dict[str, Any] = {
    "index": ctypes.c_int64, "i64": ctypes.c_int64, "i32": ctypes.c_int32, "i16": ctypes.c_int16,
    "i8": ctypes.c_int8, "i1": ctypes.c_bool, "f32": ctypes.c_float, "f64": ctypes.c_double,
}  # fmt: skip
# f16 and bf16 are handed over as their bits.
_BITS = {"f16": ctypes.c_uint16, "bf16": ctypes.c_uint16}


@dataclass(frozen=True)
class EntryParameter:
    """One parameter of an entry point: what it tells of argument `argument` of the kernel.

    `type` is the argument's in MLIR, `bytes` the parameter's size; `dimension` counts from 0 for
    sizes and strides. "other" is an argument of which this module does not know the form.
    """

    kind: Kind
    argument: int
    type: str
    bytes: int
    dimension: int = 0


def parameters_of(root: Operation, *, bare_pointers: bool) -> dict[str, tuple[EntryParameter, ...]]:
    """The parameters of each kernel below `root`, by its name.

    Raises LoweringError (launch-argument) for a memref of dynamic shape, or with an offset or
    strides, as a bare pointer.
    """
    found = {}
    for op in walk(root):
        if op.name == "gpu.func" and is_kernel(op):
            found[symbol_name(op)] = tuple(
                parameter
                for number, kind in enumerate(function_type(op).inputs)
                for parameter in _of_argument(number, kind, op, bare_pointers)
            )
    return found


def _of_argument(number: int, kind: Any, kernel: Operation, bare: bool) -> list[EntryParameter]:
    text = str(kind)
    pointer = EntryParameter("pointer", number, text, 8)
    if text in _NUMBERS or text in _BITS:
        size = ctypes.sizeof(_NUMBERS.get(text) or _BITS[text])
        return [EntryParameter("number", number, text, size)]
    if text.startswith("!llvm.ptr"):
        return [pointer]
    try:
        memref = ir.MemRefType(kind)
    except ValueError:
        return [EntryParameter("other", number, text, 0)]
    if not bare:
        sizes, strides = (
            [EntryParameter(of, number, text, 8, dimension) for dimension in range(memref.rank)]
            for of in _OF_DIMENSIONS
        )
        return [pointer, pointer, EntryParameter("offset", number, text, 8), *sizes, *strides]
    plain = str(ir.AffineMapAttr.get(ir.AffineMap.get_identity(memref.rank)))
    if not memref.has_static_shape or str(memref.layout) != plain:
        raise LoweringError(
            f"argument {number} of '{symbol_name(kernel)}' is a '{text}', of which a bare "
            "pointer does not tell sizes, strides and offset",
            code="launch-argument",
            at=kernel,
            advice="a static shape without a layout, or descriptors",
        )
    return [pointer]


def launch_values(parameters: Sequence[EntryParameter], values: Sequence[Any]) -> tuple[Any, ...]:
    """The ctypes values of all parameters, for arguments `values` in the kernel's order.

    A value is an array on the device (whatever has `__cuda_array_interface__`: CuPy, Torch, Numba,
    cuda.core), a NumPy array in memory that the device sees, an address for a pointer, or a number.
    Raises UsageError (launch-argument) for one that does not fit.
    """
    wanted = 1 + max((p.argument for p in parameters), default=-1)
    if len(values) != wanted:
        raise UsageError(
            f"the kernel takes {wanted} arguments, not {len(values)}", code="launch-argument"
        )
    arrays = {p.argument: _array(values[p.argument], p) for p in parameters if p.kind == "pointer"}
    return tuple(_value(p, values[p.argument], arrays) for p in parameters)


class _Array(NamedTuple):
    """Where an array lies; strides in elements."""

    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _array(value: Any, parameter: EntryParameter) -> _Array:
    if isinstance(value, int) and parameter.type.startswith("!llvm.ptr"):
        return _Array(value, (), ())
    ways = ("__cuda_array_interface__", "__array_interface__")
    described = next(filter(None, (getattr(value, way, None) for way in ways)), None)
    if described is None:
        why = f"argument {parameter.argument} is a '{parameter.type}', not {value!r}"
        advice = "an array with __cuda_array_interface__, or a NumPy array that the device sees"
        raise UsageError(why, code="launch-argument", advice=advice)
    shape, size = tuple(described["shape"]), int(described["typestr"][2:])
    strides = described.get("strides")
    if strides is None:
        strides = [size * prod(shape[axis + 1 :]) for axis in range(len(shape))]
    _check_shape(shape, size, parameter)
    return _Array(described["data"][0], shape, tuple(step // size for step in strides))


_SHAPE = re.compile(r"memref<((?:(?:\d+|\?)x)*)[a-z]*(\d*)")


def _check_shape(shape: tuple[int, ...], size: int, parameter: EntryParameter) -> None:
    """Raise UsageError (launch-argument) for an array that is not what the kernel's type says."""
    found = _SHAPE.match(parameter.type)
    if found is None:
        return
    wanted = found.group(1).split("x")[:-1]
    bits = int(found.group(2) or 64)
    fits = len(shape) == len(wanted) and all(
        given in ("?", str(length)) for given, length in zip(wanted, shape, strict=True)
    )
    if not fits or size != max(bits, 8) // 8:
        raise UsageError(
            f"argument {parameter.argument} is a '{parameter.type}', but the array has the shape "
            f"{shape} and {size} bytes an element",
            code="launch-argument",
        )


def _value(parameter: EntryParameter, value: Any, arrays: dict[int, _Array]) -> Any:
    array = arrays.get(parameter.argument, _Array(0, (), ()))
    match parameter.kind:
        case "number":
            return _number(parameter, value)
        case "pointer":
            # cuda.core takes no c_void_p.
            return ctypes.c_uint64(array.address)
        case "offset":
            return ctypes.c_int64(0)
        case "size":
            return ctypes.c_int64(array.shape[parameter.dimension])
        case "stride":
            return ctypes.c_int64(array.strides[parameter.dimension])
    why = f"argument {parameter.argument} is a '{parameter.type}', whose form is not known here"
    advice = "a memref, a pointer, an index or a number of at most 64 bits"
    raise UsageError(why, code="launch-argument", advice=advice)


def _number(parameter: EntryParameter, value: Any) -> Any:
    if parameter.type in _BITS:
        import numpy as np

        if parameter.type == "f16":
            return ctypes.c_uint16(int(np.float16(value).view(np.uint16)))
        # bf16 is the upper half of f32, rounded to even.
        bits = int(np.float32(value).view(np.uint32))
        return ctypes.c_uint16((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16)
    try:
        return _NUMBERS[parameter.type](value)
    except TypeError as error:
        raise UsageError(
            f"argument {parameter.argument} is a '{parameter.type}', not {value!r}",
            code="launch-argument",
        ) from error
