"""What a kernel's launch hands over, argument by argument, and the values for it.

    memref<?x64xf16>   -->  pointer, pointer, offset, 2 sizes, 2 strides     (a descriptor)
                            pointer                                          (bare pointers)
    index, i32, f32    -->  itself; an index as 64 bits

A memref's descriptor is MLIR's (LLVM IR Target, "Default calling convention for ranked memref"):
the pointer that was allocated and the one that is aligned, here the same, then offset, sizes and
strides, in elements. The bare pointer convention needs static shapes and no offset.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, is_kernel, symbol_name, walk
from mlir_async_pipe.session.diagnostics import LoweringError, UsageError

Kind = Literal["pointer", "offset", "size", "stride", "number", "other"]

_NUMBERS: dict[str, Any] = {
    "index": ctypes.c_int64,
    "i64": ctypes.c_int64,
    "i32": ctypes.c_int32,
    "i16": ctypes.c_int16,
    "i8": ctypes.c_int8,
    "i1": ctypes.c_bool,
    "f32": ctypes.c_float,
    "f64": ctypes.c_double,
}
# f16 and bf16 are handed over as their bits.
_BITS = {"f16": ctypes.c_uint16, "bf16": ctypes.c_uint16}


@dataclass(frozen=True)
class Parameter:
    """One parameter of an entry point: what it tells of argument `argument` of the kernel.

    `type` is the argument's in MLIR, `bytes` the parameter's size; `dimension` counts from 0 for
    sizes and strides. "other" is an argument of which this module does not know the form.
    """

    kind: Kind
    argument: int
    type: str
    bytes: int
    dimension: int = 0


def parameters_of(root: Operation, *, bare_pointers: bool) -> dict[str, tuple[Parameter, ...]]:
    """The parameters of each kernel below `root`, by its name.

    Raises LoweringError (launch-argument) for a memref of dynamic shape, or with an offset or
    strides, as a bare pointer.
    """
    found = {}
    for op in walk(root):
        if op.name == "gpu.func" and is_kernel(op):
            kinds = list(ir.FunctionType(ir.TypeAttr(op.attributes["function_type"]).value).inputs)
            found[symbol_name(op)] = tuple(
                parameter
                for number, kind in enumerate(kinds)
                for parameter in _of_argument(number, kind, op, bare_pointers)
            )
    return found


def _of_argument(number: int, kind: Any, kernel: Operation, bare: bool) -> list[Parameter]:
    text = str(kind)
    if text in _NUMBERS or text in _BITS:
        size = ctypes.sizeof(_NUMBERS.get(text) or _BITS[text])
        return [Parameter("number", number, text, size)]
    if text.startswith("!llvm.ptr"):
        return [Parameter("pointer", number, text, 8)]
    try:
        memref = ir.MemRefType(kind)
    except ValueError:
        return [Parameter("other", number, text, 0)]
    if bare:
        if not memref.has_static_shape or str(memref.layout) != str(
            ir.AffineMapAttr.get(ir.AffineMap.get_identity(memref.rank))
        ):
            raise LoweringError(
                f"argument {number} of '{symbol_name(kernel)}' is a '{text}', of which a bare "
                "pointer does not tell sizes, strides and offset",
                code="launch-argument",
                at=kernel,
                advice="a static shape without a layout, or descriptors",
            )
        return [Parameter("pointer", number, text, 8)]
    dimensions = range(memref.rank)
    return [
        Parameter("pointer", number, text, 8),
        Parameter("pointer", number, text, 8),
        Parameter("offset", number, text, 8),
        *(Parameter("size", number, text, 8, dimension) for dimension in dimensions),
        *(Parameter("stride", number, text, 8, dimension) for dimension in dimensions),
    ]


def launch_values(parameters: Sequence[Parameter], values: Sequence[Any]) -> tuple[Any, ...]:
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


@dataclass(frozen=True)
class _Array:
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]


def _array(value: Any, parameter: Parameter) -> _Array:
    """Where an array lies; strides in elements."""
    if isinstance(value, int) and parameter.type.startswith("!llvm.ptr"):
        return _Array(value, (), ())
    described = getattr(value, "__cuda_array_interface__", None) or getattr(
        value, "__array_interface__", None
    )
    if described is None:
        raise UsageError(
            f"argument {parameter.argument} is a '{parameter.type}', not {value!r}",
            code="launch-argument",
            advice="an array with __cuda_array_interface__, or a NumPy array that the device sees",
        )
    shape = tuple(described["shape"])
    size = int(described["typestr"][2:])
    strides = described.get("strides")
    if strides is None:
        strides, step = [], size
        for length in reversed(shape):
            strides.insert(0, step)
            step *= length
    _check_shape(shape, size, parameter)
    return _Array(described["data"][0], shape, tuple(step // size for step in strides))


_SHAPE = re.compile(r"memref<((?:(?:\d+|\?)x)*)[a-z]*(\d*)")


def _check_shape(shape: tuple[int, ...], size: int, parameter: Parameter) -> None:
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


def _value(parameter: Parameter, value: Any, arrays: dict[int, _Array]) -> Any:
    if parameter.kind == "number":
        return _number(parameter, value)
    if parameter.kind == "other":
        raise UsageError(
            f"argument {parameter.argument} is a '{parameter.type}', whose form is not known here",
            code="launch-argument",
            advice="a memref, a pointer, an index or a number of at most 64 bits",
        )
    array = arrays[parameter.argument]
    if parameter.kind == "pointer":
        return ctypes.c_void_p(array.address)
    if parameter.kind == "offset":
        return ctypes.c_int64(0)
    of = array.shape if parameter.kind == "size" else array.strides
    return ctypes.c_int64(of[parameter.dimension])


def _number(parameter: Parameter, value: Any) -> Any:
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
