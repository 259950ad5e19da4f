"""What an `async_pipe.scope` does: copies that a chip can issue asynchronously, or not.

    "async_pipe.scope"() ({                              Copies(pairs=(%v -> store,), …)
      %v = vector.load %A[%i, %k] …
      vector.store %v, %tile[%r, %c] …                   a scope that adds, stores to global
      "async_pipe.yield"() : () -> ()                    memory, or calls: NotCopies(reason)
    }) {queue = 0 : i64} : () -> ()

A scope copies if all it writes is workgroup memory, each value written is the result of a load
from global memory with no other use, zero where a mask or a condition leaves elements out
(`masked_loads`), and no two copies may touch the same element: a commit group orders nothing
inside itself. Reads that only make addresses happen at issue, which is
within the time that the scope allows.

How many bytes one asynchronous copy of a chip moves depends on both addresses:

    vector.load %A[%i] : vector<8xf16>       aligned to 16 and 16: one copy of 16 bytes
    vector.store %tile[%j]                   aligned to  8 and 16: two copies of 8 (the load)

They must be known to be aligned to the copy's size (PTX ISA, cp.async), from what
`alignment` proves and from the `alignment` that the load or store itself states. By pointers of LLVM
that is what they state, else what LLVM takes for granted, the alignment of their type.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    ancestors,
    integer_attribute,
    is_made_in,
    walk,
)
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.facts.values.alignment import access_alignment, element_bytes, static_strides
from mlir_async_pipe.facts.values.linear import Arithmetic, Linear
from mlir_async_pipe.facts.values.memory_roots import from_the_start, is_pointer, root_of
from mlir_async_pipe.facts.values.sums import subtract, without
from mlir_async_pipe.facts.values.thread_numbers import Points
from mlir_async_pipe.lowering.scopes.masked_loads import (
    LoadedValue,
    NotCopies,
    is_plain,
    loaded_value,
)
from mlir_async_pipe.vocabulary import Access, accesses, is_pure, is_store, row_of
from mlir_async_pipe.vocabulary.control_flow import in_scope
from mlir_async_pipe.vocabulary.launch_ids import enclosing_launch_size
from mlir_async_pipe.vocabulary.memory_layout import UnknownLayoutError, is_packed, layout_of
from mlir_async_pipe.vocabulary.memory_ops import shape_of

OVERLAP = "copies of one group may write the same element"


@dataclass(frozen=True)
class CopyWidth:
    """A row of `elements` of `element_bytes`, in copies of `piece_bytes`. `narrowed_by` is the access whose
    alignment is not known well enough for a wider copy that the chip has."""

    elements: int
    element_bytes: int
    piece_bytes: int
    narrowed_by: Access | None

    @property
    def piece_elements(self) -> int:
        return self.piece_bytes // self.element_bytes


@dataclass(frozen=True)
class CopyPair:
    """A store and the load whose result it writes, and the copies that they become. What the
    load does not keep is zero."""

    store: Operation
    loaded: LoadedValue
    width: CopyWidth


@dataclass(frozen=True)
class ScopeCopies:
    """The scope only copies; `pairs` are to be formed, other async copies stand already."""

    pairs: tuple[CopyPair, ...]


Refuse = Callable[[CopyPair], str | None]
"""Why a chip cannot issue a pair for reasons of its own, None if it can."""


def classify(scope: Operation, chip: Chip, refuse: Refuse | None = None) -> ScopeCopies | NotCopies:
    """Whether all that `scope` does can be issued as asynchronous copies on `chip`."""
    if not chip.copy_bytes:
        return NotCopies(f"{chip.name} has no asynchronous copy to workgroup memory", scope)
    arithmetic = Arithmetic()
    pairs: list[CopyPair] = []
    written: list[Access] = []
    for op in (op for op in walk(scope) if op != scope):
        found = _classify_op(op, chip, arithmetic, refuse)
        if isinstance(found, NotCopies):
            return found
        if isinstance(found, CopyPair):
            pairs.append(found)
        written += [access for access in accesses(op) if access.writes]
    meeting = find_overlap(scope, written, arithmetic, chip.lanes)
    if meeting is not None:
        return NotCopies(OVERLAP, meeting)
    return ScopeCopies(tuple(pairs))


def _classify_op(
    op: Operation, chip: Chip, arithmetic: Arithmetic, refuse: Refuse | None
) -> CopyPair | NotCopies | None:
    """What one op means for its scope; None: nothing that hinders copying."""
    if is_pure(op) or in_scope(op):
        return None
    row = row_of(op)
    if is_store(op):
        return _pair(op, chip, arithmetic, refuse)
    if row.asynchronous(op) and row.queue == chip.copy_queue:
        return None
    if row.accesses and row.wait is None:
        if any(access.writes for access in accesses(op)):
            return NotCopies(f"'{op.name}' is no copy that {chip.name} can issue", op)
        if all(root_of(access.memory).space == "global" for access in accesses(op)):
            return None
        return NotCopies(f"'{op.name}' reads memory that is not global", op)
    return NotCopies(f"'{op.name}' is no copy", op)


def _pair(
    store: Operation, chip: Chip, arithmetic: Arithmetic, refuse: Refuse | None
) -> CopyPair | NotCopies:
    (target,) = accesses(store)
    if root_of(target.memory).space != "workgroup":
        return NotCopies(f"'{store.name}' does not write workgroup memory", store)
    if store.name == "vector.transfer_write" and not is_plain(store):
        return NotCopies("it may leave elements of its row unwritten, which no copy does", store)
    found = loaded_value(store)
    if isinstance(found, NotCopies):
        return found
    (source,) = accesses(found.load)
    if root_of(source.memory).space != "global":
        return NotCopies(f"'{found.load.name}' does not read global memory", found.load)
    width = copy_width(source, target, chip, arithmetic)
    if isinstance(width, str):
        return NotCopies(width, store)
    pair = CopyPair(store, found, width)
    refused = refuse(pair) if refuse is not None else None
    return pair if refused is None else NotCopies(refused, store)


# What a scope touches twice ------------------------------------------------------------------
#
# Whether two writes of one `async_pipe.scope` may meet in one element.
#
# A scope becomes copies of one commit group, and a group orders nothing inside itself: what the
# later of two writes to one element left there could be either value. Only what is proven apart
# is accepted; one execution of the scope by one thread is looked at, since different threads
# and executions are ordered by barriers and waits.
#
#     for j in 0..4:  store %tile[(%tid + 128 j) / 4, (%tid + 128 j) mod 4 * 8]    each thread's four are enumerated
#     for j in 0..%n: store %tile[4 j + %r, %c]                                    the counter moves by whole extents


def find_overlap(
    scope: Operation, written: Sequence[Access], arithmetic: Arithmetic, lanes: int
) -> Operation | None:
    """An op whose write may meet another write of the scope (or of the statement), None if none does."""
    if branches_backwards(scope):
        return scope
    of_threads = ElementsOfThreads(scope, arithmetic, lanes)
    for access in written:
        if not (_injective(scope, access, arithmetic) or of_threads.are_apart(access)):
            return access.op
    for one, other in combinations(written, 2):
        if not (_apart(scope, one, other, arithmetic) or of_threads.are_apart(one, other)):
            return other.op
    return None


class ElementsOfThreads:
    """The elements that each thread writes in one execution of a scope, where the block's size and the
    ids decide them, but for what is computed before the scope and is the same in all its iterations."""

    def __init__(self, scope: Operation, arithmetic: Arithmetic, lanes: int) -> None:
        self._scope = scope
        self._arithmetic = arithmetic
        self._lanes = lanes
        self._block = enclosing_launch_size(scope)
        self._known: dict[Access, tuple[Any, np.ndarray] | None] = {}

    def are_apart(self, *by: Access) -> bool:
        """Whether no thread writes an element twice by these accesses."""
        found = [self._of(access) for access in by]
        known = [each for each in found if each is not None]
        if len(known) < len(found) or len({begin for begin, _ in known}) > 1:
            return False
        together = np.sort(np.concatenate([numbers for _, numbers in known], axis=1), axis=1)
        written_twice = together[:, 1:] == together[:, :-1]
        return not bool((written_twice & (together[:, 1:] != _NOT_WRITTEN)).any())

    def _of(self, access: Access) -> tuple[Any, np.ndarray] | None:
        if access not in self._known:
            self._known[access] = self._elements(access)
        return self._known[access]

    def _elements(self, access: Access) -> tuple[Any, np.ndarray] | None:
        """What the subscripts have in common with those of other accesses, and a number for each element by
        thread: (threads, elements)."""
        if self._block is None or access.over_lanes or access.extent is None:
            return None
        points = Points.of_loops(access.op, self._scope, self._block, self._lanes)
        if points is None or is_pointer(access.memory) or not access.indices:
            return None
        loops = _loops(self._scope, access.op)
        # Beyond every subscript: elements are numbers with one digit a dimension.
        radix = 1 << 60 // len(access.indices)
        begin, elements = [], [np.zeros_like(points.threads[0])]
        for position, index in enumerate(access.indices):
            number, outside = points.split(self._arithmetic.linear(index))
            if any(is_made_in(symbol, loop) for symbol, _ in outside for loop in loops):
                return None
            lengths = range(_length(access, position))
            if np.abs(number).max() + len(lengths) >= radix // 4:
                return None
            begin.append(outside)
            elements = [e * radix + number + more for e in elements for more in lengths]
        executed, *columns = np.broadcast_arrays(points.runs, *elements)
        numbers = [np.where(executed, e, _NOT_WRITTEN).reshape(len(e), -1) for e in columns]
        return (access.memory, tuple(begin)), np.concatenate(numbers, axis=1)


# The element of an iteration that a thread does not run.
_NOT_WRITTEN = np.iinfo(np.int64).min


def branches_backwards(scope: Operation) -> bool:
    """Whether the blocks of the scope may form a loop."""
    for region in scope.regions:
        blocks = list(region.blocks)
        for number, block in enumerate(blocks):
            successors = list(list(block.operations)[-1].operation.successors)
            if any(successor in blocks[: number + 1] for successor in successors):
                return True
    return False


def _apart(scope: Operation, one: Access, other: Access, arithmetic: Arithmetic) -> bool:
    """Whether two accesses never meet, whatever the iterations of loops around them."""
    first, second = root_of(one.memory), root_of(other.memory)
    if first.key != second.key:
        return first.owned and second.owned
    loops = _loops(scope, one.op) + _loops(scope, other.op)
    if is_pointer(one.memory) and is_pointer(other.memory):
        return not loops and _bytes_apart(one, other, arithmetic)
    if one.memory != other.memory:
        return False
    for position, indices in enumerate(zip(one.indices, other.indices, strict=True)):
        a, b = map(arithmetic.linear, indices)
        distance = subtract(a, b)
        ahead, behind = _length(other, position), _length(one, position)
        apart = distance.constant >= ahead or -distance.constant >= behind
        if apart and not distance.terms and not (_varies(a, loops) or _varies(b, loops)):
            return True
    return False


def _bytes_apart(one: Access, other: Access, arithmetic: Arithmetic) -> bool:
    """The same of accesses by pointers: they begin at least as far apart as the first one is long."""
    starts = [from_the_start(access.memory, arithmetic) for access in (one, other)]
    found = [start for start in starts if start is not None]
    if len(found) < 2 or one.extent is None or other.extent is None:
        return False
    (base, first), (other_base, second) = found
    distance = subtract(second, first)
    if base != other_base or distance.terms:
        return False
    return distance.constant >= one.extent[0] or -distance.constant >= other.extent[0]


def _injective(scope: Operation, access: Access, arithmetic: Arithmetic) -> bool:
    """Whether no two iterations of the loops inside the scope write the same element.

    Each loop needs a dimension in which its induction variable moves by whole extents, and
    nothing else that varies in these loops occurs.
    """
    loops = _loops(scope, access.op)
    return all(
        any(
            _moves_alone(
                arithmetic.linear(index), loop, loops, _length(access, position), arithmetic
            )
            for position, index in enumerate(access.indices)
        )
        for loop in loops
    )


def _moves_alone(
    form: Linear, loop: Operation, loops: list[Operation], length: int, arithmetic: Arithmetic
) -> bool:
    variable = loop.regions[0].blocks[0].arguments[0]
    step = arithmetic.linear(loop.operands[2])
    if step.terms or abs(step.constant * form.coefficient(variable)) < length:
        return False
    return not _varies(without(form, variable), loops)


def _varies(form: Linear, loops: list[Operation]) -> bool:
    """Whether a symbol of the form is made inside one of the loops."""
    return any(is_made_in(symbol, loop) for symbol in form.symbols for loop in loops)


def _loops(scope: Operation, op: Operation) -> list[Operation]:
    """The loops around `op` inside the scope, which may be one itself, innermost first."""
    found = []
    for above in ancestors(op):
        if above.name == "scf.for":
            found.append(above)
        if above == scope:
            break
    return found


def _length(access: Access, position: int) -> int:
    """Elements that the access covers in dimension `position`."""
    extent = access.extent or ()
    axis = position - (len(access.indices) - len(extent))
    return extent[axis] if axis >= 0 else 1


class _Row(NamedTuple):
    """What a copy moves, and the known alignment of source and target."""

    elements: int
    element_bytes: int
    source: int
    target: int


def copy_width(
    source: Access, target: Access, chip: Chip, arithmetic: Arithmetic, assumed: int = 1
) -> CopyWidth | str:
    """The widest copies that the chip has and that both addresses are aligned for; else why not. `assumed` is what
    `access_alignment` takes for granted of the source between memrefs."""
    by_pointer = [access.op for access in (source, target) if is_pointer(access.memory)]
    if by_pointer and (len(by_pointer) == 1 or chip.lowering != "nvvm"):
        return f"'{by_pointer[0].name}' goes by a pointer, and copies are made between memrefs"
    if by_pointer:
        row = _between_pointers(source.op, target.op)
    else:
        row = _between_memrefs(source, target, arithmetic, assumed)
    if isinstance(row, str):
        return row
    elements, element, of_source, of_target = row
    total = elements * element
    sizes = [size for size in chip.copy_bytes if _divides(size, total, element, chip)]
    fitting = [n for n in sizes if of_target >= n and of_source >= _source_alignment(n, chip)]
    if not fitting:
        listed = ", ".join(map(str, chip.copy_bytes))
        return (
            f"{chip.name} copies {listed} bytes, and this copy has {total} bytes at addresses "
            f"that are known to be aligned to {min(of_source, of_target)}"
        )
    piece, widest = max(fitting), max(sizes)
    if piece < widest:
        return CopyWidth(elements, element, piece, target if of_target < widest else source)
    # Where lanes write side by side, a copy for one thread stays whole: cut into pieces of the
    # chip's size its lanes would no longer be neighbours.
    return CopyWidth(elements, element, total if _shares_address(chip) else piece, None)


def _between_memrefs(
    source: Access, target: Access, arithmetic: Arithmetic, assumed: int
) -> _Row | str:
    extent = target.extent
    if not is_packed(target.memory) or extent is None or len(extent) > 1:
        return _NO_ROW
    for access in (source, target):
        strides = static_strides(access.memory)
        if not strides or strides[-1] != 1:
            return f"the elements of '{access.op.name}' are not next to each other in memory"
    if str(ir.MemRefType(target.memory.type).element_type) == "index":
        # The verifiers of the copy ops ask for the element's width, which ends the process.
        return "no chip's copy has elements of type index"
    of_source = _known_alignment(source, arithmetic, assumed)
    of_target = _known_alignment(target, arithmetic, 1)
    return _Row(extent[0] if extent else 1, element_bytes(target.memory), of_source, of_target)


_NO_ROW = "its elements do not lie in one row of whole bytes without padding"


def _between_pointers(load: Any, store: Any) -> _Row | str:
    """The same of llvm.load and llvm.store."""
    kind = store.operands[0].type
    try:
        row = layout_of(kind)
        element = layout_of(ir.VectorType(kind).element_type) if shape_of(kind) else row
    except UnknownLayoutError as unknown:
        return str(unknown)
    whole = element.bits == 8 * element.stride_bytes and not row.bits % element.bits
    if not whole or len(shape_of(kind)) > 1:
        return _NO_ROW
    for op in (load, store):
        if "volatile_" in op.attributes or integer_attribute(op, "ordering"):
            return f"'{op.name}' is volatile or atomic"
    known = (integer_attribute(op, "alignment") or row.alignment for op in (load, store))
    return _Row(row.bits // element.bits, element.stride_bytes, *known)


def _known_alignment(access: Access, arithmetic: Arithmetic, assumed: int) -> int:
    stated = integer_attribute(access.op, "alignment") or 1
    return max(stated, access_alignment(access.memory, access.indices, arithmetic, assumed))


def _source_alignment(size: int, chip: Chip) -> int:
    """Bytes that a copy of `size` bytes needs its source to be aligned to."""
    form = chip.copy_form
    return min(size, form.source_alignment) if form is not None else size


def _divides(size: int, total: int, element: int, chip: Chip) -> bool:
    if total % size or size % element:
        return False
    # Lanes share the places of a wave evenly only if a copy is cut in a power of two.
    return not _shares_address(chip) or chip.lanes % (total // size) == 0


def _shares_address(chip: Chip) -> bool:
    return chip.copy_form is not None and chip.copy_form.wave_base
