"""Products of tensor memory where the warps of a block have roles: as in `tensor_state`, by clocks.

    multiplier: product, commit on empty[0]   the commit shows all that its core did so far
    producer: waits for empty[0]              so the product's tiles may be overwritten
    multiplier: commit on filled[0]
    readers: wait for filled[0], fence after  so the sums may be loaded
    readers: load, wait for it, fence before, arrive at drained[0]
    multiplier: wait for drained[0], fence after            so products may fill the columns anew

The tensor core of a thread has two columns among the clocks, which count its commits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from mlir_async_pipe.checker.phase_faults import FaultCode, NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases.tensor_state import (
    IN_FLIGHT,
    UNWAITED,
    Cells,
    Product,
    check_given_once,
    check_one_issuer,
    check_taken,
)
from mlir_async_pipe.checker.phases.warp_clocks import Event, Known, WarpClocks

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
