"""Constants of arith, index and llvm, and conversions between scalar types."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.kinds import Kind, unsigned
from mlir_async_pipe.machine.registry import Execute, semantics

Array = np.ndarray


def constant_array(site: Site, attribute: Any, kind: Kind) -> Array:
    """The value of a constant as an array with one uniform lane."""
    for view in (ir.IntegerAttr, ir.BoolAttr, ir.FloatAttr):
        try:
            return kind.settle(np.array([view(attribute).value]))
        except ValueError:
            continue
    return dense_array(site, attribute, kind)[None]


def dense_array(site: Site, attribute: Any, kind: Kind) -> Array:
    """A dense elements attribute as an array of its shape, in the computed type of `kind`."""
    dense = ir.DenseElementsAttr(attribute)
    shape = tuple(int(size) for size in ir.ShapedType(dense.type).shape)
    if dense.is_splat:
        splat = dense.get_splat_value()
        return np.broadcast_to(constant_array(site, splat, kind.element)[0], shape)
    if kind.name == "index" or kind.dtype.kind in "biu":
        return kind.settle(np.array([int(x) for x in ir.DenseIntElementsAttr(attribute)])).reshape(
            shape
        )
    try:
        values = [float(x) for x in ir.DenseFPElementsAttr(attribute)]
    except (TypeError, ValueError) as error:
        raise site.unsupported(f"constants of type {kind.name}") from error
    return kind.settle(np.array(values)).reshape(shape)


@semantics("arith.constant", "index.constant", "index.bool.constant", "llvm.mlir.constant")
def constant(site: Site) -> Execute:
    """A constant, decoded once."""
    value = constant_array(site, site.op.attributes["value"], site.result_kind())
    value.setflags(write=False)
    return lambda unit: value


@semantics(
    *"arith.index_cast arith.trunci arith.truncf arith.extf arith.extsi arith.sitofp".split(),
    *"index.casts llvm.trunc llvm.sext llvm.fptrunc llvm.fpext llvm.sitofp".split(),
)
def convert(site: Site) -> Execute:
    """Conversion by value, sign-extended where it widens an integer: true becomes -1."""
    kind = site.result_kind()
    if kind.name == "i1" and not site.operand_kind().is_float:
        return lambda unit, value: (value & 1).astype(np.bool_)
    source = site.operand_kind()
    if source.name == "i1":
        return lambda unit, value: kind.settle(-value.astype(np.int64))
    return lambda unit, value: kind.settle(value)


@semantics("arith.extui", "arith.index_castui", "index.castu", "llvm.zext")
def zero_extend(site: Site) -> Execute:
    kind = site.result_kind()
    if kind.name == "i1":
        return lambda unit, value: (value & 1).astype(np.bool_)
    return lambda unit, value: kind.settle(unsigned(value))


@semantics("arith.uitofp", "llvm.uitofp")
def unsigned_to_float(site: Site) -> Execute:
    """Unsigned integer to float."""
    kind = site.result_kind()
    return lambda unit, value: kind.settle(unsigned(value))


@semantics("arith.fptosi", "llvm.fptosi")
def float_to_signed(site: Site) -> Execute:
    """Float to signed integer, rounded towards zero."""
    kind = site.result_kind()
    return lambda unit, value: np.trunc(value).astype(kind.dtype)


@semantics("arith.fptoui", "llvm.fptoui")
def float_to_unsigned(site: Site) -> Execute:
    """Float to unsigned integer, rounded towards zero."""
    kind = site.result_kind()
    return lambda unit, value: np.trunc(value).astype(np.uint64).astype(kind.dtype)


@semantics("arith.bitcast", "llvm.bitcast")
def bitcast(site: Site) -> Execute:
    """The same bits in another type of the same width."""
    source, target = site.operand_kind(), site.result_kind()

    def execute(unit: Any, value: Array) -> Array:
        stored = source.encode(value)
        flat = stored.reshape(len(stored), -1).view(target.stored)
        return target.decode(flat).reshape((len(stored), *target.shape))

    return execute
