"""Which kernels of a module are checked once: what a proof reads of a kernel, as a key.

    func @f(%A: memref<16xf32>) { … addf … }         values: %A 0, …; a row for each op but `addf`
    func @g(%A: memref<17xf32>) { … addf, addf … }   the same rows: what is proven of @f holds of @g

A kernel's key holds all of its ops with their attributes, types and control flow, the sizes with which
it is launched and what holds it, but for what no proof reads: names, locations, the arithmetic of data
(which decides no address, see `kernel_flow`; its names stay), and the first size of memory that nothing
but subscripts touch (they are in bounds). Nothing comes from who made the kernel. Only a kernel of
which there is nothing to say lends its outcome to others.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import field
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.memo import unchanged
from mlir_async_pipe.bindings.raw_ops import (
    is_function,
    operations,
    parent,
)
from mlir_async_pipe.bindings.type_classes import type_text
from mlir_async_pipe.checker.kernel import Surroundings
from mlir_async_pipe.checker.step_graph import Flow
from mlir_async_pipe.checker.type_kinds import is_memory
from mlir_async_pipe.session.light_dataclass import dataclass
from mlir_async_pipe.vocabulary import ALLOCATION_OPS, accesses, row_of
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS
from mlir_async_pipe.vocabulary.launch_size import name_at_launch
from mlir_async_pipe.vocabulary.mbarrier_ops import MBARRIER_OPS
from mlir_async_pipe.vocabulary.pure_ops import is_pure_name

# The name of a function, and its types, which its arguments have too.
_NAMES = ("sym_name", "function_type")


class _OwnKeyError(Exception):
    """A kernel that is like no other: it calls, has phases, or computes addresses of data."""


def key_of(kernel: Any, around: Surroundings) -> Hashable | None:
    """What is equal for kernels of which the same is proven; None for one that shares nothing."""
    if not is_function(kernel):
        return None
    reader = _Reader()
    try:
        with unchanged():
            regions = reader.regions(kernel)
    except _OwnKeyError:
        return None
    name = name_at_launch(kernel)
    sizes = [frozenset(found.get(name, ())) for found in (around.launches, around.grids)]
    kinds = tuple(
        _without_first_size(kind) if number in reader.subscripted else kind
        for number, kind in enumerate(reader.kinds)
    )
    read = frozenset(reader.names), frozenset(reader.used_by_data), len(_inputs(kernel))
    held = (parent(kernel), kernel.name, _attributes(kernel, _NAMES))
    return (*held, *sizes, *read, kinds, regions)


@dataclass
class _Reader:
    """Numbers the values of one kernel. `kinds` are their types, `subscripted` those of the memory
    that only accesses with subscripts name."""

    kinds: list[Any] = field(default_factory=list)
    subscripted: set[int] = field(default_factory=set)
    names: set[str] = field(default_factory=set)
    used_by_data: set[int] = field(default_factory=set)
    _numbers: dict[Any, int] = field(default_factory=dict)
    _blocks: dict[Any, int] = field(default_factory=dict)
    _types: Flow = field(default_factory=Flow)

    def regions(self, op: Any) -> Hashable:
        """The regions of an op, with all that stands in them."""
        found = []
        for region in op.regions:
            blocks = list(region.blocks)
            for block in blocks:
                self._blocks[block] = len(self._blocks)
                self._add(block.arguments, may_be_subscripted=is_function(op))
            found.append(tuple(self._block(block) for block in blocks))
        return tuple(found)

    def _block(self, block: Any) -> Hashable:
        arguments = len(block.arguments)
        ops = operations(block)
        # The last op hands values on, whatever they are.
        rows = [self._op(op, is_last=number == len(ops)) for number, op in enumerate(ops, 1)]
        return arguments, tuple([row for row in rows if row is not None])

    def _op(self, op: Any, *, is_last: bool) -> Hashable | None:
        name, row, results = op.name, row_of(op), list(op.results)
        self.names.add(name)
        if name in CALL_OPS or name in MBARRIER_OPS:
            raise _OwnKeyError
        if row is not None and (row.by_proxy or row.swizzled or row.descriptors):
            raise _OwnKeyError
        makes_values = row is None and is_pure_name(name) and not (len(op.regions) or is_last)
        operands = list(op.operands)
        is_data = makes_values and all(map(self._types.is_data, results))
        if is_data and not any(map(self._types.is_accumulator, operands)):
            self._use_as_data(operands)
            return None
        given = tuple([self._operand(value, makes_values) for value in operands])
        if row is None or not row.accesses:
            self.subscripted.difference_update(n for n in given if isinstance(n, int))
        else:
            self._access(op, given)
        self._add(results, may_be_subscripted=name in ALLOCATION_OPS)
        successors = tuple([self._blocks[block] for block in op.successors])
        inside = self.regions(op) if len(op.regions) else ()
        return name, _attributes(op), given, len(results), successors, inside

    def _use_as_data(self, operands: list[Any]) -> None:
        """Ids and sizes may be used by data alone: they are used."""
        for value in operands:
            if not self._types.is_data(value):
                if is_memory(value.type):
                    raise _OwnKeyError
                self.used_by_data.add(self._number(value))

    def _operand(self, value: Any, makes_values: bool) -> Hashable:
        """The number of an operand; of data that is stored or handed on its type says all."""
        if not self._types.is_data(value):
            return self._number(value)
        if makes_values:
            raise _OwnKeyError
        return value.type

    def _access(self, op: Any, given: tuple[Hashable, ...]) -> None:
        """What is named otherwise than by an access with subscripts is needed whole."""
        named = set()
        for access in accesses(op):
            if access.indices and access.extent is not None:
                named.add(access.memory_operand)
        self.subscripted.difference_update(
            n for position, n in enumerate(given) if isinstance(n, int) and position not in named
        )

    def _number(self, value: Any) -> int:
        """Raises _OwnKeyError for a value from outside of the kernel."""
        number = self._numbers.get(value)
        if number is None:
            raise _OwnKeyError
        return number

    def _add(self, values: Any, *, may_be_subscripted: bool) -> None:
        for value in values:
            number = self._numbers[value] = len(self.kinds)
            kind = value.type
            self.kinds.append(kind)
            if may_be_subscripted and type_text(kind).startswith("memref<"):
                self.subscripted.add(number)


def _attributes(op: Any, left_out: tuple[str, ...] = ()) -> Hashable:
    attributes = op.attributes
    if not len(attributes):
        return ()
    names = (getattr(entry, "name", entry) for entry in attributes)
    return tuple([(name, attributes[name]) for name in names if name not in left_out])


def _inputs(function: Any) -> Any:
    """The arguments that a function is called with: those of its type, without attributions."""
    if function.name == "llvm.func":
        return function.regions[0].blocks[0].arguments
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value).inputs


def _without_first_size(kind: Any) -> Hashable:
    try:
        memref = ir.MemRefType(kind)
        first, *rest = memref.shape
    except ValueError:
        # Without a rank, or of rank 0.
        return kind
    return first < 0, tuple(rest), memref.element_type, memref.layout, memref.memory_space
