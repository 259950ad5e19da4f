"""Products of tensor memory on a path: what they read and add up until a wait for their commit, and who
may load or add up there.

    multiplier: product, commit on empty[0]   the commit shows all that its core did so far
    producer: waits for empty[0]              so the product's tiles may be overwritten
    multiplier: commit on filled[0]
    readers: wait for filled[0], fence after  so the sums may be loaded
    readers: load, wait for it, fence before, arrive at drained[0]
    multiplier: wait for drained[0], fence after            so products may fill the columns anew
    load, wait for it, barrier                then a warp may give the columns back

Products of one thread are executed in order, so a commit is for all before it. The tensor core of a thread has two
columns among the clocks, which count its commits.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mlir_async_pipe.checker.phase_faults import FaultCode, NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases.warp_clocks import Event, Known, WarpClocks
from mlir_async_pipe.vocabulary.tensor_memory import COLUMNS

UNWAITED = "it is in flight: 'nvvm.tcgen05.wait' is missing after it"
IN_FLIGHT = "it adds up there until a wait for the mbarrier of its commit"
# Notes of faults where threads know of each other by what they wait for, and where all go together.
_BEFORE = (
    "'fence <before>' is missing after it, before its threads arrive",
    "'fence <before>' is missing after it, before the block meets",
)
_LOADS = (
    "other warps may still load here: they must arrive, after that, where this waits",
    "other warps may still load here: the block must meet in between",
)
_AFTER = (
    "'fence <after>' is missing before this, after the wait that says so",
    "'fence <after>' is missing before this, after the block met",
)
_AFTER_COMMIT = _AFTER[0], "'fence <after>' is missing after the wait for its commit"


class Cells(NamedTuple):
    """Columns from `low` to `high` after `base`, the value that the address is made of; None: not
    known."""

    base: Any = None
    low: int | None = None
    high: int | None = None

    def meets(self, other: Cells) -> bool | None:
        """Whether two share a cell; None: perhaps."""
        if self.base is None or self.base != other.base:
            return None
        if self.low is None or self.high is None or other.low is None or other.high is None:
            return None
        return self.low < other.high and other.low < self.high


class Product(NamedTuple):
    """A product in flight: the op, its thread, what it reads of workgroup memory (touches) and where
    it adds up."""

    op: int
    by: int
    reads: tuple[Any, ...]
    sums: Cells


@dataclass(frozen=True)
class TensorState:
    """Columns of tensor memory on one path. `columns`: where ops write the address of those that they take, by
    root the op, -1 where that is lost. `live`: ops by the columns that they took, each as often as its columns
    are not given back."""

    columns: frozenset[tuple[int, int]] = frozenset()
    live: tuple[tuple[int, int], ...] = ()

    def took(self, op: int, count: int, warps: int) -> TensorState:
        """Each of some warps takes so many columns in an op."""
        live = tuple(sorted((*self.live, *(((op, count),) * warps))))
        if sum(size for _, size in live) > COLUMNS:
            note = f"{warps} warps take {count} columns each, and {COLUMNS} are all: it waits for others"
            raise PhaseFault("no-columns", op, live[0][0], note, False)
        return replace(self, live=live)

    def returned(self, taken: int | None, count: int | None) -> TensorState:
        """A warp gives columns back: those of the op `taken`, if it is known which they are."""
        mine = [entry for entry in self.live if taken in (None, entry[0]) and entry[1] == count]
        left = list(self.live)
        if mine:
            left.remove(mine[0])
        return replace(self, live=tuple(left) if mine else ())

    def check_kept(self) -> None:
        for op, count in self.live[:1]:
            note = f"no warp gives back the {count} columns that it takes here"
            raise PhaseFault("columns-kept", op, op, note)

    def taken(self, root: int, op: int) -> TensorState:
        """An op takes columns, the first one that writes there."""
        if any(at == root for at, _ in self.columns):
            return self.lost(root)
        return replace(self, columns=self.columns | {(root, op)})

    def lost(self, root: int) -> TensorState:
        """Something else is written there."""
        if not any(at == root for at, _ in self.columns):
            return self
        found = frozenset((at, -1 if at == root else op) for at, op in self.columns)
        return replace(self, columns=found)

    def columns_at(self, root: int) -> int | None:
        """The op whose columns begin where a number in this memory says."""
        return next((op for at, op in self.columns if at == root and op >= 0), None)


def check_taken(given: Iterable[tuple[Cells, int]], cells: Cells, op: int) -> None:
    """An op touches no columns that were given back."""
    for back, by in given:
        met = back.meets(cells)
        if met is not False:
            raise PhaseFault("out-of-bounds", op, by, "it gives these columns back", met is True)


def check_given_once(given: Iterable[tuple[Cells, int]], cells: Cells, op: int) -> None:
    """An op gives no columns back that are given back."""
    for back, by in given:
        if back.meets(cells):
            raise PhaseFault("out-of-bounds", op, by, "it gives these columns back before")


def check_one_issuer(product: Product) -> None:
    """Threads that issue a product add each of their own."""
    if product.by.bit_count() != 1:
        raise PhaseFault(
            "several-issuers",
            product.op,
            product.op,
            "each thread multiplies, and all of them add to the same sums",
        )


class Load(NamedTuple):
    """Threads `by` load cells in the op `op`."""

    cells: Cells
    op: int
    by: int


class Read(NamedTuple):
    """How far a load is: it `landed` at this event, and was `told` by a fence at this one."""

    landed: Event | None = None
    told: Event | None = None


class Core(NamedTuple):
    """The tensor core of a thread: its columns among the clocks, of what products read and of where they
    add up, and how many commits came in each."""

    reads: int
    sums: int
    read: int = 0
    summed: int = 0


@dataclass
class TensorCores:
    """`cores`: by thread; `reading`, `products` and `loads` are the last ones that read the same, add up in
    the same cells, load the same; `fenced`: by class what it saw at its last fence after; `given`: the
    cells that ops have given back."""

    cores: dict[int, Core] = field(default_factory=dict)
    reading: dict[Product, tuple[int, int]] = field(default_factory=dict)
    products: dict[Product, tuple[int, int]] = field(default_factory=dict)
    loads: dict[Load, Read] = field(default_factory=dict)
    fenced: dict[int, Known] = field(default_factory=dict)
    given: frozenset[tuple[Cells, int]] = frozenset()

    def copy(self) -> TensorCores:
        """The same, to be changed on its own."""
        return replace(
            self,
            cores=dict(self.cores),
            reading=dict(self.reading),
            products=dict(self.products),
            loads=dict(self.loads),
            fenced=dict(self.fenced),
        )

    # Products -----------------------------------------------------------------------------

    def issue(self, product: Product, clocks: WarpClocks) -> None:
        """A thread issues a product; those of one thread are executed in order."""
        check_one_issuer(product)
        check_taken(self.given, product.sums, product.op)
        mask = product.by
        for load, read in self.loads.items():
            met = load.cells.meets(product.sums)
            if met is not False:
                self._check_read(product, load, read, clocks, surely=met is True)
        for other, event in self.products.items():
            met = other.sums.meets(product.sums)
            if other.by != mask and met is not False:
                self._check_over(
                    product.op, mask, other, event, clocks, "overwrite-in-flight", met is True
                )
        core = self._core(mask, clocks)
        self.reading[product._replace(sums=Cells())] = core.reads, core.read
        self.products[product._replace(reads=())] = core.sums, core.summed

    def commit(self, mask: int, clocks: WarpClocks) -> Known:
        """A thread commits; gives what the arrival shows: all that its core has done."""
        core = self._core(mask, clocks)
        core = self.cores[mask] = core._replace(read=core.read + 1, summed=core.summed + 1)
        return (*(0,) * core.reads, core.read, core.summed)

    def _core(self, mask: int, clocks: WarpClocks) -> Core:
        if mask not in self.cores:
            self.cores[mask] = Core(clocks.new_column(), clocks.new_column())
        return self.cores[mask]

    def running(self, mask: int, clocks: WarpClocks) -> Iterator[Product]:
        """What products read of which threads do not see that they are over."""
        for product, (column, tick) in self.reading.items():
            if clocks.saw(mask, column) <= tick:
                yield product

    # Loads --------------------------------------------------------------------------------

    def load(self, cells: Cells, op: int, mask: int, clocks: WarpClocks) -> None:
        check_taken(self.given, cells, op)
        for product, event in self.products.items():
            met = product.sums.meets(cells)
            if met is not False:
                self._check_over(op, mask, product, event, clocks, "read-in-flight", met is True)
        self.loads[Load(cells, op, mask)] = Read()

    def landed(self, mask: int, clocks: WarpClocks) -> None:
        for load, read in self._of(mask):
            if read.landed is None:
                self.loads[load] = read._replace(landed=clocks.event(load.by))

    def give_back(self, cells: Cells, op: int, mask: int, clocks: WarpClocks) -> None:
        """A warp gives columns back: in no order of the roles may others still use them."""
        check_given_once(self.given, cells, op)
        for product, (column, tick) in self.products.items():
            met = product.sums.meets(cells)
            if met is not False and clocks.passed(mask, column) <= tick:
                raise PhaseFault("overwrite-in-flight", op, product.op, IN_FLIGHT, met is True)
        for load, read in self.loads.items():
            met = load.cells.meets(cells)
            if met is False:
                continue
            if read.landed is None:
                raise PhaseFault("source-overwritten", op, load.op, UNWAITED, met is True)
            if not clocks.knows(mask, read.landed):
                why = _LOADS[True]
                raise PhaseFault("missing-barrier", op, load.op, why, met is True)
        self.given |= {(cells, op)}

    def fence_before(self, mask: int, clocks: WarpClocks) -> None:
        """Threads tell of their loads from now on."""
        for load, read in self._of(mask):
            if read.landed is not None and read.told is None:
                self.loads[load] = read._replace(told=clocks.event(load.by))

    def fence_after(self, mask: int, clocks: WarpClocks) -> None:
        """What threads have heard of counts for their loads and products."""
        for number in clocks.classes.of(mask):
            self.fenced[number] = clocks.known[number].seen

    def check_end(self, clocks: WarpClocks) -> None:
        for product, (column, tick) in self.products.items():
            if all(known.seen[column] <= tick for known in clocks.known):
                raise PhaseFault(
                    "unwaited-copy", product.op, product.op, "no thread waits for a commit after it"
                )

    def _of(self, mask: int) -> list[tuple[Load, Read]]:
        found = [(load, read) for load, read in self.loads.items() if load.by & mask]
        if any(load.by & ~mask for load, _ in found):
            raise NotFollowedError("specialised")
        return found

    # Conflicts ----------------------------------------------------------------------------

    def _check_read(
        self, product: Product, load: Load, read: Read, clocks: WarpClocks, *, surely: bool
    ) -> None:
        code: FaultCode = "missing-tensor-fence"
        together = clocks.classes.together
        if read.landed is None:
            code, why = "source-overwritten", UNWAITED
        elif read.told is None:
            why = _BEFORE[together]
        elif not clocks.sees(product.by, read.told):
            code = "missing-barrier"
            why = _LOADS[together]
        elif not self._is_fenced(product.by, read.told, clocks):
            why = _AFTER[together]
        else:
            return
        raise PhaseFault(code, product.op, load.op, why, surely)

    def _check_over(
        self,
        op: int,
        mask: int,
        product: Product,
        event: tuple[int, int],
        clocks: WarpClocks,
        code: FaultCode,
        surely: bool,
    ) -> None:
        """Threads touch what a product fills."""
        if clocks.saw(mask, event[0]) <= event[1]:
            raise PhaseFault(code, op, product.op, IN_FLIGHT, surely)
        if not self._is_fenced(mask, (event,), clocks):
            note = _AFTER_COMMIT[clocks.classes.together]
            raise PhaseFault("missing-tensor-fence", op, product.op, note, surely)

    def _is_fenced(self, mask: int, event: Event, clocks: WarpClocks) -> bool:
        fences = [self.fenced.get(number, ()) for number in clocks.classes.of(mask)]
        return all(
            column < len(known) and known[column] > tick
            for known in fences
            for column, tick in event
        )
