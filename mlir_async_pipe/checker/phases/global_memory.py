"""Which global memory tensor copies touch that something else of the kernel touches, too.

    %a = nvgpu.tma.create.descriptor %x        copies by %a read %x
    nvgpu.tma.async.load %a[…]; store %x       looked at: is the store ordered after the copy?
    nvgpu.tma.async.load %a[…]; store %c       only if %c may be %x: without `llvm.noalias`
    nvvm.tensormap.replace … in %a             looked at: copies by %a read the map itself, too

A map that the kernel is given describes memory that any argument without `llvm.noalias` may be, and that of
another such map, unless the author says that it is not. Roots that may be one memory are a family; what
meets by a family alone is unknown.
Kernels without such a pair are not followed again for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import chain
from math import prod
from typing import Any, Literal

from mlir_async_pipe.checker.phase_faults import NotFollowedError
from mlir_async_pipe.checker.phases.byte_places import (
    BytePlace,
    ByteRange,
    Value,
    bytes_from,
    global_root,
    region_of_access,
    root_place,
)
from mlir_async_pipe.checker.phases.path_state import Spot
from mlir_async_pipe.checker.sites import Sites
from mlir_async_pipe.checker.step_graph import Flow, Run
from mlir_async_pipe.facts.flow.algorithms import joined
from mlir_async_pipe.facts.values.memory_roots import (
    Root,
    described_memref,
    described_root,
    is_given_map,
    map_root,
    root_of,
)
from mlir_async_pipe.vocabulary import accesses, groups_of, is_partial_barrier, use_of
from mlir_async_pipe.vocabulary.mbarrier_ops import MAKES_TENSOR_MAP, MAP_BYTES
from mlir_async_pipe.vocabulary.rows import BULK_STORE
from mlir_async_pipe.vocabulary.tensor_boxes import box_of

Use = Literal["copy", "put", "map", "read", "write"]
# A root, how it is touched, and what an author asserted of the op, as `Site.independent` is.
_Kind = tuple[int, Use, int | None]


@dataclass(frozen=True)
class GlobalMemory:
    """The roots that are looked at, by their numbers, as they are numbered in regions. `maps`: those of them
    that hold tensor maps, with all that is done there. `pairs`: a copy and something else that may touch one
    place, one pair for each kind."""

    sites: Sites
    roots: dict[int, int]
    maps: dict[int, frozenset[Use]]
    pairs: tuple[tuple[Run, Run], ...]

    def touched(self, run: Run) -> frozenset[int]:
        """The roots of such memory that an op touches."""
        return frozenset(root for root, _ in uses(self.sites, run) if root in self.roots)

    def read_by(self, spot: Spot, run: Run) -> tuple[ByteRange, ...]:
        """What a copy into workgroup memory reads."""
        return (*self.box(spot, run), *self.map_of(spot, run))

    def seen(self, region: ByteRange, op: Any) -> ByteRange | None:
        """A region of a root of the kernel as one that is looked at, None if it is not."""
        root = self.roots.get(region.root)
        if root is None:
            return None
        return region._replace(root=root, asserted=self.sites.independent(op))

    def box(self, spot: Spot, run: Run) -> Iterator[ByteRange]:
        """What a copy touches of global memory, if something else does."""
        op = run.op
        root, use = next(_copied(self.sites, run), (-1, "copy"))
        if root not in self.roots:
            return
        at = groups_of(op)
        if "tensor_map" in at:
            coordinates = [spot.get(run.operands[n]) for n in reversed(at["coordinates"])]
            region = _boxed(root, op, op.operands[at["tensor_map"][0]], coordinates)
        else:
            place = spot.get(run.operands[at["source" if use == "copy" else "destination"][0]])
            size = spot.get(run.operands[at["bytes"][0]])
            region = ByteRange(root)
            if isinstance(place, BytePlace) and isinstance(size, int):
                region = bytes_from(place, size)
        yield from filter(None, [self.seen(region, op)])

    def map_of(self, spot: Spot, run: Run) -> Iterator[ByteRange]:
        """The tensor map that an op names, if something writes it."""
        found = _map_of(self.sites, run)
        if found is None or found[0] not in self.maps:
            return
        root, operand = found
        if any(use in ("copy", "put") for use in self.maps[root]):
            raise NotFollowedError("async-proxy")
        place = spot.get(run.operands[operand])
        region = bytes_from(place, MAP_BYTES) if isinstance(place, BytePlace) else ByteRange(root)
        yield from filter(None, [self.seen(region, run.op)])

    def reason(self, one: Run, other: Run) -> str:
        """Why it cannot be decided whether two ops touch one place."""
        return "unknown-place" if self.touched(one) & self.touched(other) else "may-alias"


def find_global_memory(sites: Sites, flow: Flow) -> GlobalMemory | None:
    """The global memory of a kernel that copies and something else touch; None if there is none."""
    kinds: dict[_Kind, Run] = {}
    for run in flow.runs():
        if not run.makes_values:
            asserted = None if not run.row.known else sites.independent(run.op)
            for root, use in uses(sites, run):
                kinds.setdefault((root, use, asserted), run)
    copies = [kind for kind in kinds if kind[1] in ("copy", "put", "map")]
    pairs = [(a, b) for a in copies for b in kinds if _conflict(a, b, sites)]
    if not pairs:
        return None
    open_ones = ((a, b) for a, b in pairs if not _is_vouched(a, b))
    ends = tuple((kinds[a], kinds[b]) for a, b in open_ones)
    held = {a[0] for a, _ in pairs if a[1] == "map"}
    maps = {root: frozenset(use for of, use, _ in kinds if of == root) for root in held}
    return GlobalMemory(sites, _families([(a[0], b[0]) for a, b in pairs], held), maps, ends)


def _conflict(one: _Kind, other: _Kind, sites: Sites) -> bool:
    """Whether a copy and something else may touch one place, and one of them writes it."""
    root, use, _ = one
    if use == "map":
        return other[1] in ("put", "write") and root == other[0]
    beside = ("put", "write") if use == "copy" else ("copy", "read", "write")
    if other[1] not in beside:
        return False
    if root == other[0]:
        return True
    roots = sites.roots
    given = all(is_given_map(roots.roots[n]) for n in (root, other[0]))
    if _is_vouched(one, other) or (given and roots.noalias_maps):
        return False
    return roots.may_alias(root, other[0])


def _is_vouched(one: _Kind, other: _Kind) -> bool:
    """Whether an author asserts that they touch different places."""
    return one[2] is not None and one[2] == other[2]


def _families(pairs: list[tuple[int, int]], maps: set[int]) -> dict[int, int]:
    """The roots of the pairs as regions have them: those that may be one memory are a family; some hold `maps`."""
    roots = dict.fromkeys(chain.from_iterable(pairs))
    families = {root: part[0] for part in joined(sorted(roots), pairs) for root in part}
    return {
        root: global_root(families[root], number, of_maps=root in maps)
        for number, root in enumerate(roots)
    }


def uses(sites: Sites, run: Run) -> Iterator[tuple[int, Use]]:
    """The roots of global memory that an op touches, and how."""
    op, row = run.op, run.row
    copied = tuple(_copied(sites, run))
    read = _map_of(sites, run) if copied else None
    if read is not None:
        yield read[0], "map"
    if copied or use_of(op) is not None or op.name == MAKES_TENSOR_MAP:
        yield from copied
        return
    found: list[tuple[Root, Use]] = []
    if row.known:
        found = [(root_of(a.memory), "read" if a.kind == "read" else "write") for a in accesses(op)]
    elif not (sites.is_harmless(op) or is_partial_barrier(op)):
        given = sites.roots_given(run)
        reached = sites.reachable(op, given) if given else ()
        found = [(sites.roots.roots[n], "write") for n in reached]
    for root, use in found:
        if root.space == "global":
            yield sites.roots.number(root, run.frame), use


def _map_of(sites: Sites, run: Run) -> tuple[int, int] | None:
    """The root of the tensor map that a copy or a fence names, and the operand that leads to it."""
    at = groups_of(run.op)
    for name in ("tensor_map", "address"):
        root = map_root(run.op.operands[at[name][0]]) if name in at else None
        if root is not None:
            return sites.roots.number(root, run.frame), at[name][0]
    return None


def _copied(sites: Sites, run: Run) -> Iterator[tuple[int, Use]]:
    """The root that a copy between global and workgroup memory reads or writes."""
    op, row = run.op, run.row
    if row.phase == "copy":
        use: Use = "copy"
        end = "source"
    elif row.queue == BULK_STORE and row.accesses:
        use, end = "put", "destination"
    else:
        return
    at = groups_of(op)
    by_map = "tensor_map" in at
    if not by_map and end not in at:
        # It comes from registers.
        return
    value = op.operands[at["tensor_map" if by_map else end][0]]
    root = described_root(value) if by_map else root_of(value)
    yield sites.roots.number(root, run.frame), use


def _boxed(root: int, op: Any, tensor_map: Any, coordinates: list[Value]) -> ByteRange:
    """The bytes of a box of a tensor, from its first element to its last one."""
    box, kind = box_of(op), described_memref(tensor_map)
    if box is None or len(box[0]) != len(coordinates):
        return ByteRange(root)
    shape, size = box
    if kind is not None and len(kind.shape) != len(shape):
        return ByteRange(root)
    if kind is None:
        # Of a tensor of one dimension that is not known the strides are.
        at = coordinates[0]
        if len(shape) > 1 or not isinstance(at, int):
            return ByteRange(root)
        return ByteRange(root, at * size, (at + shape[0]) * size, True)
    region = region_of_access(root_place(root, kind), kind, coordinates, shape)
    low, high = region.low, region.high
    dense = low is not None and high is not None and high - low == prod(shape) * size
    inside = all(
        isinstance(at, int) and 0 <= at <= whole - length
        for at, whole, length in zip(coordinates, kind.shape, shape, strict=True)
    )
    return region._replace(exact=region.exact and dense and inside)
