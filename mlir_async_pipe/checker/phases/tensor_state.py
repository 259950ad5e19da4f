"""Products of tensor memory on a path: what they read and add up until a wait for their commit, and who
may load or add up there.

    product, by one thread       reads its tiles and fills its cells until the phase is over in which
                                 a later commit of the thread has arrived
    wait of all threads          over; loads need a fence after it
    load, wait for it, fence before, barrier, fence after
                                 then products may fill the cells anew
    load, wait for it, barrier   then a warp may give the columns back

Products of one thread are executed in order, so a commit is for all before it: once its phase is over,
those of earlier commits are too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from mlir_async_pipe.checker.phase_faults import FaultCode, NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases.arrivals import Key, Mbarrier
from mlir_async_pipe.checker.phases.warp_clocks import Event, Known, WarpClocks
from mlir_async_pipe.vocabulary.tensor_memory import COLUMNS

UNWAITED = "it is in flight: 'nvvm.tcgen05.wait' is missing after it"
IN_FLIGHT = "it adds up there until a wait for the mbarrier of its commit"
# Steps of a load on its way to be known to those who issue products.
_ISSUED, _LANDED, _TOLD, _MET = range(4)
_MISSING = {
    _ISSUED: ("source-overwritten", UNWAITED),
    _LANDED: (
        "missing-tensor-fence",
        "'fence <before>' is missing after it, before the block meets",
    ),
    _TOLD: ("missing-barrier", "other warps may still load here: the block must meet in between"),
    _MET: ("missing-tensor-fence", "'fence <after>' is missing before this, after the block met"),
}


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


class Touched(NamedTuple):
    """Cells that products have filled (`step` is None), or that threads load, by the op `op`; the
    threads `fenced` have made the fence after they heard of it; `met`: the block has met since a load
    was waited for."""

    cells: Cells
    op: int
    step: int | None = None
    fenced: int = 0
    met: bool = False


@dataclass(frozen=True)
class TensorState:
    """Tensor memory on one path. `open` are products that no commit covers; those of commits stand in
    the phases of their mbarriers. `columns`: where ops write the address of those that they take, by
    root the op, -1 where that is lost. `given`: the cells that ops have given back. `live`: ops by the columns
    that they took, each as often as its columns are not given back."""

    everybody: int
    open: tuple[Product, ...] = ()
    known: frozenset[Touched] = frozenset()
    columns: frozenset[tuple[int, int]] = frozenset()
    given: frozenset[tuple[Cells, int]] = frozenset()
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
        """An op takes columns, the first one that writes there; they may be some that were given back."""
        if any(at == root for at, _ in self.columns):
            return replace(self.lost(root), given=frozenset())
        return replace(self, columns=self.columns | {(root, op)}, given=frozenset())

    def lost(self, root: int) -> TensorState:
        """Something else is written there."""
        if not any(at == root for at, _ in self.columns):
            return self
        found = frozenset((at, -1 if at == root else op) for at, op in self.columns)
        return replace(self, columns=found)

    def columns_at(self, root: int) -> int | None:
        """The op whose columns begin where a number in this memory says."""
        return next((op for at, op in self.columns if at == root and op >= 0), None)

    def in_flight(self, barriers: dict[Key, Mbarrier]) -> tuple[Product, ...]:
        """The products in flight, oldest first: the latest commit covers all before it."""
        phases = [phase.products for barrier in barriers.values() for phase in barrier.phases]
        return (*max(phases, key=len, default=()), *self.open)

    def issue(self, product: Product) -> TensorState:
        check_one_issuer(product)
        if any(other.by != product.by for other in self.open):
            raise NotFollowedError("specialised")
        check_taken(self.given, product.sums, product.op)
        for known in self.known:
            if known.step is None or not product.by & ~known.fenced:
                continue
            met = known.cells.meets(product.sums)
            if met is not False:
                code, why = _MISSING[known.step]
                raise PhaseFault(code, product.op, known.op, why, met is True)  # type: ignore[arg-type]
        return replace(self, open=(*self.open, product))

    def over(self, products: Iterable[Product], mask: int) -> TensorState:
        """Threads have waited for a commit of these products."""
        if mask != self.everybody:
            raise NotFollowedError("specialised")
        filled = {Touched(product.sums, product.op) for product in products}
        return replace(self, known=self.known | filled)

    def load(self, cells: Cells, op: int, mask: int, barriers: dict[Key, Mbarrier]) -> TensorState:
        if mask != self.everybody:
            raise NotFollowedError("specialised")
        check_taken(self.given, cells, op)
        self._check_idle(cells, op, barriers, "read-in-flight")
        for known in self.known:
            if known.step is None and mask & ~known.fenced:
                met = known.cells.meets(cells)
                if met is not False:
                    why = "'fence <after>' is missing after the wait for its commit"
                    raise PhaseFault("missing-tensor-fence", op, known.op, why, met is True)
        return replace(self, known=self.known | {Touched(cells, op, _ISSUED)})

    def give_back(
        self, cells: Cells, op: int, mask: int, barriers: dict[Key, Mbarrier]
    ) -> TensorState:
        check_given_once(self.given, cells, op)
        self._check_idle(cells, op, barriers, "overwrite-in-flight")
        for known in self.known:
            if known.step is None or known.met or not self.everybody & ~mask:
                continue
            met = known.cells.meets(cells)
            if met is not False:
                code, why = _MISSING[_ISSUED if known.step == _ISSUED else _TOLD]
                raise PhaseFault(code, op, known.op, why, met is True)  # type: ignore[arg-type]
        return replace(self, given=self.given | {(cells, op)})

    def _check_idle(
        self, cells: Cells, op: int, barriers: dict[Key, Mbarrier], code: FaultCode
    ) -> None:
        for product in self.in_flight(barriers):
            met = product.sums.meets(cells)
            if met is not False:
                raise PhaseFault(code, op, product.op, IN_FLIGHT, met is True)

    def landed(self, mask: int) -> TensorState:
        return self._step(_ISSUED, _LANDED, mask)

    def fence_before(self, mask: int) -> TensorState:
        """Threads tell of their loads when they meet others."""
        return self._step(_LANDED, _TOLD, mask)

    def meet(self) -> TensorState:
        known = frozenset(
            each._replace(met=True) if each.step not in (None, _ISSUED) else each
            for each in self.known
        )
        return replace(self, known=known)._step(_TOLD, _MET, self.everybody)

    def fence_after(self, mask: int) -> TensorState:
        """What threads have heard of counts for their loads and products."""
        kept = set()
        for known in self.known:
            if known.step in (None, _MET):
                known = known._replace(fenced=known.fenced | mask)
            if known.fenced != self.everybody:
                kept.add(known)
        return replace(self, known=frozenset(kept))

    def _step(self, first: int, then: int, mask: int) -> TensorState:
        if not any(known.step == first for known in self.known):
            return self
        if mask != self.everybody:
            raise NotFollowedError("specialised")
        return replace(
            self,
            known=frozenset(
                known._replace(step=then) if known.step == first else known for known in self.known
            ),
        )


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


def without(products: tuple[Product, ...], over: tuple[Product, ...]) -> tuple[Product, ...]:
    """Products that are left when others are over; equal ones are told apart by their number."""
    left = list(products)
    for product in over:
        if product in left:
            left.remove(product)
    return tuple(left)


# Products of tensor memory where the warps of a block have roles: as in `tensor_state`, by clocks.
#
#     multiplier: product, commit on empty[0]   the commit shows all that its core did so far
#     producer: waits for empty[0]              so the product's tiles may be overwritten
#     multiplier: commit on filled[0]
#     readers: wait for filled[0], fence after  so the sums may be loaded
#     readers: load, wait for it, fence before, arrive at drained[0]
#     multiplier: wait for drained[0], fence after            so products may fill the columns anew
#
# The tensor core of a thread has two columns among the clocks, which count its commits.

_UNTOLD = "'fence <after>' is missing before this, after the wait that says so"


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
class TensorRoles:
    """`cores`: by thread; `reading`, `products` and `loads` are the last ones that read the same, add up in
    the same cells, load the same; `fenced`: by class what it saw at its last fence after; `given`: the
    cells that ops have given back."""

    cores: dict[int, Core] = field(default_factory=dict)
    reading: dict[Product, tuple[int, int]] = field(default_factory=dict)
    products: dict[Product, tuple[int, int]] = field(default_factory=dict)
    loads: dict[Load, Read] = field(default_factory=dict)
    fenced: dict[int, Known] = field(default_factory=dict)
    given: frozenset[tuple[Cells, int]] = frozenset()

    def copy(self) -> TensorRoles:
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
                why = "other warps may still load here: the block must meet in between"
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
        if read.landed is None:
            code, why = "source-overwritten", UNWAITED
        elif read.told is None:
            why = "'fence <before>' is missing after it, before its threads arrive"
        elif not clocks.sees(product.by, read.told):
            code = "missing-barrier"
            why = "other warps may still load here: they must arrive, after that, where this waits"
        elif not self._is_fenced(product.by, read.told, clocks):
            why = _UNTOLD
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
            raise PhaseFault("missing-tensor-fence", op, product.op, _UNTOLD, surely)

    def _is_fenced(self, mask: int, event: Event, clocks: WarpClocks) -> bool:
        fences = [self.fenced.get(number, ()) for number in clocks.classes.of(mask)]
        return all(
            column < len(known) and known[column] > tick
            for known in fences
            for column, tick in event
        )
