"""mbarriers of nvgpu and nvvm, and fences for the async proxy.

Both dialects name an mbarrier by the address of its 8 bytes in workgroup memory; nvgpu adds its
number in a group. What an operand is says the row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe.bindings.raw_ops import users
from mlir_async_pipe.machine.barrier_phases import Commit, Mbarrier
from mlir_async_pipe.machine.decode import Execute, Site, Unit, semantics
from mlir_async_pipe.machine.dialects.async_ops import refuse_in_scope
from mlir_async_pipe.machine.kinds import BOOL
from mlir_async_pipe.machine.lane_values import Array, MemRef, lanes_of, uniform
from mlir_async_pipe.machine.long_arrays import moves
from mlir_async_pipe.vocabulary import groups_of, meets_whole_warp, use_of
from mlir_async_pipe.vocabulary.barriers import FENCE_ROWS, WAVE_BARRIER
from mlir_async_pipe.vocabulary.launch_ids import ALL_LANES
from mlir_async_pipe.vocabulary.mbarrier_ops import (
    ARRIVAL_IN_LDS,
    PARITY_OF_STATE,
    PHASE_ROWS,
    POLL,
    fenced_by,
    is_counted,
    is_relaxed,
    number_of_mbarriers,
    released_before,
)
from mlir_async_pipe.vocabulary.mbarrier_ops import MBARRIER_BYTES as BYTES
from mlir_async_pipe.vocabulary.rows import CP_ASYNC

# Where the fields of the state of an mbarrier in LDS begin, and their bits: arrivals that are pending, less one, the phase,
# and the arrivals of a phase, less one (MLIR, amdgpu.ds_barrier_init).
_PARTS_OF_STATE = {
    "pending_count": (0, 29),
    "phase": (29, 3),
    "phase_parity": (29, 1),
    "init_count": (32, 32),
}


class MbarrierOperands:
    """The operands of an mbarrier op by name, for all lanes."""

    def __init__(self, site: Site) -> None:
        groups = groups_of(site.op)
        self._at = {name: found[0] for name, found in groups.items() if len(found)}

    def of(self, unit: Unit, operands: tuple[Any, ...], name: str, default: int = 0) -> Array:
        """The operand called `name`, `default` where the op has none."""
        given = operands[self._at[name]] if name in self._at else uniform(default)
        return np.asarray(lanes_of(given, unit.width).astype(np.int64))

    def addresses(self, unit: Unit, operands: tuple[Any, ...]) -> Array:
        memory = operands[self._at["barrier"]]
        given = memory.address if isinstance(memory, MemRef) else memory
        first = lanes_of(given, unit.width).astype(np.int64)
        return first + BYTES * self.of(unit, operands, "index")

    def each(
        self, unit: Unit, site: Site, operands: tuple[Any, ...], lanes: Array | None = None
    ) -> list[tuple[Mbarrier, Array]]:
        """The mbarriers that active lanes, or these, name, each with its lanes."""
        lanes = unit.active() if lanes is None else lanes
        return each_mbarrier(unit, site, self.addresses(unit, operands), lanes)

    def lanes(self, unit: Unit, operands: tuple[Any, ...]) -> Array:
        """The active lanes whose predicate holds."""
        return unit.active() & self.of(unit, operands, "predicate", 1).astype(np.bool_)


@semantics("nvgpu.mbarrier.create")
def create(site: Site) -> Execute:
    """A group of mbarriers, once a block."""
    size = BYTES * number_of_mbarriers(site.result_type())

    def execute(unit: Unit) -> Array:
        buffer = unit.launch.shared_buffer(unit, site.number, size, "mbarriers", site.place)
        return uniform(buffer.base)

    return execute


@semantics("nvgpu.mbarrier.get")
def get(site: Site) -> Execute:
    operands = MbarrierOperands(site)
    return lambda unit, *given: operands.addresses(unit, given)


@semantics("nvgpu.mbarrier.init", "nvvm.mbarrier.init", "amdgpu.ds_barrier_init")
def init(site: Site) -> Execute:
    """Each lane sets up its mbarrier, once; two lanes that set up one race."""
    operands = MbarrierOperands(site)

    def execute(unit: Unit, *given: Array) -> None:
        refuse_in_scope(unit, site)
        launch, lanes = unit.launch, operands.lanes(unit, given)
        chosen = np.flatnonzero(lanes)
        if not len(chosen):
            return
        addresses = operands.addresses(unit, given)[chosen]
        counts = operands.of(unit, given, "arrivals")[chosen]
        launch.detector.write(site.number, unit.grid_threads(chosen), _granules(unit, addresses))
        known = [launch.mbarriers.at.get(int(address)) for address in addresses]
        for lane, before in zip(chosen, known, strict=True):
            if before is not None:
                unit.report("initialised-again", site, lane, before.site)
        for lane, address, count in zip(chosen, addresses, counts, strict=True):
            buffer = launch.memory.buffer_at(int(address))
            first = address if buffer is None else buffer.base
            name = f"mbarrier {(address - first) // BYTES}{launch.here}"
            made = launch.mbarriers.init(int(address), name, site.number, int(count))
            made.rank, made.warp = unit.rank, int(warps_of(unit, np.array([lane]))[0])

    return execute


_ARRIVALS = ("arrive", "arrive.nocomplete", "arrive.expect_tx")


@semantics(
    *(f"{dialect}.mbarrier.{name}" for dialect in ("nvgpu", "nvvm") for name in _ARRIVALS),
    "nvvm.mbarrier.expect_tx",
)
def arrive(site: Site) -> Execute:
    """Each lane arrives, or announces bytes, or both; the result is the phase that it arrived in."""
    operands, comes = MbarrierOperands(site), use_of(site.op) != "announce"
    gives, releases = len(site.op.results) > 0, comes and not is_relaxed(site.op)
    is_number = any(users(result) for result in site.op.results)

    def execute(unit: Unit, *given: Array) -> Any:
        refuse_in_scope(unit, site)
        if is_number:
            _refuse_late_phases(unit)
        lanes = operands.lanes(unit, given)
        arrivals = operands.of(unit, given, "arrivals", int(comes))
        sizes = operands.of(unit, given, "bytes")
        phases = np.zeros(unit.width, np.int64)
        for barrier, chosen in operands.each(unit, site, given, lanes):
            phases[chosen] = barrier.phase
            count, size = int(arrivals[chosen].sum()), int(sizes[chosen].sum())
            if barrier.rank != unit.rank:
                where = _granules(unit, operands.addresses(unit, given)[chosen])
                unit.launch.detector.touch(site.number, unit.grid_threads(chosen), where)
            released = warps_of(unit, chosen if releases else chosen[:0])
            if not unit.launch.mbarriers.arrive(barrier, released, count, size):
                unit.report("too-many-arrivals", site, chosen[0], barrier.site)
        return phases if gives else None

    return execute


@semantics(*(row.op for row in PHASE_ROWS if row.phase == "arrive_after"))
def arrive_after_copies(site: Site) -> Execute:
    """Each lane arrives when all cp.async that its thread has issued are over; the phase counts one arrival more of each
    until then, if it does not count these anyway."""
    operands, counted = MbarrierOperands(site), is_counted(site.op)

    def execute(unit: Unit, *given: Array) -> None:
        refuse_in_scope(unit, site)
        launch = unit.launch
        # Of those before, an arrival on another mbarrier tells, which comes first: nobody is told twice.
        pending = unit.queues.pending()
        copies = [op for op in pending if op.queue == CP_ASYNC and not op.on_mbarrier]
        for barrier, chosen in operands.each(unit, site, given):
            mine = unit.mask_of(chosen)
            issued = [op for op in copies if (op.lanes & mine).any()]
            if any((op.lanes & ~mine).any() for op in issued):
                raise site.unsupported("arrivals of some of the threads that copied together")
            for operation in issued:
                operation.on_mbarrier = True
            if not counted:
                barrier.pending += len(chosen)
            tells = np.zeros(launch.mbarriers.clock.known.shape[1], np.int32)
            thread = int(unit.grid_threads(chosen[:1])[0])
            made = Commit(barrier, issued, tells, site.number, thread, len(chosen))
            launch.mbarriers.commit(made, warps_of(unit, chosen))

    return execute


def _refuse_late_phases(unit: Unit) -> None:
    """A loop that is followed to all trip counts knows of a phase no more than its parity."""
    if unit.launch.memory.induction is not None:
        raise moves("the number of a phase")


def _state(barrier: Mbarrier, taken: Array) -> Array:
    """The state of an mbarrier after some more arrivals of the running phase."""
    phase, count = barrier.phase & 7, barrier.count - 1
    shifts = [_PARTS_OF_STATE[name][0] for name in ("pending_count", "phase", "init_count")]
    pending = np.asarray(barrier.pending - 1 - taken, np.int64)
    return pending << shifts[0] | phase << shifts[1] | count << shifts[2]


@semantics(ARRIVAL_IN_LDS)
def arrive_in_lds(site: Site) -> Execute:
    """Each lane arrives so often; the result is the state before."""
    operands, releases = MbarrierOperands(site), not is_relaxed(site.op)
    if released_before(site.op) is None:
        raise site.unsupported("an arrival in LDS whose fence does not stand right before it")

    def execute(unit: Unit, *given: Array) -> Array:
        refuse_in_scope(unit, site)
        _refuse_late_phases(unit)
        states = np.zeros(unit.width, np.int64)
        arrivals = operands.of(unit, given, "arrivals")
        for barrier, chosen in operands.each(unit, site, given):
            counts = arrivals[chosen]
            states[chosen] = _state(barrier, np.cumsum(counts) - counts)
            released = warps_of(unit, chosen if releases else chosen[:0])
            if not unit.launch.mbarriers.arrive(barrier, released, int(counts.sum()), 0):
                raise site.unsupported("more arrivals than a phase counts")
        return states

    return execute


@semantics(POLL)
def poll(site: Site) -> Execute:
    """The state of an mbarrier; each lane acquires what the phases that are over brought."""
    operands = MbarrierOperands(site)
    of_parity = any(user.name == PARITY_OF_STATE for user in users(site.op.results[0]))

    def execute(unit: Unit, *given: Array) -> Array:
        refuse_in_scope(unit, site)
        _refuse_late_phases(unit)
        states = np.zeros(unit.width, np.int64)
        for barrier, chosen in operands.each(unit, site, given):
            states[chosen] = _state(barrier, np.zeros(len(chosen), np.int64))
            _pass(unit, site, barrier, chosen, asks=of_parity)
        return states

    return execute


@semantics(*(f"amdgpu.ds_barrier_state_{part}" for part in _PARTS_OF_STATE))
def part_of_state(site: Site) -> Execute:
    at, bits = _PARTS_OF_STATE[site.name.removeprefix("amdgpu.ds_barrier_state_")]
    kind = BOOL.dtype if bits == 1 else np.int64
    return lambda unit, state: (state >> at & (1 << bits) - 1).astype(kind)


@semantics("nvgpu.mbarrier.try_wait.parity", "nvvm.mbarrier.try_wait.parity")
def wait(site: Site) -> Execute:
    """Each lane stops until the running phase of its mbarrier has the other parity."""
    operands = MbarrierOperands(site)

    def execute(unit: Unit, *given: Array) -> None:
        refuse_in_scope(unit, site)
        unit.tick()
        parities = operands.of(unit, given, "phase") % 2
        waiting = [
            (barrier, lanes[parities[lanes] == parity], int(parity))
            for barrier, lanes in operands.each(unit, site, given)
            for parity in np.unique(parities[lanes])
        ]
        for barrier, _, _ in waiting:
            _refuse_of_others(unit, site, barrier)

        def passes() -> bool:
            return all(barrier.phase % 2 != parity for barrier, _, parity in waiting)

        blocking = [barrier for barrier, _, parity in waiting if barrier.phase % 2 == parity]
        unit.launch.scheduler.block(unit, site, blocking, passes)
        for barrier, chosen, _ in waiting:
            _pass(unit, site, barrier, chosen)

    return execute


@semantics(*(row.op for row in PHASE_ROWS if row.phase == "test" and row.op != POLL))
def test(site: Site) -> Execute:
    """Whether a phase is over: that of a parity (32 bits), or that of an arrival. Refused where the
    lanes of a unit ask for different mbarriers."""
    operands = MbarrierOperands(site)
    groups = groups_of(site.op)
    of_parity = str(site.operand_type(groups["phase"][0])) == "i32"
    acquires = not is_relaxed(site.op)

    def execute(unit: Unit, *given: Array) -> Array:
        refuse_in_scope(unit, site)
        launch, phases = unit.launch, operands.of(unit, given, "phase")
        over = np.zeros(unit.width, BOOL.dtype)
        for barrier, chosen in operands.each(unit, site, given):
            _refuse_of_others(unit, site, barrier)

            def is_over(barrier: Mbarrier = barrier, chosen: Array = chosen) -> Array:
                if of_parity:
                    return np.asarray(barrier.phase % 2 != phases[chosen] % 2)
                return np.asarray(barrier.phase > phases[chosen])

            # Who asks again and again must see it come true some day.
            asks = site.number, int(unit.threads[chosen[0]]), barrier.phase
            if not is_over().all() and asks in barrier.asked:
                launch.mbarriers.force([barrier])
            barrier.asked.add(asks)
            over[chosen] = is_over()
            if over[chosen].any() and acquires:
                _pass(unit, site, barrier, chosen[over[chosen]])
        return over

    return execute


def _refuse_of_others(unit: Unit, site: Site, barrier: Mbarrier) -> None:
    """Threads wait for mbarriers of their own block (PTX ISA, mbarrier.try_wait: shared::cta)."""
    if barrier.rank != unit.rank:
        raise site.unsupported("a wait for an mbarrier of another block")


def _pass(unit: Unit, site: Site, barrier: Mbarrier, lanes: Array, asks: bool = True) -> None:
    """A wait passes in some lanes, which `asks` for a parity: what came there is theirs now."""
    if not unit.launch.mbarriers.waited(barrier, warps_of(unit, lanes)) and asks:
        detail = f"{barrier.name} is in phase {barrier.phase}"
        unit.report("phase-overtaken", site, lanes[0], barrier.site, detail=detail)


def each_mbarrier(
    unit: Unit, site: Site, addresses: Array, lanes: Array
) -> list[tuple[Mbarrier, Array]]:
    """The mbarriers that the lanes name, each with its lanes; they must see its init."""
    chosen = np.flatnonzero(lanes)
    found = []
    for address in np.unique(addresses[chosen]):
        mine = chosen[addresses[chosen] == address]
        barrier = unit.launch.mbarriers.at.get(int(address))
        if barrier is None:
            unit.report("barrier-not-initialised", site, mine[0])
            continue
        if not barrier.seen or not barrier.seen.issuperset(warps_of(unit, mine).tolist()):
            where = _granules(unit, np.full(len(mine), address))
            unit.launch.detector.check_visible(site.number, unit.grid_threads(mine), where)
        found.append((barrier, mine))
    return found


def warps_of(unit: Unit, lanes: Array) -> Array:
    """The warps of the block, or of its cluster, that lanes of a unit belong to."""
    return np.unique(unit.launch.in_cluster(unit)[lanes] // unit.warp)


def _granules(unit: Unit, addresses: Array) -> Array:
    return np.asarray(unit.launch.detector.granules(addresses, BYTES))


def check_ready(unit: Unit, site: Site, address: int, lane: int) -> Mbarrier | None:
    """The mbarrier at an address for a copy that a lane issues: its init must be fenced."""
    found = each_mbarrier(unit, site, np.full(unit.width, address), unit.mask_of(lane))
    if not found:
        return None
    where = _granules(unit, np.array([address]))
    unit.launch.detector.check_fence(site.number, unit.grid_threads([lane]), where)
    return found[0][0]


# Fences and what else stands around --------------------------------------------------------


@semantics(*(row.op for row in FENCE_ROWS if row.shows_writes))
def fence(site: Site) -> Execute:
    """What the active lanes wrote is there for the async proxy too."""
    assert site.row.fence is not None
    shows = site.row.fence.shows
    shown = fenced_by(site.op, site.row.fence)

    def execute(unit: Unit) -> None:
        launch = unit.launch
        if launch.mbarriers is None:
            return
        lanes = np.flatnonzero(unit.active())
        threads = unit.grid_threads(lanes)
        known = np.array([at for at in launch.mbarriers.at if at >= 0], np.int64)
        set_up = _granules(unit, known).reshape(-1) if len(known) else known
        launch.detector.fence(threads, shown, set_up)
        if shows == "all":
            return
        warps = set(warps_of(unit, lanes).tolist())
        for barrier in launch.mbarriers.at.values():
            barrier.is_fenced |= barrier.warp in warps
        launch.detector.fence_own(threads, set_up)

    return execute


@semantics("nvvm.elect.sync")
def elect(site: Site) -> Execute:
    """True in one active lane of each warp: the first."""
    return lambda unit: unit.mask_of(unit.first_lanes())


@semantics("nvvm.bar.warp.sync", WAVE_BARRIER)
def warp_barrier(site: Site) -> Execute:
    """The lanes of a warp meet, if the mask names all of them. Of some, nothing is known; nor of those of a wave without
    fences of all memory around it."""
    in_order = site.name != WAVE_BARRIER or meets_whole_warp(site.op)

    def execute(unit: Unit, *masks: Array) -> None:
        mask = masks[0] if masks else uniform(ALL_LANES)
        named = lanes_of(mask, unit.width).astype(np.int64) & ALL_LANES == ALL_LANES
        named &= in_order
        warps = unit.threads // unit.warp
        for warp in np.unique(warps[unit.active()]):
            lanes = warps == warp
            if (named & unit.active())[lanes].all():
                unit.launch.detector.meet_warp(unit.grid_threads(lanes))

    return execute
