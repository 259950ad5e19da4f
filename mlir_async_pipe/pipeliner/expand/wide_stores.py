"""Lets stores of products go through the buffers of their loop, so that each lane stores 16 bytes of a row.

    vector.store %pair, %C[%r, %c]     lane l has columns 2 (l mod 4) of row l / 4: 8 lines of 128 bytes a store
      -->  gpu.barrier                 nobody reads the buffer any more
           vector.store %pair, %part[…]            of the warp's own part of a buffer
           nvvm.bar.warp.sync
           %v = vector.load %part[…]               16 bytes a lane, two rows of 256 bytes a load
           vector.store %v, %C[…]                  4 lines

Where each thread stores stands in the subscripts: a sum of what its id decides, which is enumerated, and of what
all threads of the block have in common. The rewrite stores the same values to the same places: the places of a warp in one
*round* of stores are all places of one rectangle, each once, and the part of the buffer holds that rectangle row by
row. Rows of the part are longer by as many bytes as let lanes meet in the fewest banks. Another thread of the warp stores a
place than did before, so nothing that a store passes on its way to the end of its round may touch the memory, but for reads of
what later stores write; what comes after all of them comes after a barrier.

`async_pipe.store_through = "auto"` does so where stores leave sectors of 32 bytes of global memory half empty, as pairs of f16 do, and
where it asks for less: lines of 128 bytes of global memory, and wavefronts of workgroup memory, one instruction of a
warp after the other. "tile" does it wherever it can be done, "direct" never. Addresses and strides that are not known to be multiples of 16 bytes are tested once, and the stores
stay beside for all others.

Where tiles overlap (`overlap-outer`) the next tile's copies fill the buffers meanwhile: each warp has memory of its own there, only
if it is asked for ("tile"), and its lanes meet instead of the block.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import groupby, pairwise
from math import gcd, prod
from typing import Any

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    KERNEL_OPS,
    Operation,
    Value,
    after,
    ancestors,
    as_kind,
    attribute,
    before,
    enclosing,
    erase,
    integer_attribute,
    is_function,
    is_kernel,
    operations,
    type_text,
    users,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import end_of, write_if
from mlir_async_pipe.chips.target import Chip
from mlir_async_pipe.facts.costs.warp_traffic import WarpTraffic
from mlir_async_pipe.facts.flow.region_flow import runs_again
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import is_requested
from mlir_async_pipe.facts.values.alignment import (
    access_alignment,
    divisor,
    element_bytes,
    static_strides,
    value_alignment,
)
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.facts.values.linear import Arithmetic, Linear
from mlir_async_pipe.facts.values.memory_roots import may_alias, root_of
from mlir_async_pipe.facts.values.sums import Form, of_symbol
from mlir_async_pipe.facts.values.thread_numbers import Points
from mlir_async_pipe.facts.values.uniformity import Uniformity
from mlir_async_pipe.lowering.nvvm.nvidia_ops import LINE_BYTES
from mlir_async_pipe.pipeliner.dependence.regions import is_opaque
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import VersionedBuffer
from mlir_async_pipe.pipeliner.normalise.aligned_versions import are_multiples
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan, buffer_value
from mlir_async_pipe.pipeliner.plan.make_plan import Limits, Plan
from mlir_async_pipe.pipeliner.plan.memory_limit import workgroup_bytes
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Access, accesses, order_of, row_of
from mlir_async_pipe.vocabulary.barriers import write_fence, write_warp_barrier
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, LOOP_OPS
from mlir_async_pipe.vocabulary.launch_ids import Size
from mlir_async_pipe.vocabulary.memory_names import DEALLOCATION_OPS
from mlir_async_pipe.vocabulary.rows import ALL_SPACES, UNORDERED

Array = np.ndarray
WIDE_BYTES = 16
LANES = 32
_PADS = (0, 16, 32, 48, 64)
# The five bits of the number of each lane.
_BITS = np.arange(LANES)[:, None] >> np.arange(5) & 1


class _Refusal(Exception):
    """Why stores stay as they are, and the op because of which."""

    def __init__(self, why: str, at: Operation) -> None:
        super().__init__(why)
        self.at = at


@dataclass(frozen=True)
class _Place:
    """Where an access begins: for each subscript the `numbers` of all threads, what is `common` to them, and the sum
    of all that is the same in a warp, None where a symbol is not but differs between warps, too."""

    numbers: tuple[Array, ...]
    common: tuple[frozenset[tuple[Value, int]], ...]
    of_warp: tuple[Linear | None, ...]


@dataclass(frozen=True)
class _Store:
    op: Operation
    access: Access
    place: _Place

    @property
    def elements(self) -> int:
        return prod(self.access.extent or ())

    @property
    def kind(self) -> tuple[Any, ...]:
        """What stores of one rectangle have in common."""
        return self.access.memory, self.elements, self.place.common


@dataclass(frozen=True)
class Round:
    """Stores of one rectangle, each with its row and first column in there at lane 0, what is the same in a warp
    of row and column of the first one, and the op after which the round is written."""

    stores: tuple[Operation, ...]
    at: tuple[tuple[int, int], ...]
    of_warp: tuple[Linear | None, Linear | None]
    last: Operation


@dataclass(frozen=True)
class WidePlan:
    """Stores that go through `buffer`, or where tiles overlap (None) through memory of their own, of blocks of `block` threads,
    in `rounds` of `rows` x `columns`, by the order of the program.

    `axes` are the dimensions of rows and columns, `lanes` what each of the five bits of a lane's number adds to them;
    `pitch_bytes` from row to row of the buffer. `tested`: addresses and strides are tested for multiples of
    16 bytes. `ends`: the kernel ends after the stores."""

    plan: Plan
    buffer: BufferPlan | None
    block: Size
    memory: Value
    rounds: tuple[Round, ...]
    rows: int
    columns: int
    axes: tuple[int, int]
    lanes: tuple[tuple[int, ...], tuple[int, ...]]
    pitch_bytes: int
    tested: bool
    ends: bool

    @property
    def own_bytes(self) -> int:
        """Workgroup memory that it takes."""
        warps = prod(self.block) // LANES
        return warps * self.rows * self.pitch_bytes if self.buffer is None else 0


def plan_wide_stores(
    plans: list[Plan], limits: Limits, around: Surroundings, session: Session
) -> list[WidePlan]:
    """What is to be written once the loops are; nothing without a chip whose banks and warps are known."""
    if limits.chip is None or limits.chip.lowering != "nvvm" or not limits.chip.banks:
        return []
    made: list[WidePlan] = []
    taken: set[Operation] = set()
    for plan in plans:
        through = names.choice(plan.loop, names.STORE_THROUGH)
        block = around.launch_size(plan.loop)
        if through == "direct" or block is None or prod(block) % LANES or block[0] % LANES:
            continue
        reader = _Reader(block)
        for stores in _groups(plan, reader):
            if stores[0].op in taken:
                continue
            taken |= {store.op for store in stores}
            spent = sum(each.own_bytes for each in made)
            chooser = _Chooser(plan, plans, stores, reader, limits, limits.chip, around, spent)
            if through == "auto" and not chooser.wastes_sectors():
                continue
            try:
                chosen, words = chooser.choose(whenever=through == "tile")
                if chosen.own_bytes and through == "auto":
                    raise _Refusal(
                        f"where tiles overlap they take {chosen.own_bytes} bytes of workgroup memory of their own, "
                        'which `async_pipe.store_through = "tile"` asks for',
                        stores[0].op,
                    )
            except _Refusal as why:
                if through == "tile" or chooser.is_scattered():
                    session.diagnostics.remark(
                        f"{len(stores)} stores of {stores[0].elements} elements a lane stay as they are: {why}",
                        code="stores-as-written",
                        at=why.at,
                    )
            else:
                made.append(chosen)
                session.diagnostics.remark(words, code="stores-through-tile", at=stores[0].op)
    return made


# Where threads store -------------------------------------------------------------------------


class _Reader:
    """Places of accesses, for blocks of `block` threads."""

    def __init__(self, block: Size) -> None:
        self.block = block
        self._points = Points.of_threads(block, LANES)
        self.arithmetic = Arithmetic(block)
        self.uniformity = Uniformity()

    def place(self, access: Access) -> _Place | None:
        """None where a subscript is no such sum."""
        parts = [self._part(index) for index in access.indices]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts) or not parts:
            return None
        return _Place(*zip(*known, strict=True))

    def _part(
        self, index: Value
    ) -> tuple[Array, frozenset[tuple[Value, int]], Linear | None] | None:
        form = self.arithmetic.wrapped(index)
        decided, common = self._points.split(form)
        if any(self.uniformity.difference(symbol) is not None for symbol, _ in common):
            return None
        numbers, of_warp, parts = np.zeros(prod(self.block), np.int64) + decided, [], True
        for symbol, factor in form.terms - common:
            each, _ = self._points.split(of_symbol(symbol))
            warps = np.broadcast_to(each, numbers.shape).reshape(-1, LANES)
            if (warps == warps[:, :1]).all():
                of_warp.append((symbol, factor))
            elif (warps != warps[:1]).any() or warps[:, :1].any():
                parts = False
        found = Form(form.constant, common.union(of_warp))
        return numbers, common, found if parts else None


def _groups(plan: Plan, reader: _Reader) -> Iterator[list[_Store]]:
    """Plain stores to global memory after a loop, or after the steps of a tile, that may belong together, in blocks that all
    threads run."""
    for ops in _following(plan):
        found: dict[Any, list[_Store]] = {}
        for op in ops:
            store = _store(op, reader)
            if store is not None:
                found.setdefault(store.kind, []).append(store)
        for stores in found.values():
            if len(stores) > 1 and reader.uniformity.divergent_control(stores[0].op) is None:
                yield stores


def _following(plan: Plan) -> Iterator[list[Operation]]:
    """What comes after a loop, block by block."""
    if plan.tiles is not None:
        tail = plan.tiles.tail
        yield [] if tail is None else operations(tail.regions[0].blocks[0])
        return
    for below, above in pairwise((plan.loop, *ancestors(plan.loop))):
        # A loop around that is pipelined, too, comes later, and looks after itself.
        if is_function(below) or (above.name == "scf.for" and is_requested(above)):
            return
        block = operations(below.block)
        yield block[block.index(below) + 1 :]


def _store(op: Operation, reader: _Reader) -> _Store | None:
    found = accesses(op)
    if len(found) != 1 or found[0].kind != "write" or len(op.results) or len(op.regions):
        return None
    (access,) = found
    plain = access.certain and not access.asynchronous and access.takes_slot_index
    row = row_of(op)
    if not plain or row.by_proxy or row.by_wave or access.shares or access.over_lanes:
        return None
    if access.extent is None or prod(access.extent[:-1]) != 1 or "nontemporal" in op.attributes:
        return None
    # A value, the memory and subscripts: nothing else has a say.
    if len(op.operands) != 2 + len(access.indices) or access.memory_operand != 1:
        return None
    is_array = len(access.indices) > 1 and holds_numbers(access.memory)
    vector = as_kind(ir.VectorType, op.operands[0].type)
    if not is_array or root_of(access.memory).space != "global" or order_of(op) != UNORDERED:
        return None
    size = element_bytes(access.memory) * prod(access.extent)
    if static_strides(access.memory)[-1] != 1 or WIDE_BYTES % size or (vector and vector.rank != 1):
        return None
    place = reader.place(access)
    return None if place is None else _Store(op, access, place)


_NUMBER = re.compile(r"i(8|16|32|64)|b?f(16|32|64)|f8E\w+")


def stands_in_the_way(op: Operation) -> bool:
    """Whether no access moves over an op, whatever its memory is."""
    row = row_of(op)
    return bool(is_opaque(op) or row.barrier or row.meeting) or order_of(op) != UNORDERED


def holds_numbers(memory: Value) -> bool:
    """Whether a memref holds whole bytes of numbers, which vectors of other numbers can stand for."""
    kind = as_kind(ir.MemRefType, memory.type)
    return kind is not None and _NUMBER.fullmatch(type_text(kind.element_type)) is not None


# Whether and how -----------------------------------------------------------------------------


class _Chooser:
    def __init__(
        self,
        plan: Plan,
        plans: list[Plan],
        stores: list[_Store],
        reader: _Reader,
        limits: Limits,
        chip: Chip,
        around: Surroundings,
        spent: int,
    ) -> None:
        self.plan, self.plans, self.stores = plan, plans, stores
        self.reader, self.limits, self.chip, self.around = reader, limits, chip, around
        # Workgroup memory that other stores take.
        self.spent = spent
        self.traffic = WarpTraffic(reader.block, chip)
        self.first = stores[0].op
        self.memory = stores[0].access.memory
        self.size = element_bytes(self.memory)
        self.elements = stores[0].elements
        # What a warp stores.
        self._bytes = len(stores) * LANES * self.elements * self.size
        # Stores, subscripts, warps, lanes.
        self.numbers = np.array(
            [[n.reshape(-1, LANES) for n in store.place.numbers] for store in stores]
        )

    def choose(self, whenever: bool) -> tuple[WidePlan, str]:
        """The plan, and what it says to the user. Raises _Refusal."""
        axes, lanes, starts = self._layout()
        # Where tiles overlap the next one's copies fill the buffers while this one's sums are stored.
        buffer = self._buffer() if self.plan.tiles is None else None
        warps = prod(self.reader.block) // LANES
        room = self._own_room() if buffer is None else buffer.versions * buffer.slot_bytes
        room, through = room // warps, "memory of their own" if buffer is None else str(buffer.root)
        now = self.asked()
        best: tuple[int, int, list[list[int]], tuple[int, int], int] | None = None
        order = sorted(range(len(self.stores)), key=lambda n: tuple(starts[n]))
        for count in (n for n in range(1, len(order) + 1) if len(order) % n == 0):
            each = len(order) // count
            rounds = [order[n : n + each] for n in range(0, len(order), each)]
            sizes = {self._rectangle(starts[of_round], lanes) for of_round in rounds}
            shape = sizes.pop()
            if sizes or shape is None:
                continue
            for pad in _PADS:
                pitch = shape[1] * self.size + pad
                if shape[0] * pitch > room:
                    break
                asked, lines = self._asked_through(starts[rounds[0]], lanes, shape, pitch)
                # Of memory of their own as little as will do.
                less = best is not None and buffer is None and count * asked == best[0]
                less = less and best is not None and shape[0] * pitch < best[3][0] * best[4]
                if best is None or count * asked < best[0] or less:
                    best = count * asked, count * lines, rounds, shape, pitch
        if best is None:
            raise _Refusal(
                f"no part of the {room} bytes that a warp has of {through} holds whole rows of 16 bytes",
                self.first,
            )
        asked, lines, rounds, shape, pitch = best
        if buffer is None:
            through += f", {warps * shape[0] * pitch} bytes,"
        if not whenever and asked >= now:
            raise _Refusal(
                f"through workgroup memory they would ask for {asked} lines and wavefronts, now for {now} lines",
                self.first,
            )
        ops = operations(self.first.block)
        places = {op: number for number, op in enumerate(ops)}
        made = []
        for of_round in rounds:
            of_warp = self.stores[of_round[0]].place.of_warp
            at = np.stack(self._places(starts[of_round], lanes), axis=2)[:, 0].tolist()
            stores = tuple(self.stores[n].op for n in of_round)
            last = max(stores, key=places.__getitem__)
            made.append(
                Round(stores, tuple(map(tuple, at)), (of_warp[axes[0]], of_warp[axes[1]]), last)
            )
        made.sort(key=lambda of_round: places[of_round.last])
        self._check_passed(made, places)
        own = {store.op for store in self.stores}
        between = ops[min(map(places.__getitem__, own)) : places[made[-1].last]]
        if all(op in own or row_of(op).pure for op in between):
            made = [replace(of_round, last=made[-1].last) for of_round in made]
        tested = self._check_alignment(made, axes)
        wide = self._bytes // WIDE_BYTES // LANES
        return WidePlan(
            self.plan, buffer, self.reader.block, self.memory, tuple(made), *shape, axes, lanes, pitch,
            tested, _ends_kernel(made[-1].last),
        ), (
            f"{len(self.stores)} stores of {self.elements * self.size} bytes a lane become {wide} of {WIDE_BYTES} "
            f"bytes, by way of {through} in {len(made)} round{'s' if len(made) > 1 else ''}: {lines} lines of {LINE_BYTES} bytes, not {now}"
            + (", where addresses and strides are multiples of 16 bytes" if tested else "")
        )  # fmt: skip

    def wastes_sectors(self) -> bool:
        """Whether a warp asks for more sectors as the stores are than there are bytes for."""
        sector = self.chip.sector_bytes
        return sector > 0 and self.asked(sector) * sector > self._bytes

    def asked(self, unit: int = LINE_BYTES) -> int:
        """Lines, or sectors, that a warp asks for as the stores are."""
        access = self.stores[0].access
        size = self.elements * self.size
        given = integer_attribute(self.first, "alignment") or 1
        proven = access_alignment(self.memory, access.indices, self.reader.arithmetic)
        width = min(size, max(given, proven, self.size))
        *rows, columns = np.moveaxis(self.numbers[:, :, 0, :], 1, 0)
        return sum(
            self._lines(rows, columns * self.size + piece, width, unit)
            for piece in range(0, size, width)
        )

    def is_scattered(self) -> bool:
        """Whether they ask for twice as many lines as there are bytes for, or more."""
        return self.asked() >= 2 * -(-self._bytes // LINE_BYTES)

    def _lines(self, rows: list[Array], begins: Array, width: int, unit: int = LINE_BYTES) -> int:
        """Lines of each store, all together; a row begins with one."""
        first, last = begins // unit, (begins + width - 1) // unit
        lines = np.concatenate([np.stack([*rows, end], axis=-1) for end in (first, last)], axis=1)
        return sum(len(np.unique(of_store, axis=0)) for of_store in lines)

    def _layout(self) -> tuple[tuple[int, int], tuple[tuple[int, ...], tuple[int, ...]], Array]:
        """The dimensions of rows and columns, what bits of a lane add to them, and for each store row and column at lane 0,
        counted from the first store's; the same in all warps."""
        numbers = self.numbers
        apart = numbers - numbers[:1, :, :, :1]
        if (apart != apart[:, :, :1]).any():
            raise _Refusal("warps store in different forms", self.first)
        of_lanes = apart[:, :, 0, :] - apart[:, :, 0, :1]
        if (of_lanes != of_lanes[:1]).any():
            raise _Refusal("the lanes of two stores are apart in different ways", self.first)
        last = numbers.shape[1] - 1
        moving = [axis for axis in range(last) if apart[:, axis].any()]
        if len(moving) > 1:
            raise _Refusal("its rows are apart in two dimensions", self.first)
        axes = (moving or [last - 1])[0], last
        found = of_lanes[0][list(axes), :]
        bits = tuple(tuple(int(found[axis, 1 << bit]) for bit in range(5)) for axis in range(2))
        if (_BITS @ np.array(bits).T != found.T).any():
            raise _Refusal("the bits of a lane's number do not add up to its place", self.first)
        starts = apart[:, list(axes), 0, 0]
        if (starts[:, 1] % self.elements).any() or any(n % self.elements for n in bits[1]):
            raise _Refusal("lanes begin between the elements of another", self.first)
        flat = numbers.transpose(1, 0, 2, 3).reshape(last + 1, -1)
        if len(np.unique(flat, axis=1).T) < flat.shape[1]:
            raise _Refusal("two threads store to one place", self.first)
        return axes, (bits[0], bits[1]), starts

    def _places(self, starts: Array, lanes: Any) -> tuple[Array, Array]:
        """Rows and columns of some stores in all lanes, from the first of each on."""
        rows, columns = np.moveaxis(starts[:, None] + _BITS @ np.array(lanes).T, 2, 0)
        return rows - rows.min(), columns - columns.min()

    def _rectangle(self, starts: Array, lanes: Any) -> tuple[int, int] | None:
        """Rows and columns of the rectangle whose places some stores fill, each once, if lanes can share out its rows."""
        rows, columns = self._places(starts, lanes)
        high, wide = int(rows.max()) + 1, int(columns.max()) + self.elements
        pieces = len(np.unique(rows * wide + columns))
        if pieces != rows.size or high * wide != rows.size * self.elements:
            return None
        across = wide * self.size // WIDE_BYTES
        if wide * self.size % WIDE_BYTES or across * high % LANES:
            return None
        return (high, wide) if LANES % across == 0 or across % LANES == 0 else None

    def _asked_through(
        self, starts: Array, lanes: Any, shape: tuple[int, int], pitch: int
    ) -> tuple[int, int]:
        """What one round asks for: lines and wavefronts together, and lines alone."""
        rows, columns = self._places(starts, lanes)
        size = self.elements * self.size
        piece_rows, piece_bytes = _pieces(shape, self.size)
        writes = self._wavefronts(rows * pitch + columns * self.size, size, True)
        reads = self._wavefronts(piece_rows * pitch + piece_bytes, WIDE_BYTES, False)
        lines = self._lines([piece_rows], piece_bytes, WIDE_BYTES)
        return writes + reads + lines, lines

    def _wavefronts(self, begins: Array, size: int, writes: bool) -> int:
        all_lanes = np.ones(LANES, dtype=bool)
        return sum(self.traffic.served(one, all_lanes, size, size, writes).asked for one in begins)

    def _buffer(self) -> BufferPlan:
        """The largest buffer of the loop whose contents are dead where the stores stand: they are after each loop that
        has versions of it, and where nothing else accesses it from the first store on."""
        versioning = [
            (other.loop, {b.root.identity for b in other.buffers if b.versions > 1})
            for other in self.plans
        ]
        ops = operations(self.first.block)
        earlier = frozenset(ops[: ops.index(self.first)])
        once = not runs_again(self.first)
        function = enclosing(self.first, FUNCTION_OPS)
        calls = any(op.name in CALL_OPS for op in walk(function))

        def is_dead(op: Operation, identity: Any) -> bool:
            around = {op, *ancestors(op)}
            if any(loop in around for loop, own in versioning if identity in own):
                return True
            return once and not around.isdisjoint(earlier)

        def is_free(buffer: BufferPlan) -> bool:
            root, memory = buffer.root, buffer_value(buffer.regions)
            if buffer.versions < 2 or not holds_numbers(memory):
                return False
            if self.elements * self.size % element_bytes(memory):
                return False
            if value_alignment(memory, self.reader.arithmetic) % WIDE_BYTES:
                return False
            if any(user.name in DEALLOCATION_OPS for user in users(memory)):
                return False
            # What is called may name it.
            if root.kind not in ("allocation", "attribution") and calls:
                return False
            sides = self.around.touches_outside(self.plan.loop, root.identity)
            return all(is_dead(touch.op, root.identity) for side in sides for touch in side)

        free = [buffer for buffer in self.plan.buffers if is_free(buffer)]
        if not free:
            why = "no buffer of the loop that could hold them is free after it"
            raise _Refusal(why, self.plan.loop)
        return max(free, key=lambda buffer: buffer.versions * buffer.slot_bytes)

    def _used(self) -> int:
        planned = {buffer.root.identity for buffer in self.plan.buffers}
        beside = self.around.workgroup_bytes_beside(self.plan.loop, planned)
        return self.spent + beside + workgroup_bytes(self.plan.buffers)

    def _own_room(self) -> int:
        """The bytes of workgroup memory that are left. Raises _Refusal."""
        limit, used = self.limits.workgroup_bytes or self.chip.workgroup_bytes, self._used()
        if used >= limit:
            raise _Refusal(f"{used} of {limit} bytes of workgroup memory are in use", self.first)
        return limit - used

    def _check_passed(self, rounds: list[Round], places: dict[Operation, int]) -> None:
        """Raise _Refusal if a store would be moved over what may touch its memory, or orders it."""
        ops = operations(self.first.block)
        own = {store.op: store for store in self.stores}
        target = root_of(self.memory)
        for of_round in rounds:
            begin, end = min(places[op] for op in of_round.stores), places[of_round.last]
            for top in ops[begin:end]:
                if top in own:
                    continue
                for op in walk(top):
                    if stands_in_the_way(op):
                        raise _Refusal(f"'{op.name}' stands between them", op)
                    for access in accesses(op):
                        noalias, other = self.limits.noalias_arguments, root_of(access.memory)
                        meets = may_alias(target, other, assume_noalias_arguments=noalias)
                        if meets and not self._is_read_of_later(access, places[top], own, places):
                            raise _Refusal(f"'{op.name}' between them may touch their memory", op)

    def _is_read_of_later(
        self, access: Access, at: int, own: dict[Operation, _Store], places: dict[Operation, int]
    ) -> bool:
        """Whether an access reads what a store after it writes, and no other does."""
        if access.kind != "read" or access.memory != self.memory:
            return False
        if access.extent is None or prod(access.extent) != self.elements:
            return False
        place = self.reader.place(access)
        return place is not None and any(
            place.common == store.place.common
            and all(map(np.array_equal, place.numbers, store.place.numbers))
            for op, store in own.items()
            if places[op] > at
        )

    def _check_alignment(self, rounds: list[Round], axes: tuple[int, int]) -> bool:
        """Whether addresses and strides have to be tested. Raises _Refusal where rows begin between 16 bytes."""
        by_op = {store.op: store for store in self.stores}
        numbers = self.reader.arithmetic
        begins = [
            int(n) - of_round.at[0][1]
            for of_round in rounds
            for n in by_op[of_round.stores[0]].place.numbers[axes[1]][::LANES]
        ]
        terms = self.stores[0].place.common[axes[1]]
        common = [factor * divisor(symbol, numbers) for symbol, factor in terms]
        strides = static_strides(self.memory)[:-1]
        known = gcd(*begins, *common, *(stride for stride in strides if stride is not None))
        if known * self.size % WIDE_BYTES:
            raise _Refusal("its rows may begin between multiples of 16 bytes", self.first)
        return None in strides or value_alignment(self.memory, numbers) % WIDE_BYTES != 0


def _pieces(shape: tuple[int, int], size: int) -> tuple[Array, Array]:
    """Row, and bytes in the row, of what each lane loads (columns) in each of the loads (rows)."""
    across = shape[1] * size // WIDE_BYTES
    piece = np.arange(shape[0] * across).reshape(-1, LANES)
    return piece // across, piece % across * WIDE_BYTES


def _ends_kernel(store: Operation) -> bool:
    """Whether nothing but the end of the kernel comes after a store."""
    below = store
    for above in ancestors(store):
        following = operations(below.block)
        for top in following[following.index(below) + 1 :]:
            if any(accesses(op) or is_opaque(op) or row_of(op).barrier for op in walk(top)):
                return False
        if above.name in KERNEL_OPS:
            return is_kernel(above) and len(above.regions[0].blocks) == 1
        if above.name in LOOP_OPS or any(len(region.blocks) > 1 for region in above.regions):
            return False
        below = above
    return False


# The written stores --------------------------------------------------------------------------


def write_own_wide_stores(plan: WidePlan) -> None:
    """Write those of one plan whose tiles overlap, before its loop is written.

    A warp has memory of its own: its lanes alone meet, before a round, and after the last one, as the threads of a place
    change from tile to tile."""
    function = enclosing(plan.plan.loop, FUNCTION_OPS)
    assert function is not None
    write = IntegerWriter.before(operations(function.regions[0].blocks[0])[0])
    element = ir.MemRefType(plan.memory.type).element_type
    kind = ir.MemRefType.get(
        [prod(plan.block) // LANES, plan.rows * plan.pitch_bytes // element_bytes(plan.memory)],
        element,
        memory_space=attribute("#gpu.address_space<workgroup>", write.context),
        loc=write.location,
    )
    sizes = {
        "alignment": attribute(f"{WIDE_BYTES} : i64", write.context),
        "operandSegmentSizes": attribute("array<i32: 0, 0>", write.context),
    }
    _write(
        plan,
        write.make("memref.alloc", (), kind, sizes),
        lambda _, ip, loc: write_warp_barrier(ip, loc),
    )


def write_wide_stores(plan: WidePlan, buffers: Iterable[VersionedBuffer]) -> None:
    """Write the rounds of one plan, each where its last store stands."""
    root = plan.buffer and plan.buffer.root
    (buffer,) = (b.value for b in buffers if root and b.plan.root.identity == root.identity)
    _write(plan, buffer, write_fence)


def _write(plan: WidePlan, buffer: Value, meet: Callable[[Any, Any, Any], None]) -> None:
    """Write the rounds; before each, and after the last one, those `meet` who use a place in turn."""
    ops = operations(plan.rounds[0].stores[0].block)
    order = {op: number for number, op in enumerate(ops)}.__getitem__
    aligned: Value | None = None
    for last, rounds in groupby(plan.rounds, key=lambda of_round: of_round.last):
        write, loc = IntegerWriter(after(last), last.location), last.location
        end = write.ip
        if plan.tested:
            aligned = aligned or are_multiples(WIDE_BYTES, [plan.memory], write)
            branch = write_if(aligned, (), (), write.ip, loc)
            inside, otherwise = map(end_of, branch.regions)
            write = IntegerWriter(before(inside), loc)
        writer = _Writer(plan, buffer, write)
        together = list(rounds)
        for of_round in together:
            # A barrier orders all that was read before, for the proof too, which need not compare it any more.
            meet(("workgroup",), write.ip, loc)
            writer.write(of_round)
        if together[-1] == plan.rounds[-1] and not plan.ends:
            # Also of the stores as written: around both may be a loop, in which the threads of a place change with the version.
            meet(ALL_SPACES - {"private"}, end, loc)
        stores = sorted((op for of_round in together for op in of_round.stores), key=order)
        for op in stores:
            if plan.tested:
                op.move_before(otherwise)
            else:
                erase([op])


class _Writer:
    def __init__(self, plan: WidePlan, buffer: Value, write: IntegerWriter) -> None:
        self.plan, self._w = plan, write
        kind, stored = ir.MemRefType(buffer.type), ir.MemRefType(plan.memory.type)
        self._loc = write.location
        self._inner, self._outer = kind.element_type, stored.element_type
        self._inner_bytes, self._outer_bytes = element_bytes(buffer), element_bytes(plan.memory)
        flat = ir.MemRefType.get(
            [prod(kind.shape)], self._inner, memory_space=kind.memory_space, loc=self._loc
        )
        every = ", ".join(map(str, range(kind.rank)))
        regrouped = {"reassociation": attribute(f"[[{every}]]", write.context)}
        self._tile = write.make("memref.collapse_shape", [buffer], flat, regrouped)
        thread = write.thread_id("x")
        self._lane = write.remainder(thread, LANES)
        warp = write.divide(thread, LANES)
        x, y, z = plan.block
        for axis, size, below in (("y", y, x // LANES), ("z", z, x // LANES * y)):
            if size > 1:
                warp = write.add(warp, write.multiply(write.thread_id(axis), below))
        self._warp = write.multiply(warp, self._distance(plan.rows, 0))

    def write(self, of_round: Round) -> None:
        plan, w, size = self.plan, self._w, self._outer_bytes
        begin = w.add(self._warp, self._of_lane(map(self._distance, *plan.lanes)))
        for op, at in zip(of_round.stores, of_round.at, strict=True):
            value = self._cast(op.operands[0], self._inner, self._inner_bytes)
            self._store(value, self._tile, [w.add(begin, self._distance(*at))])
        # The lanes of the warp meet, and see what they wrote.
        write_warp_barrier(w.ip, self._loc)
        # They take pieces of 16 bytes, row by row.
        each = WIDE_BYTES // size
        across = min(plan.columns // each, LANES)
        own = w.divide(self._lane, across), w.multiply(w.remainder(self._lane, across), each)
        begin = w.add(w.multiply(own[0], self._distance(1, 0)), self._warp)
        begin = w.add(begin, w.multiply(w.remainder(self._lane, across), self._distance(0, each)))
        subscripts = list(accesses(of_round.stores[0])[0].indices)
        for side, axis in enumerate(plan.axes):
            form = of_round.of_warp[side]
            if form is None:
                origin = w.subtract(subscripts[axis], self._of_lane(plan.lanes[side]))
            else:
                origin = self._sum(form)
            subscripts[axis] = w.add(w.subtract(origin, of_round.at[0][side]), own[side])
        rows, places = _pieces((plan.rows, plan.columns), size)
        wide = ir.VectorType.get([WIDE_BYTES // self._inner_bytes], self._inner, loc=self._loc)
        loaded = []
        for row, column in zip(rows[:, 0].tolist(), (places[:, 0] // size).tolist(), strict=True):
            there = [self._tile, w.add(begin, self._distance(row, column))]
            place = list(subscripts)
            for axis, offset in zip(plan.axes, (row, column), strict=True):
                place[axis] = w.add(place[axis], offset)
            loaded.append((w.make("vector.load", there, wide, self._aligned(WIDE_BYTES)), place))
        for value, place in loaded:
            self._store(self._cast(value, self._outer, size), plan.memory, place)

    def _distance(self, row: int, column: int) -> int:
        """How far a place of the rectangle is from its first one in the buffer, in the buffer's elements."""
        return (row * self.plan.pitch_bytes + column * self._outer_bytes) // self._inner_bytes

    def _sum(self, form: Linear) -> Value:
        total = self._w.constant(form.constant)
        # A set of values goes by their addresses, which differ from run to run.
        for symbol, factor in sorted(form.terms, key=lambda term: str(term[0].get_name())):
            if symbol.type != self._w.index:
                symbol = self._w.cast("arith.index_cast", symbol, self._w.index)
            total = self._w.add(total, self._w.multiply(symbol, factor))
        return total

    def _of_lane(self, of_bits: Iterable[int]) -> Value:
        """The sum of what the bits of the lane's number add; bits whose steps double are taken together.

        (0, 0, 1, 2, 4)   -->   lane / 4"""
        w, total, bit, steps = self._w, self._w.constant(0), 0, list(of_bits)
        while bit < len(steps):
            end = bit + 1
            while end < len(steps) and steps[end] == 2 * steps[end - 1]:
                end += 1
            if steps[bit]:
                part = w.divide(self._lane, 1 << bit)
                part = part if end == len(steps) else w.remainder(part, 1 << (end - bit))
                total = w.add(total, w.multiply(part, steps[bit]))
            bit = end
        return total

    def _cast(self, value: Value, element: Any, size: int) -> Value:
        """The bits of a vector, or of one number, as elements of another type."""
        vector = as_kind(ir.VectorType, value.type)
        if vector is None:
            one = ir.VectorType.get([1], value.type, loc=self._loc)
            value, vector = self._w.make("vector.broadcast", [value], one), one
        if vector.element_type == element:
            return value
        given = self._outer_bytes if element == self._inner else self._inner_bytes
        cast = ir.VectorType.get([vector.shape[0] * given // size], element, loc=self._loc)
        return self._w.make("vector.bitcast", [value], cast)

    def _store(self, value: Value, memory: Value, at: list[Value]) -> None:
        size = ir.VectorType(value.type).shape[0] * element_bytes(memory)
        self._w.op("vector.store", [value, memory, *at], (), self._aligned(size))

    def _aligned(self, size: int) -> dict[str, Any]:
        i64 = ir.IntegerType.get_signless(64, self._w.context)
        return {"alignment": ir.IntegerAttr.get(i64, size)}
