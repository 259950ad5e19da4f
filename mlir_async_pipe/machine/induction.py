"""A loop with any number of iterations, followed by induction: what it holds after t periods is stated, and checked.

    sum  = any(0.0, dot1 + (dot0 + 0.0))        whatever it is: named by what it was after no and after one period
    slot 0 = A[row, 64 t .. 64 t + 31]          what moves on by one period moves on by every period

The state at the head of the loop (carried values and memory) is taken twice, a period apart; where both are the same but for
numbers that moved, it is stated for period t, and where they are not, it is *anything*: a free variable. From the
state that was stated, with t periods over and r left, one period is run. If the new state is the
one that was stated with t + 1 and r - 1, for some new values of the variables, then it holds after each period: for t = 0 it is the one
that was seen. With r = 0 the rest of the program is run.

Two programs that state their loops with the same variables compute the same if their variables get the same new values (the
base is the same, since a variable is named by it), and what they store and hold in the end are the same terms. Nothing is
concluded from how the states look: any statement that passes these checks is true.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from mlir_async_pipe.machine.counted_terms import counted, forms
from mlir_async_pipe.machine.detector import NOBODY
from mlir_async_pipe.machine.fifos import Fifo, Marks
from mlir_async_pipe.machine.lane_values import Array, MemRef, Token, arrays_in, mapped
from mlir_async_pipe.machine.long_arrays import LongArrays, moves
from mlir_async_pipe.machine.term_table import (
    ANY,
    ANY_BYTE,
    BYTE,
    CONSTANT,
    COUNT,
    JOIN,
    PLACES,
    TermTable,
    in_cells,
    is_leaf,
)
from mlir_async_pipe.machine.terms import COMMUTATIVE, Terms, is_array, lift, made_again
from mlir_async_pipe.machine.warp_clock import ClockedDetector
from mlir_async_pipe.machine.warp_order import LockStep
from mlir_async_pipe.session.diagnostics import MachineError

Rows = Callable[[Array], Array]
# Terms nested deeper than this are not looked into.
_DEEPEST = 300


class TooFewIterations(MachineError):
    """The smallest trip count is `missing` iterations too small for a period of `iterations`."""

    def __init__(self, missing: int, iterations: int) -> None:
        super().__init__("the smallest trip count is too small", code="too-few-iterations")
        self.missing, self.iterations = missing, iterations


@dataclass(eq=False)
class Induction:
    """The loop of one program. `peeled` iterations run before the first state is taken, and more until `stored` bytes are
    stored to long arrays. Where `is_watched`, what the detector knows must come again, too.

    When it is over: what was stored to long arrays `before` the first state, in a `period` and `after` all of them, as rows
    (array, b, s, u, cell); the `new` values of the variables."""

    table: TermTable
    peeled: int = 0
    stored: int = 0
    is_watched: bool = False
    is_reached: bool = False
    new: dict[int, int] = field(default_factory=dict)
    before: Array | None = None
    period: Array | None = None

    def depends(self, one: Any, other: Any) -> bool:
        """Whether the difference of two values, if both are integers, depends on the trip count."""
        if not any(isinstance(value, Terms) for value in (one, other)):
            return False
        if not all(is_array(value) and value.dtype.kind in "iu" for value in (one, other)):
            return False
        rows, known = forms(self.table, lift(self.table, one - other, one.dtype))
        return bool(rows[known][:, 1:].any())

    def follow(
        self, unit: Any, state: Any, iterate: Callable[[Any], Any], distance: Callable[[Any], Any]
    ) -> Any:
        """Run a loop to where no period is left: the state there. `iterate` gives the state after one more iteration, None if
        there is none; `distance` an integer that is the same for all threads, which each iteration changes by one number, and that the end of the loop
        depends on."""
        self.is_reached = True
        if self.before is not None:
            raise _refused("several-loops", "a second loop depends on the trip count")
        _refuse_others(unit)
        arrays: LongArrays = unit.launch.memory.long_arrays

        def run(state: Any) -> Any:
            left, slope = self._left(distance(state))
            try:
                following = iterate(state)
            except MachineError as error:
                # What asks for the iterations after it is decided where more of them are left.
                if error.code not in ("data-dependent", "iteration-dependent") or left > 2 * slope:
                    raise
                following = None
            if following is None:
                raise TooFewIterations(slope // 4 + 1, slope)
            return following

        for _ in range(self.peeled):
            state = run(state)
        while arrays.stored_bytes() < self.stored:
            state = run(state)
        begin, slope = self._left(distance(state))
        if begin <= slope:
            raise TooFewIterations(slope - begin + 1, slope)
        self.before = arrays.taken()
        list(_tokens(state))
        first, buffers = _State.of(unit, state), len(unit.launch.memory.buffers)
        phases = _phases(unit)
        iterations = 0
        while begin - self._left(distance(state))[0] < slope:
            state, iterations = run(state), iterations + 1
            if iterations > slope:
                raise moves("a bound of a loop")
        if begin - self._left(distance(state))[0] != slope:
            raise _refused("uneven-loop", "a period is no whole number of iterations of the loop")
        if [one[0] for one in _phases(unit)] != [one[0] for one in phases]:
            raise _refused("uneven-loop", "a period is an odd number of phases of an mbarrier")
        arrays.taken()
        stated = first.stated(_State.of(unit, state))
        known, phases = _known(unit, state) if self.is_watched else (), _phases(unit)
        state = stated.put(unit, state)
        for _ in range(iterations):
            state = run(state)
        self.period = arrays.taken()
        found = _State.of(unit, state)
        self.new = stated.bound(found)
        if not stated.moved(_next, self.new).equals(found):
            raise _refused("not-periodic", "what a loop holds after a period does not come again")
        if len(unit.launch.memory.buffers) != buffers:
            raise _refused("not-periodic", "an iteration allocates memory")
        if _phases(unit) != phases:
            raise _refused("not-periodic", "what mbarriers wait for does not come again")
        if self.is_watched and _known(unit, state) != known:
            raise _refused("not-periodic", "what is in flight after a period does not come again")
        # What was computed before the loop, and passed, is of this launch, too: no period is left.
        tensors = unit.launch.tensors
        tensors.update({at: mapped(self.ended, tensor) for at, tensor in tensors.items()})
        for key, value in list(unit.frame.values.items()):
            unit.frame.values[key] = mapped(
                lambda array: _instead(unit, array, self.ended(array)), value
            )
        return stated.moved(_last, {}).put(unit, state)

    def ended(self, value: Any) -> Any:
        """An integer that depends on the trip count, where no period is left."""
        if not isinstance(value, Terms) or value.dtype.kind not in "iu":
            return value
        rows, known = forms(self.table, value.inner)
        if not known.all():
            return value
        ids = counted(self.table, value.dtype, _ended(rows.reshape(-1, 3)))
        return Terms(self.table, ids.reshape(value.shape), value.dtype).settled()

    def _left(self, distance: Any) -> tuple[int, int]:
        """What a distance is in the smallest launch, and how much a launch with one more period has more."""
        rows, known = forms(self.table, lift(self.table, distance, distance.dtype))
        first, over, slope = (rows[0] if distance.shape == (1,) else np.zeros(3, int)).tolist()
        if not known.all() or over not in (0, slope) or not slope:
            raise moves("a bound of a loop")
        return (first, slope) if slope > 0 else (-first, -slope)


def _refused(code: str, message: str) -> MachineError:
    return MachineError(message, code=code)


def _refuse_others(unit: Any) -> None:
    """Whatever else the machine remembers of iterations, and no state has, is refused."""
    launch = unit.launch
    reasons = {
        "threads run in parts": not isinstance(launch.scheduler, LockStep) or unit.mask is not None,
        "blocks wait for each other": launch.follows_flags,
        "the grid has several blocks": int(np.prod(launch.options.grid)) > 1,
        "threads meet those of a cluster": any(
            site.meets == "cluster" for site in launch.decoder.sites
        ),
        "there is tensor memory": launch.tensor_memory is not None,
        "it is in a function that is called": unit.depth > 1,
        "queues are abstract": bool(unit.queues.slots or unit.deferred),
    }
    for reason, holds in reasons.items():
        if holds:
            raise _refused("not-followed", f"a loop is not followed where {reason}")


def _next(rows: Array) -> Array:
    """One period later in the same launch: t + 1 are over, r - 1 left."""
    return rows + np.outer(rows[:, 1] - rows[:, 2], [1, 0, 0])


def _ended(rows: Array) -> Array:
    """No period is left."""
    return rows * [1, 1, 0]


def _last(rows: Array) -> Array:
    """The smallest launch has one period, too: a launch with n more has run n + 1 when none is left, r = -1."""
    return _ended(_next(rows))


# States -----------------------------------------------------------------------------------


def _instead(unit: Any, old: Any, new: Any) -> Any:
    """`new` in the place of an array, which products that are in flight may fill, or others add to."""
    if unit.registers is None or new is old:
        return new
    unit.registers.rename(old, new)
    filled = _product(unit, old)
    if filled is not None:
        if not isinstance(new, Terms):
            raise _refused("not-followed", "a product in flight is a number")
        new.base = filled.registers
    return new


def _product(unit: Any, array: Any) -> Any:
    """The product in flight that fills an array, None if there is none."""
    mine = [part for part in (array, array.base) if part is not None]
    pending = unit.queues.pending()
    return next((op for op in pending if any(op.registers is part for part in mine)), None)


def _tokens(value: Any) -> Iterator[Token]:
    if isinstance(value, Token):
        yield value
    elif isinstance(value, (tuple, list)):
        yield from chain.from_iterable(map(_tokens, value))
    elif value is not None and not is_array(value) and not isinstance(value, MemRef):
        raise _refused("not-followed", f"a loop carries {type(value).__name__}")


@dataclass(frozen=True, eq=False)
class _State:
    """The arrays that a loop carries, as terms, and the cells of memory."""

    table: TermTable
    ids: tuple[Array, ...]
    cells: Array

    @staticmethod
    def of(unit: Any, carried: Any) -> _State:
        memory = unit.launch.memory
        table, end = memory.data.table, max((b.base + b.size for b in memory.buffers), default=0)
        ids = tuple(lift(table, array, array.dtype) for array in arrays_in(carried))
        return _State(table, ids, memory.data.inner[:end].copy())

    def put(self, unit: Any, carried: Any) -> Any:
        """Make it the machine's; what the loop carries, of the form of `carried`."""
        unit.launch.memory.data.inner[: len(self.cells)] = self.cells
        given = iter(self.ids)

        def made(array: Any) -> Any:
            return _instead(unit, array, Terms(self.table, next(given), array.dtype).settled())

        return mapped(made, carried)

    def _with(self, ids: Array, cells: Array) -> _State:
        ends = np.cumsum([one.size for one in self.ids])[:-1]
        parts = np.split(ids, ends) if self.ids else []
        shaped = (part.reshape(one.shape) for part, one in zip(parts, self.ids, strict=True))
        return _State(self.table, tuple(shaped), cells)

    @property
    def _flat(self) -> Array:
        return np.concatenate([np.zeros(0, np.int64), *(one.reshape(-1) for one in self.ids)])

    def aligned(self, other: _State) -> tuple[_State, _State]:
        """Both, with arrays of one shape: what all threads agree on may be held once."""
        if len(self.cells) != len(other.cells):
            raise _refused("not-periodic", "an iteration allocates memory")
        pairs = [np.broadcast_arrays(*pair) for pair in zip(self.ids, other.ids, strict=True)]
        return (
            replace(self, ids=tuple(one for one, _ in pairs)),
            replace(other, ids=tuple(two for _, two in pairs)),
        )

    def stated(self, other: _State) -> _State:
        """What it is after t periods, from what it was after none and after one."""
        one, two = self.aligned(other)
        ids = _stated(self.table, one._flat, two._flat)
        return one._with(ids, _stated_cells(self.table, one.cells, two.cells))

    def bound(self, found: _State) -> dict[int, int]:
        """The values of variables with which it may be `found`: the terms, or cells, by variable."""
        one, two = self.aligned(found)
        new: dict[int, int] = {}
        _bind(self.table, one._flat, two._flat, new)
        _bind_cells(self.table, one.cells, two.cells, new)
        return new

    def moved(self, rows: Rows, new: dict[int, int]) -> _State:
        """It with other numbers of periods, and other values of variables."""
        ids = _rebuilt(self.table, self._flat, rows, new)
        return self._with(ids, _rebuilt_cells(self.table, self.cells, rows, new))

    def equals(self, other: _State) -> bool:
        one, two = self.aligned(other)
        return bool((one._flat == two._flat).all() and (one.cells == two.cells).all())


# Terms of states --------------------------------------------------------------------------


def _exchanged(table: TermTable, operator: Any, ones: Array, others: Array) -> Array:
    """The operands `others`, exchanged where that makes more of them alike, and they may be."""
    if operator.name not in COMMUTATIVE:
        return others
    mine, theirs = table.code[ones], table.code[others]
    exchanged = (mine == theirs[:, ::-1]).sum(axis=1) > (mine == theirs).sum(axis=1)
    return np.where(exchanged[:, None], others[:, ::-1], others)


def _distinct(one: Array, other: Array) -> tuple[Array, Array]:
    """Pairs of terms, or of cells, each once, and which of them each pair is."""
    order = np.lexsort((other, one))
    pairs = np.column_stack((one[order], other[order]))
    new = np.ones(len(pairs), np.bool_)
    new[1:] = (pairs[1:] != pairs[:-1]).any(axis=1)
    back = np.empty(len(pairs), np.int64)
    back[order] = np.cumsum(new) - 1
    return pairs[new], back


def _stated(table: TermTable, one: Array, other: Array, depth: int = 0) -> Array:
    """Terms after t periods, from those after none and after one; of what has no common form a variable."""
    if (table.item_bytes[table.code[one]] != table.item_bytes[table.code[other]]).any():
        raise _refused("not-periodic", "a loop carries values of two types")
    pairs, back = _distinct(one, other)
    given = pairs[:, 0].copy()
    first, second = pairs.T
    first[...], second[...] = _of_one_type(table, first, second)
    found = first.copy()
    left = first != second
    for operator, chosen in table.groups(first):
        chosen = chosen[left[chosen] & (table.code[second[chosen]] == table.code[first[chosen]])]
        size = operator.arity
        ones, others = table.rows(first[chosen], size), table.rows(second[chosen], size)
        integers = operator.dtype.kind in "iu" and operator.dtype.itemsize >= 4
        if operator.name in (CONSTANT, COUNT) and not integers:
            continue
        if operator.name == CONSTANT:
            ones, others = forms(table, first[chosen])[0], forms(table, second[chosen])[0]
        if operator.name in (CONSTANT, COUNT) or (is_leaf(operator.name) and size == 3):
            # A number b + p (t + r) of this launch that moved by d in the first period: b + (d + p) t + p r.
            good = (ones[:, 1] == ones[:, 2]) & (ones[:, 1:] == others[:, 1:]).all(axis=1)
            rows = ones + np.outer(others[:, 0] - ones[:, 0], [0, 1, 0])
            chosen, rows = chosen[good], rows[good]
            if is_leaf(operator.name) and size == 3 and operator.name != COUNT:
                found[chosen] = table.make_rows(operator.name, operator.dtype, rows)
            else:
                found[chosen] = counted(table, operator.dtype, rows)
        elif is_leaf(operator.name) or depth > _DEEPEST:
            continue
        else:
            others = _exchanged(table, operator, ones, others)
            inner = _stated_cells if operator.name in (JOIN, BYTE) else _stated
            operands = inner(table, ones.reshape(-1), others.reshape(-1), depth + 1)
            found[chosen] = made_again(table, operator, operands.reshape(-1, size))
        left[chosen] = False
    for operator, chosen in table.groups(first):
        chosen = chosen[left[chosen]]
        if len(chosen):
            found[chosen] = table.make_rows(ANY, operator.dtype, pairs[chosen])
    return _as_types_of(table, given, found)[back]


def _of_one_type(table: TermTable, one: Array, other: Array) -> tuple[Array, Array]:
    """Terms as what they are the bits of, in pairs; constants in the type of what they stand beside.

    A register that holds 0, then i32(x + y): 0.0 and x + y, as in a program that has types."""
    first, second = table.bare(one), table.bare(other)
    constant = table.is_constant(second)
    second[constant] = _as_types_of(table, first, second)[constant]
    return _as_types_of(table, second, first), second


def _as_types_of(table: TermTable, like: Array, terms: Array) -> Array:
    """The bits of terms, in the types of others."""
    found = terms.copy()
    for operator, chosen in table.groups(like):
        found[chosen] = table.bitcast(terms[chosen], operator.dtype)
    return found


def _stated_cells(table: TermTable, one: Array, other: Array, depth: int = 0) -> Array:
    pairs, back = _distinct(one, other)
    first, second = pairs.T
    found = first.copy()
    places = (1 << PLACES) - 1
    whole = (pairs >= 0).all(axis=1) & (first & places == second & places)
    sizes = [table.item_bytes[table.code[np.where(whole, side >> PLACES, 0)]] for side in pairs.T]
    whole &= (sizes[0] == sizes[1]) & (first != second)
    ids = _stated(table, first[whole] >> PLACES, second[whole] >> PLACES, depth)
    found[whole] = (ids << PLACES) | (first[whole] & places)
    parts = ~whole & (first != second)
    if parts.any():
        ids = table.make_rows(ANY_BYTE, np.dtype(np.uint8), pairs[parts])
        found[parts] = ids << PLACES
    return found[back]


def _bind(
    table: TermTable, stated: Array, found: Array, new: dict[int, int], depth: int = 0
) -> None:
    """Find values of the variables in `stated` with which it is `found`, if there are any."""
    pairs, _ = _distinct(table.bare(stated), found)
    for operator, chosen in table.groups(pairs[:, 0]):
        mine, theirs = pairs[chosen].T
        theirs = table.bitcast(theirs, operator.dtype)
        if operator.name == ANY_BYTE:
            _note(new, mine, theirs << PLACES)
        elif operator.name == ANY:
            _note(new, mine, theirs)
        elif not is_leaf(operator.name) and depth <= _DEEPEST:
            same = table.code[theirs] == table.code[mine]
            ones, others = (table.rows(side[same], operator.arity) for side in (mine, theirs))
            others = _exchanged(table, operator, ones, others)
            inner = _bind_cells if operator.name in (JOIN, BYTE) else _bind
            inner(table, ones.reshape(-1), others.reshape(-1), new, depth + 1)


def _bind_cells(
    table: TermTable, stated: Array, found: Array, new: dict[int, int], depth: int = 0
) -> None:
    pairs, _ = _distinct(stated, found)
    pairs = pairs[pairs[:, 0] >= 0]
    free = table.named(ANY_BYTE)[table.code[pairs[:, 0] >> PLACES]]
    _note(new, pairs[free, 0] >> PLACES, pairs[free, 1])
    rest = pairs[~free & (pairs[:, 1] >= 0)] >> PLACES
    _bind(table, rest[:, 0], rest[:, 1], new, depth)


def _note(new: dict[int, int], variables: Array, values: Array) -> None:
    for variable, value in zip(variables.tolist(), values.tolist(), strict=True):
        if new.setdefault(variable, value) != value:
            raise _refused("not-periodic", "what was equal in a loop is not after a period")


def _rebuilt(
    table: TermTable, ids: Array, rows: Rows, new: dict[int, int], depth: int = 0
) -> Array:
    """Terms with other numbers of periods, and other values of variables."""
    if depth > _DEEPEST:
        raise _refused("not-periodic", "a term is nested too deep")
    terms, back = np.unique(ids, return_inverse=True)
    found = terms.copy()
    for operator, chosen in table.groups(terms):
        mine, size = terms[chosen], operator.arity
        if operator.name == COUNT:
            found[chosen] = counted(table, operator.dtype, rows(table.rows(mine, 3)))
        elif operator.name == ANY:
            found[chosen] = [new.get(term, term) for term in mine.tolist()]
        elif operator.name == ANY_BYTE:
            cells = np.array([new.get(term, term << PLACES) for term in mine.tolist()])
            found[chosen] = table.join(cells[:, None], operator.dtype)
        elif is_leaf(operator.name):
            if size == 3:
                moved = rows(table.rows(mine, 3))
                found[chosen] = table.make_rows(operator.name, operator.dtype, moved)
        else:
            inner = _rebuilt_cells if operator.name in (JOIN, BYTE) else _rebuilt
            operands = inner(table, table.rows(mine, size).reshape(-1), rows, new, depth + 1)
            found[chosen] = made_again(table, operator, operands.reshape(-1, size))
    return found[back.reshape(-1)]


def _rebuilt_cells(
    table: TermTable, cells: Array, rows: Rows, new: dict[int, int], depth: int = 0
) -> Array:
    found = cells.copy()
    terms = cells >= 0
    free = terms.copy()
    free[terms] = table.named(ANY_BYTE)[table.code[cells[terms] >> PLACES]]
    found[free] = [new.get(cell >> PLACES, cell) for cell in cells[free].tolist()]
    rest = terms & ~free
    found[rest] = in_cells(cells[rest], lambda ids: _rebuilt(table, ids, rows, new, depth))
    return found


# Copies in flight -------------------------------------------------------------------------


def _phases(unit: Any) -> list[Any]:
    """What the running phases of mbarriers still wait for, but for how many are over: waits ask for their parity."""
    mbarriers = unit.launch.mbarriers
    return [
        (
            *(one.phase % 2, address, one.count, one.pending, one.bytes),
            sorted(warp for warp, phase in one.arrived.items() if phase == one.phase),
        )
        for address, one in (() if mbarriers is None else mbarriers.at.items())
    ]


def _known(unit: Any, carried: Any) -> tuple[Any, ...]:
    """What detector and queues know, but for how long ago it was: equal where the same races will be seen."""
    launch, detector = unit.launch, unit.launch.detector
    detector.cover_memory()
    now = detector.now(np.arange(len(detector.write_epoch)))
    written, read = detector.write_epoch == now, detector.read_epoch == now
    # Races are judged by the kind of an op: the copies of the prologue and of the kernel are alike.
    kinds = np.array([
        4 * one.row.by_wave + 2 * one.is_strong + one.is_async for one in detector.sites
    ])  # fmt: skip
    shadow = [
        launch.memory.live, detector.pending_writes, detector.pending_reads, written, read,
        *(np.where(written, one, NOBODY) for one in (
            detector.write_thread, kinds[detector.write_site],
        )),
        *(np.where(read, one, NOBODY) for one in (
            detector.reader, kinds[detector.reader_site],
            detector.second_reader, kinds[detector.second_site],
        )),
    ]  # fmt: skip
    flights = [
        (
            int(kinds[one.site]),
            one.is_proxy,
            *(part.tobytes() for part in (one.lanes, one.covered, one.moved, one.released)),
        )
        for one in detector.in_flight
    ]
    places = [where.tobytes() for one in detector.in_flight for *_, where in one.reads + one.writes]
    queues = [
        _queue(fifo, [fifo.thread_marks, unit.frame.marks.get(name)])
        for name, fifo in sorted(unit.queues.fifos.items())
    ]
    tokens = []
    for token in _tokens(carried):
        fifo = unit.queues.fifos[token.queue]
        marks = unit.frame.marks.get(token.queue, fifo.thread_marks)
        tokens.append((fifo.issued.shape, (marks.count - token.number).tobytes()))
    return (
        [part.tobytes() for part in shadow],
        *(flights, places, queues, tokens),
        _clocks(launch, written),
        _registers(unit, carried, kinds),
    )


def _clocks(launch: Any, written: Array) -> list[Any]:
    """What warps know of each other, and which copies their mbarriers brought.

    Of an agent's ticks nothing is asked but their order: what was seen has a smaller one than what is known. Of the phases of an mbarrier,
    whether the one before the running one is known, too."""
    detector = launch.detector
    if not isinstance(detector, ClockedDetector):
        return []
    clock, barriers = detector.clock, launch.mbarriers.at.values()
    last = np.zeros(clock.known.shape[1], np.int64)
    last[: clock.warps] = clock.ticks
    for one in barriers:
        last[clock.column(np.array([one.agent, one.ends]))] = one.phase
    writers = np.where(written, clock.column(detector.write_thread), NOBODY)
    found: list[Any] = [detector.unfenced.tobytes(), detector.readers.tobytes()]
    for column in range(len(last)):
        ticks = [
            *(last[[column]], last[[column]] - 1, clock.known[:, column], clock.near[:, column]),
            *(
                known[column : column + 1]
                for one in barriers
                for known in (one.gathered, one.released)
            ),
            *(detector.reads[:, detector.readers == column].T + 1),
            np.where(writers == column, detector.write_tick + 1, 0),
        ]
        found.append(np.unique(np.concatenate(ticks), return_inverse=True)[1].tobytes())
    flights = detector.in_flight
    for one in barriers:
        over = [(one.phase - phase, flights.index(copy)) for phase, copy in one.over]
        found.append((one.is_fenced, [flights.index(copy) for copy in one.landed], over))
    return found


def _registers(unit: Any, carried: Any, kinds: Array) -> list[Any]:
    """What products do to the registers of values, and threads did since the last fence."""
    if unit.registers is None:
        return []
    values = (*(unit.frame.values[key] for key in sorted(unit.frame.values)), carried)
    flights, found = unit.launch.detector.in_flight, [unit.registers.fenced.tobytes()]
    for number, array in enumerate(arrays_in(values)):
        touched, product = unit.registers.known.get(id(array)), _product(unit, array)
        if touched is not None:
            found.append(
                (number, int(kinds[touched.site]), touched.unfenced.tobytes(), touched.how)
            )
        if product is not None:
            found.append((number, flights.index(product)))
    return found


def _queue(fifo: Fifo, marks: list[Marks | None]) -> tuple[Any, ...]:
    """Ops in flight and the marks that cover them, counted from the last op."""
    ages = [fifo.issued - one.ordinal for one in fifo.pending]
    counted_ages = [
        fifo.counted[one.counter] - one.rank for one in fifo.pending if one.counter is not None
    ]
    oldest = np.max([np.ones_like(fifo.issued), *ages], axis=0) + 1
    lanes = np.arange(len(fifo.issued))
    of_marks = []
    for one in filter(None, marks):
        for back in range(int(one.count.max())):
            position = one.count - 1 - back
            age = fifo.issued - one.ordinals[np.maximum(position, 0), lanes]
            age = np.minimum(np.where(position < 0, oldest, age), oldest)
            of_marks.append(age.tobytes())
            if (age == oldest).all():
                break
    ends = [
        np.minimum(fifo.issued - one, oldest) for one in (fifo.covered, fifo.read, fifo.committed)
    ]
    return tuple([part.tobytes() for part in (*ages, *counted_ages, *ends)] + of_marks)
