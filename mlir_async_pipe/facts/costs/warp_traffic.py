"""What one access of a warp (a wave) asks of memory: wavefronts of workgroup memory, sectors of global memory.

    ldmatrix of 4 tiles, 32 rows of 64 bytes      16 wavefronts where 4 would do: every second row begins at bank 0
    the same, 16-byte chunks swizzled by row       4
    load of 4 bytes a lane, lanes 64 bytes apart  32 sectors of 32 bytes where 4 would do

The bytes between lanes are exact: subscripts are sums of what thread ids decide, which is enumerated, and
of numbers that are the same in all threads (slots, counters of loops, ids of blocks), which move all
lanes alike. The same number of words for all lanes changes no number of wavefronts. Rows of global memory
whose stride is not known are taken to begin at sectors of their own, as each such number is taken to be
whole sectors: `aligned` is False where that is not proven. Lanes that a bound which is no constant, a mask or the
end of a loop switches off take part. All else is `Unknown`, with the reason.

Lanes are served together as the chip does it (`chips/table.py`): in their order, as many as its banks have
bytes for, which makes two phases of 16 lanes for 8 bytes, four of 8 for 16 bytes. Lanes that want the
same 4 bytes are given them at once.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from math import gcd, prod
from typing import Any, Literal, NamedTuple

import numpy as np

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    KERNEL_OPS,
    Operation,
    Value,
    ancestors,
    constant_value,
    defining_op,
    enclosing,
    integer_attribute,
)
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.facts.costs.cost_model import bytes_of_access
from mlir_async_pipe.facts.values.alignment import (
    access_alignment,
    divisor,
    static_strides,
    value_alignment,
)
from mlir_async_pipe.facts.values.domains import Domain, Typed, predicate_of
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS, is_induction_variable, memoised
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.facts.values.numbers import NUMBERS
from mlir_async_pipe.facts.values.thread_numbers import Points, linear_thread, steps_of_access
from mlir_async_pipe.facts.values.uniformity import Uniformity, conditions, conjunction
from mlir_async_pipe.vocabulary import Access, row_of
from mlir_async_pipe.vocabulary.launch_ids import Size
from mlir_async_pipe.vocabulary.memory_names import SIZE_OPS

Array = np.ndarray
WORD_BYTES = 4
# What one instruction of a lane accesses at most.
LARGEST_BYTES = 16


@dataclass(frozen=True)
class Traffic:
    """What the warp that asks for most is given: `asked` wavefronts or sectors, of which its bytes need
    `ideal`. `ways`: the most rows that one bank is asked for at once. `aligned`: what is not known is
    proven to be whole sectors."""

    space: Literal["workgroup", "global"]
    asked: int
    ideal: int
    ways: int = 1
    aligned: bool = True

    @property
    def wasted(self) -> bool:
        return self.asked > self.ideal


@dataclass(frozen=True)
class Unknown:
    space: Literal["workgroup", "global"]
    why: str


class NotKnownError(Exception):
    """Its text is the reason."""


class _Lanes(NamedTuple):
    """Bytes from some place for each thread (rows) at each point of an enumeration (columns), which lanes
    take part, and a number for each row of memory where rows are apart by a stride that nobody knows.
    `unknown` divides the bytes of the place itself."""

    bytes: Array
    active: Array
    rows: Array
    unknown: int


# Sums ----------------------------------------------------------------------------------------------

Product = frozenset[tuple[object, int]]
"""What is the same in all threads, in units of what divides it, with powers; none of it is 1."""
Sum = dict[Product, Array]
"""An integer of all threads: products, each times numbers that ids of threads decide."""
ONE: Product = frozenset()


def _number(decided: int | Array) -> Sum:
    return {ONE: np.asarray(decided)}


def _symbol(name: object, divisor: int = 1) -> Sum:
    return {frozenset({(name, 1)}): np.asarray(divisor)}


def _added(a: Sum, b: Sum) -> Sum:
    return {key: np.add(a.get(key, 0), b.get(key, 0)) for key in a.keys() | b.keys()}


def _times(a: Sum, b: Sum) -> Sum:
    found: Sum = {}
    for one, x in a.items():
        for other, y in b.items():
            powers = Counter(dict(one)) + Counter(dict(other))
            found = _added(found, {frozenset(powers.items()): np.asarray(x * y)})
    return found


def _decided(found: Sum) -> Array | None:
    return found[ONE] if found.keys() == {ONE} else None


def _constant(found: Sum) -> int | None:
    decided = _decided(found)
    return None if decided is None or decided.ndim else int(decided)


class _Sums(Domain[Sum, None]):
    """Sums modulo 2^64, and quotients of what is decided."""

    def constant(self, number: int) -> Sum:
        return _number(number)

    def evaluate(self, op: Typed, v: list[Sum], known: None) -> Sum | None:
        decided = [each for each in map(_decided, v) if each is not None]
        if op.row.method not in _MADE_OF_OTHERS and len(decided) == len(v):
            numbers = NUMBERS.evaluate(op, decided, None)
            return None if numbers is None else _number(numbers)
        # What may not fit into fewer bits is no sum.
        if op.bits < INDEX_BITS and not op.nsw:
            return None
        return super().evaluate(op, v, known)

    def add(self, op: Typed, v: list[Sum], known: None) -> Sum:
        return _added(*v)

    def sub(self, op: Typed, v: list[Sum], known: None) -> Sum:
        return _added(v[0], _times(_number(-1), v[1]))

    def mul(self, op: Typed, v: list[Sum], known: None) -> Sum:
        return _times(*v)

    def shl(self, op: Typed, v: list[Sum], known: None) -> Sum | None:
        by = _constant(v[1])
        if by is None or not 0 <= by < INDEX_BITS - 1:
            return None
        return _times(v[0], _number(1 << by))

    def div(self, op: Typed, v: list[Sum], known: None) -> Sum | None:
        """(64 k + t) div 8, rounded down, is 8 k + t div 8."""
        by = self._divides(op, v)
        return by and {product: np.floor_divide(part, by) for product, part in v[0].items()}

    def rem(self, op: Typed, v: list[Sum], known: None) -> Sum | None:
        by = self._divides(op, v)
        return by and _number(np.mod(v[0].get(ONE, 0), by))

    def _divides(self, op: Typed, v: list[Sum]) -> Any:
        """The constant that an op divides by, rounding down, if it divides what is not decided."""
        by = _constant(v[1])
        if by is None or by <= 0 or op.row.rounding != "down" or op.row.sign == "u":
            return None
        whole = all(product == ONE or not np.any(part % by) for product, part in v[0].items())
        return by if whole else None

    def cast(self, op: Typed, v: list[Sum], known: None) -> Sum | None:
        return v[0] if op.row.sign == "s" and op.bits >= op.given else None


_SUMS = _Sums()
# What a domain makes of other operators.
_MADE_OF_OTHERS = frozenset({"apply", "apply_least", "apply_largest", "join", "split"})


class WarpTraffic:
    """Answers for the accesses of one kernel, of blocks of `block` threads."""

    SUMS_OF = "what thread ids decide and what is the same in all threads"

    def __init__(self, block: Size | None, chip: Chip) -> None:
        self.chip = chip
        self._block = block
        self._numbers = Arithmetic(block)
        self._uniformity = Uniformity()
        self._dims: dict[tuple[Value, int], Value] = {}
        if block is not None:
            self._threads = Enumeration.of_threads(block, chip.lanes)

    def of(self, access: Access) -> Traffic | Unknown | None:
        """None for what lanes do not ask for: tensor copies, products, private memory."""
        space = root_of(access.memory).space
        row = row_of(access.op)
        if space == "private" or row.by_proxy or row.by_wave or row.tensor is not None:
            return None
        try:
            if space == "workgroup":
                return self._wavefronts(access)
            return self._sectors(access)
        except NotKnownError as why:
            return Unknown(space, str(why))

    # Memory ----------------------------------------------------------------------------------

    def _wavefronts(self, access: Access) -> Traffic:
        if not self.chip.banks:
            raise NotKnownError(f"the banks of {self.chip.name} are not known here")
        size, width = self._sizes(access)
        lanes = self._lanes(access, size)
        found: Traffic | None = None
        for starts, active, rows in self._warps(lanes, WORD_BYTES):
            if np.ptp(rows[active]):
                raise NotKnownError("the stride between its rows is not static")
            # An access is aligned to its width: that says where in a word an address is.
            steps = range(0, WORD_BYTES, gcd(lanes.unknown, WORD_BYTES))
            shifts = [-starts[active][0] % WORD_BYTES] if width >= WORD_BYTES else steps
            counted = {
                self.served(starts + shift, active, size, width, access.writes) for shift in shifts
            }
            if len(counted) > 1:
                raise NotKnownError("where in a word of 4 bytes it begins is not known")
            (one,) = counted
            if found is None or (one.asked, one.ways) > (found.asked, found.ways):
                found = one
        if found is None:
            raise NotKnownError("no lane runs it")
        return found

    def served(self, starts: Array, active: Array, size: int, width: int, writes: bool) -> Traffic:
        asked = ideal = ways = 0
        for piece in range(0, size, width):
            for phase in self._phases(width, writes):
                lanes = phase[active[phase]]
                if len(lanes):
                    most, words = _conflicts(starts[lanes] + piece, width, self.chip.banks)
                    asked, ways = asked + most, max(ways, most)
                    ideal += -(-words // self.chip.banks)
        return Traffic("workgroup", asked, ideal, ways)

    def _phases(self, width: int, writes: bool) -> Iterator[Array]:
        """The lanes that are served together."""
        lanes = self.chip.lanes
        if width == LARGEST_BYTES and self.chip.reads_of_16 and not writes:
            for half in range(0, lanes, 32):
                for starts in self.chip.reads_of_16:
                    yield np.array([half + start + lane for start in starts for lane in range(4)])
            return
        together = self.chip.banks * WORD_BYTES // max(width, WORD_BYTES)
        for first in range(0, lanes, together):
            yield np.arange(first, min(first + together, lanes))

    def _sectors(self, access: Access) -> Traffic:
        sector = self.chip.sector_bytes
        if not sector:
            raise NotKnownError(f"the sectors of {self.chip.name} are not known here")
        size, _ = self._sizes(access)
        lanes = self._lanes(access, size)
        aligned = lanes.unknown % sector == 0
        found: Traffic | None = None
        for starts, active, rows in self._warps(lanes, sector):
            places = (starts[active, None] + np.arange(size)).reshape(-1)
            apart = np.repeat(rows[active], size)
            asked = len(np.unique(np.stack((apart, places // sector)), axis=1).T)
            ideal = -(-len(np.unique(np.stack((apart, places)), axis=1).T) // sector)
            if found is None or asked > found.asked:
                found = Traffic("global", asked, ideal, aligned=aligned)
        if found is None:
            raise NotKnownError("no lane runs it")
        return found

    def _sizes(self, access: Access) -> tuple[int, int]:
        """Bytes of one lane, and of one instruction of it."""
        size = bytes_of_access(access)
        if access.extent is None or access.shares is not None or not size:
            raise NotKnownError("the op does not say what each lane accesses")
        if prod(access.extent[:-1]) != 1 or not _lie_side_by_side(access):
            raise NotKnownError("what a lane accesses does not lie side by side")
        width = min(size & -size, LARGEST_BYTES)
        if access.indices and access.active_lanes is None and row_of(access.op).queue is None:
            # A plain access that is aligned less is split.
            given = integer_attribute(access.op, "alignment") or 1
            proven = access_alignment(access.memory, access.indices, self._numbers)
            width = min(width, max(given, proven))
        return size, width

    def _warps(self, lanes: _Lanes, unit: int) -> Iterator[tuple[Array, Array, Array]]:
        """Addresses, active lanes and rows of each warp that differs from the others by more than whole units."""
        width = self.chip.lanes
        threads, points = lanes.bytes.shape
        missing = -threads % width
        padded = [
            np.pad(part, ((0, missing), (0, 0))).reshape(-1, width, points).transpose(0, 2, 1)
            for part in (lanes.bytes, lanes.active, lanes.rows)
        ]
        starts, active, rows = (part.reshape(-1, width) for part in padded)
        runs = active.any(axis=1)
        starts, active, rows = starts[runs], active[runs], rows[runs]
        if not len(starts):
            return
        first = active.argmax(axis=1)[:, None]
        begin = np.take_along_axis(starts, first, 1)
        starts = np.where(active, starts - begin + begin % unit, 0)
        rows = np.where(active, rows - np.take_along_axis(rows, first, 1), 0)
        _, kept = np.unique(np.hstack((starts, active, rows)), axis=0, return_index=True)
        for number in kept:
            yield starts[number], active[number], rows[number]

    # Lanes -----------------------------------------------------------------------------------

    def _lanes(self, access: Access, size: int) -> _Lanes:
        if self._block is None:
            raise NotKnownError("the size of the block is not known")
        try:
            return self._lanes_at(access, size, self._threads)
        except NotKnownError:
            # Iterations of counted loops are numbers, too.
            top = enclosing(access.op, KERNEL_OPS)
            points = top and Enumeration.of_loops(access.op, top, self._block, self.chip.lanes)
            if not points or not points.known:
                raise
        return self._lanes_at(access, size, points)

    def _lanes_at(self, access: Access, size: int, points: Enumeration) -> _Lanes:
        assert self._block is not None
        memory, total = self._place(access, points)
        zero = np.zeros_like(points.threads[0])
        # Lanes with one number of rows of unknown length are in one row.
        known = total.pop(ONE, zero)
        apart = [part for part in total.values() if np.ptp(part)]
        if len(apart) > 1:
            raise NotKnownError("lanes are apart by two strides that are not static")
        divisors = (int(np.gcd.reduce(part, axis=None)) for part in total.values())
        unknown = gcd(value_alignment(memory, self._numbers), *divisors)
        active = self._active(access.op, points)
        if access.active_lanes is not None:
            lane = linear_thread(points.threads, self._block) % self.chip.lanes
            active = active & (lane < access.active_lanes)
        parts = (zero + known, active, zero + next(iter(apart), zero))
        flat = [part.reshape(prod(self._block), -1) for part in np.broadcast_arrays(*parts)]
        starts, active, row = flat
        if access.over_lanes:
            # The first lane says where those of the wave write.
            lane = np.arange(len(starts)) % self.chip.lanes
            starts = starts[np.arange(len(starts)) - lane] + size * lane[:, None]
        return _Lanes(starts, active, row, unknown)

    def _place(self, access: Access, points: Enumeration) -> tuple[Value, Sum]:
        """The memory of an access, and where it begins there, in bytes."""
        steps = steps_of_access(access)
        if not steps.whole:
            raise NotKnownError("the layout of its memory is not known")
        self._same(steps.memory)
        total = _number(0)
        for step in steps.steps:
            stride = _symbol(step.key) if step.stride is None else _number(step.stride)
            bytes_of = _times(stride, _number(step.size))
            total = _added(total, _times(self._sum(step.amount, points), bytes_of))
        return steps.memory, total

    def _same(self, memory: Value) -> None:
        """Raise unless all threads access one memory."""
        root = root_of(memory)
        if root.kind in ("unknown", "address") and self._differs(memory):
            raise NotKnownError("which memory it is may differ from lane to lane")

    def _sum(self, value: Value | int, points: Enumeration) -> Sum:
        """An integer as a sum. Raises NotKnownError where it is none."""
        found = _number(value) if isinstance(value, int) else self._known_sum(value, points)
        names = [name for product in found or () for name, _ in product]
        if found is None or not all(self.is_fixed(n) for n in names if isinstance(n, ir.Value)):
            raise NotKnownError(f"a subscript is no sum of {self.SUMS_OF}")
        return found

    def _known_sum(self, value: Value, points: Enumeration) -> Sum | None:
        def step(current: Value, get: Callable[[Value], Sum | None]) -> Sum | None:
            decided = points.evaluate(current)
            if decided is not None:
                return _number(decided)
            made = _SUMS.of(current, get, None)
            if made is None and is_induction_variable(current):
                # Threads that run an iteration together began at their own numbers.
                loop = ir.BlockArgument(current).owner.owner.operation
                if not self._differs(loop.operands[2]):
                    begin, by = (memoised(loop.operands[n], points.sums, step) for n in (0, 2))
                    made = begin and by and _added(begin, _times(by, _symbol(loop)))
            if made is None and not self._differs(current):
                made = _symbol(self._name(current), divisor(current, self._numbers))
            return made

        found: Sum | None = memoised(value, points.sums, step)
        return found

    def _name(self, value: Value) -> Value:
        """A value; of a size the first one that was asked for."""
        op = defining_op(value)
        if op is None or op.name not in SIZE_OPS:
            return value
        axis = constant_value(op.operands[1])
        return value if axis is None else self._dims.setdefault((op.operands[0], axis), value)

    def _active(self, op: Operation, points: Enumeration) -> Array:
        """The threads that run an op, by conditions that ids decide."""
        active = np.asarray(points.runs)
        below, several = op, False
        for above in ancestors(op):
            several = several or any(len(region.blocks) > 1 for region in above.regions)
            if above.name in KERNEL_OPS:
                break
            if above.name == "scf.if" and (met := points.evaluate(above.operands[0])) is not None:
                taken = below.block in list(above.regions[0].blocks)
                active = active & ((met != 0) == taken)
            # Threads that run an iteration are in it together, whatever their last one is.
            elif above.name != "scf.for" and not all(
                self._lets_all_run(condition, points) for condition in conditions(above)
            ):
                raise NotKnownError("which lanes run it is not decided by thread ids")
            below = above
        if several and self._uniformity.divergent_control(op) is not None:
            raise NotKnownError("which lanes run it is not decided by thread ids")
        return active

    def _lets_all_run(self, condition: Value, points: Enumeration) -> bool:
        """Whether all lanes of a warp meet a condition, but for those beyond a bound."""
        for part in filter(self._differs, conjunction(condition)):
            op = defining_op(part)
            # The others let one lane run.
            if op is None or predicate_of(op) in (None, "eq", "ne"):
                return False
            if not all(self._known_sum(operand, points) for operand in op.operands):
                return False
        return True

    def is_fixed(self, value: Value) -> bool:
        """Whether all threads that are asked about have one value."""
        return not self._differs(value)

    def _differs(self, value: Value) -> bool:
        return self._uniformity.difference(value) is not None


@dataclass
class Enumeration(Points):
    sums: dict[Value, Sum | None] = field(default_factory=dict)


def _lie_side_by_side(access: Access) -> bool:
    if access.contiguous or prod(access.extent or ()) == 1 or not access.indices:
        return True
    return static_strides(access.memory)[-1] == 1


def _conflicts(starts: Array, size: int, banks: int) -> tuple[int, int]:
    """For lanes that are served together the most rows that one bank is asked for, and the words asked for."""
    wanted: dict[int, set[int]] = defaultdict(set)
    for start in starts:
        for word in range(int(start) // WORD_BYTES, -(-(int(start) + size) // WORD_BYTES)):
            wanted[word % banks].add(word)
    return max(map(len, wanted.values())), sum(map(len, wanted.values()))
