"""Products of tensor memory on a path: what they read and add up until a wait for their commit, and who
may load or add up there.

    multiplier: product, commit on empty[0]   the commit shows all that its core did so far
    producer: waits for empty[0]              so the product's tiles may be overwritten
    multiplier: commit on filled[0]
    readers: wait for filled[0], fence after  so the sums may be loaded
    readers: load, wait for it, fence before, arrive at drained[0]      or store, and wait for that
    multiplier: wait for drained[0], fence after            so products may fill the columns anew
    load, wait for it, barrier                then a warp may give the columns back

Products of one thread into one accumulator are executed in order; other ones that share cells need a wait (PTX ISA,
tcgen05: pipelined instructions). A commit is for all before it. The tensor core of a thread has two
columns among the clocks, which count its commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mlir_async_pipe.checker.phase_faults import FaultCode, NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases.amounts import threads_of
from mlir_async_pipe.checker.phases.warp_clocks import Event, Known, WarpClocks, warps_of
from mlir_async_pipe.vocabulary.tensor_memory import (
    COLUMNS,
    LANES,
    LANES_OF_WARP,
    Cells,
    ProductCells,
)

QUARTERS = LANES // LANES_OF_WARP
UNWAITED = "it is in flight: 'nvvm.tcgen05.wait' is missing after it"
IN_FLIGHT = "it adds up there until a wait for the mbarrier of its commit"
_READS_LEFT = "it reads its left operand there until a wait for the mbarrier of its commit"
# Notes of faults where threads know of each other by what they wait for, and where all go together.
_BEFORE = (
    "'fence <before>' is missing after it, before its threads arrive",
    "'fence <before>' is missing after it, before the block meets",
)
_USES = (
    "other warps may still {} here: they must arrive, after that, where this waits",
    "other warps may still {} here: the block must meet in between",
)
_AFTER = (
    "'fence <after>' is missing before this, after the wait that says so",
    "'fence <after>' is missing before this, after the block met",
)
_AFTER_COMMIT = _AFTER[0], "'fence <after>' is missing after the wait for its commit"


class Product(NamedTuple):
    """A product in flight: the op, its thread, what it reads of workgroup memory (touches) and which cells it uses."""

    op: int
    by: int
    reads: tuple[Any, ...]
    cells: ProductCells = ProductCells()

    def used(self, *, writes: bool) -> Iterator[tuple[Cells, FaultCode, str]]:
        """The cells that others may not touch, or `writes` to, while it is in flight; the fault, and why."""
        sums, _, left = self.cells
        yield sums, "overwrite-in-flight" if writes else "read-in-flight", IN_FLIGHT
        if writes and left is not None:
            yield left, "source-overwritten", _READS_LEFT


class Load(NamedTuple):
    """Threads `by` load cells in the op `op`, or store there, if it `writes`."""

    cells: Cells
    op: int
    by: int
    writes: bool = False

    def code(self, writes: bool) -> FaultCode:
        """What is wrong with who touches the cells, and `writes` there, while it is in flight."""
        if not self.writes:
            return "source-overwritten"
        return "overwrite-in-flight" if writes else "read-in-flight"

    def note(self, together: bool) -> str:
        """That its warps may not be over."""
        return _USES[together].format("store" if self.writes else "load")


class Read(NamedTuple):
    """The events at which a load or store `landed`, and at which a fence came after that."""

    landed: Event | None = None
    fenced: Event | None = None


def _quarters_of(mask: int) -> set[int]:
    """The quarters of the lanes that the warps of a mask may touch."""
    return {warp % QUARTERS for warp in threads_of(warps_of(mask))}


class Core(NamedTuple):
    """The tensor core of a thread: its columns among the clocks, of what products read and of where they add up."""

    reads: int
    sums: int


@dataclass
class TensorMemory:
    """Tensor memory on one path. `cores`: by thread; `reading`, `products` and `loads` are the last ones that read
    the same, add up in the same cells, load or store the same; `fenced`: by class what it saw at its last fence after;
    `given`: the cells that ops have given back; `columns`: where ops write the address of those that they take, by
    root the op, -1 where that is lost; `live`: ops by the columns that they took, each as often as its columns
    are not given back."""

    cores: dict[int, Core] = field(default_factory=dict)
    reading: dict[Product, tuple[int, int]] = field(default_factory=dict)
    products: dict[Product, tuple[int, int]] = field(default_factory=dict)
    loads: dict[Load, Read] = field(default_factory=dict)
    fenced: dict[int, Known] = field(default_factory=dict)
    given: frozenset[tuple[Cells, int]] = frozenset()
    columns: dict[int, int] = field(default_factory=dict)
    live: tuple[tuple[int, int], ...] = ()

    def copy(self) -> TensorMemory:
        return replace(
            self,
            cores=dict(self.cores),
            reading=dict(self.reading),
            products=dict(self.products),
            loads=dict(self.loads),
            fenced=dict(self.fenced),
            columns=dict(self.columns),
        )

    def uses(self) -> Iterator[tuple[str, dict[Product, tuple[int, int]]]]:
        """What products use, with when which did so last."""
        yield "reads", self.reading
        yield "sums", self.products

    # Columns ------------------------------------------------------------------------------

    def took(self, op: int, count: int, warps: int) -> None:
        """Each of some warps takes so many columns in an op."""
        self.live = tuple(sorted((*self.live, *(((op, count),) * warps))))
        if sum(size for _, size in self.live) > COLUMNS:
            note = f"{warps} warps take {count} columns each, and {COLUMNS} are all: it waits for others"
            raise PhaseFault("no-columns", op, self.live[0][0], note, False)

    def returned(self, taken: int | None, count: int | None) -> None:
        """A warp gives columns back: those of the op `taken`, if it is known which they are."""
        mine = [entry for entry in self.live if taken in (None, entry[0]) and entry[1] == count]
        left = list(self.live)
        if mine:
            left.remove(mine[0])
        self.live = tuple(left) if mine else ()

    def taken(self, root: int, op: int) -> None:
        """An op takes columns, the first one that writes there; they may be some that were given back."""
        self.given = frozenset()
        self.columns[root] = -1 if root in self.columns else op

    def lost(self, root: int) -> None:
        """Something else is written there."""
        if root in self.columns:
            self.columns[root] = -1

    def columns_at(self, root: int) -> int | None:
        """The op whose columns begin where a number in this memory says."""
        op = self.columns.get(root, -1)
        return None if op < 0 else op

    def _check_taken(self, cells: Cells, op: int) -> None:
        """An op touches no columns that were given back."""
        for back, by in self.given:
            met = back.meets(cells)
            if met is not False:
                raise PhaseFault(
                    "out-of-bounds", op, by, "it gives these columns back", met is True
                )

    # Products -----------------------------------------------------------------------------

    def issue(self, product: Product, clocks: WarpClocks) -> None:
        mask, op = product.by, product.op
        if mask.bit_count() != 1:
            note = "each thread multiplies, and all of them add to the same sums"
            raise PhaseFault("several-issuers", op, op, note)
        sums, _, left = product.cells
        for cells in filter(None, (sums, left)):
            self._check_taken(cells, op)
        for load, read in self.loads.items():
            used = filter(None, (sums, left if load.writes else None))
            for met in {load.cells.meets(cells) for cells in used} - {False}:
                # Of what its own warp has stored and waited for, a fence may not be needed.
                alone = warps_of(load.by | mask).bit_count() == 1
                own = load.writes and alone and read.landed is not None
                self._check_read(op, mask, load, read, clocks, met is True and not own)
        for other, event in self.products.items():
            for code, certain in product.cells.conflicts(other.cells, alike=other.by != mask):
                why = _READS_LEFT if code == "source-overwritten" else IN_FLIGHT
                fault = PhaseFault(code, op, other.op, why, certain is True)
                # A thread knows of its own products without a fence.
                self._check_over(mask, other, event, clocks, fault, fenced=other.by == mask)
        core = self._core(mask, clocks)
        self.reading[Product(op, mask, product.reads)] = core.reads, clocks.ticks[core.reads]
        self.products[product._replace(reads=())] = core.sums, clocks.ticks[core.sums]

    def commit(self, mask: int, clocks: WarpClocks) -> Known:
        """A thread commits; gives what the arrival shows: all that its core has done."""
        return clocks.did(self._core(mask, clocks))

    def _core(self, mask: int, clocks: WarpClocks) -> Core:
        if mask not in self.cores:
            self.cores[mask] = Core(clocks.new_core(), clocks.new_core())
        return self.cores[mask]

    def running(self, mask: int, clocks: WarpClocks) -> Iterator[Product]:
        """What products read of which threads do not see that they are over."""
        for product, (column, tick) in self.reading.items():
            if not clocks.sees(mask, ((column, tick),)):
                yield product

    # Loads and stores -----------------------------------------------------------------------

    def load(self, cells: Cells, op: int, mask: int, clocks: WarpClocks) -> None:
        self._use(Load(cells, op, mask), clocks)

    def store(self, cells: Cells, op: int, mask: int, clocks: WarpClocks) -> None:
        self._use(Load(cells, op, mask, writes=True), clocks)

    def _use(self, load: Load, clocks: WarpClocks) -> None:
        self._check_taken(load.cells, load.op)
        for product, event in self.products.items():
            for cells, code, why in product.used(writes=load.writes):
                met = cells.meets(load.cells)
                if met is not False:
                    fault = PhaseFault(code, load.op, product.op, why, met is True)
                    self._check_over(load.by, product, event, clocks, fault)
        for other, read in self.loads.items():
            met = other.cells.meets(load.cells)
            if met is not False and (load.writes or other.writes):
                self._check_used(load, other, read, clocks, met is True)
        self.loads[load] = Read()

    def _check_used(
        self, load: Load, other: Load, read: Read, clocks: WarpClocks, certain: bool
    ) -> None:
        """Threads touch cells that they or others have touched, and one of the two writes there."""
        if load.by == other.by and len(_quarters_of(load.by)) == warps_of(load.by).bit_count():
            # Each warp of its own. Two stores in a row may be in the order of their threads.
            if read.landed is None:
                both = load.writes and other.writes
                raise PhaseFault(
                    other.code(load.writes), load.op, other.op, UNWAITED, certain and not both
                )
        elif load.by & other.by:
            raise NotFollowedError("specialised")
        elif _quarters_of(load.by) & _quarters_of(other.by):
            self._check_read(load.op, load.by, other, read, clocks, certain)

    def landed(self, mask: int, clocks: WarpClocks, *, stores: bool = False) -> None:
        """Threads have waited for their loads, or `stores`."""
        for load, read in self._of(mask):
            if read.landed is None and load.writes == stores:
                self.loads[load] = read._replace(landed=clocks.event(load.by))

    def stored(self, mask: int, clocks: WarpClocks) -> None:
        self.landed(mask, clocks, stores=True)

    def give_back(self, cells: Cells, op: int, mask: int, clocks: WarpClocks) -> None:
        """A warp gives columns back: in no order of the roles may others still use them."""
        for back, by in self.given:
            if back.meets(cells):
                raise PhaseFault("out-of-bounds", op, by, "it gives these columns back before")
        for product, (column, tick) in self.products.items():
            for used, code, why in product.used(writes=True):
                met = used.meets(cells)
                if met is not False and clocks.passed(mask, column) <= tick:
                    raise PhaseFault(code, op, product.op, why, met is True)
        for load, read in self.loads.items():
            met = load.cells.meets(cells)
            if met is False:
                continue
            if read.landed is None:
                raise PhaseFault(load.code(True), op, load.op, UNWAITED, met is True)
            if not clocks.knows(mask, read.landed):
                raise PhaseFault("missing-barrier", op, load.op, load.note(True), met is True)
        self.given |= {(cells, op)}

    def fence_before(self, mask: int, clocks: WarpClocks) -> None:
        """Threads tell of their loads from now on."""
        for load, read in self._of(mask):
            if read.landed is not None and read.fenced is None:
                self.loads[load] = read._replace(fenced=clocks.event(load.by))

    def fence_after(self, mask: int, clocks: WarpClocks) -> None:
        """What threads have acquired counts for their loads and products."""
        for number in clocks.classes.of(mask):
            self.fenced[number] = clocks.known[number].seen
        # What all have acquired, nobody is asked for any more.
        if clocks.classes.together and mask == clocks.classes.everybody:
            self.products = {
                product: at
                for product, at in self.products.items()
                if not self._is_fenced(mask, (at,), clocks)
            }
            self.loads = {
                load: read
                for load, read in self.loads.items()
                if read.fenced is None or not self._is_fenced(mask, read.fenced, clocks)
            }

    def check_end(self, clocks: WarpClocks) -> None:
        for product, (column, tick) in self.products.items():
            if all(known.seen[column] <= tick for known in clocks.known):
                raise PhaseFault(
                    "unwaited-copy", product.op, product.op, "no thread waits for a commit after it"
                )
        for op, count in self.live[:1]:
            note = f"no warp gives back the {count} columns that it takes here"
            raise PhaseFault("columns-kept", op, op, note)

    def _of(self, mask: int) -> list[tuple[Load, Read]]:
        found = [(load, read) for load, read in self.loads.items() if load.by & mask]
        if any(load.by & ~mask for load, _ in found):
            raise NotFollowedError("specialised")
        return found

    # Conflicts ----------------------------------------------------------------------------

    def _check_read(
        self, op: int, by: int, load: Load, read: Read, clocks: WarpClocks, certain: bool
    ) -> None:
        """Threads `by` touch in an op what others load, or have stored."""
        code: FaultCode = "missing-tensor-fence"
        together = clocks.classes.together
        if read.landed is None:
            code, why = load.code(False), UNWAITED
        elif read.fenced is None:
            why = _BEFORE[together]
        elif not clocks.sees(by, read.fenced):
            code, why = "missing-barrier", load.note(together)
        elif not self._is_fenced(by, read.fenced, clocks):
            why = _AFTER[together]
        else:
            return
        raise PhaseFault(code, op, load.op, why, certain)

    def _check_over(
        self,
        mask: int,
        product: Product,
        event: tuple[int, int],
        clocks: WarpClocks,
        fault: PhaseFault,
        *,
        fenced: bool = False,
    ) -> None:
        """Threads touch what a product uses: raises the fault where they do not know it to be over."""
        if not clocks.sees(mask, (event,)):
            raise fault
        if not (fenced or self._is_fenced(mask, (event,), clocks)):
            note, found = _AFTER_COMMIT[clocks.classes.together], fault.found
            raise PhaseFault("missing-tensor-fence", found.later, product.op, note, found.certain)

    def _is_fenced(self, mask: int, event: Event, clocks: WarpClocks) -> bool:
        fences = [self.fenced.get(number, ()) for number in clocks.classes.of(mask)]
        return all(
            column < len(known) and known[column] > tick
            for known in fences
            for column, tick in event
        )
