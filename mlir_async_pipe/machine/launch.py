"""What all threads of a run share: memory, detector, symbols, limits, barriers, trace."""

from __future__ import annotations

import weakref
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.machine.barrier_phases import Mbarrier, Mbarriers
from mlir_async_pipe.machine.decode import Decoder, Function, Site, Unit
from mlir_async_pipe.machine.detector import Detector
from mlir_async_pipe.machine.fifos import AsyncOp, Queues
from mlir_async_pipe.machine.lane_values import Array, arrays_in, lanes_of, uniform
from mlir_async_pipe.machine.memory import GLOBAL, PRIVATE, WORKGROUP, Buffer, Memory
from mlir_async_pipe.machine.tensor_cells import TensorMemory
from mlir_async_pipe.machine.terms import is_symbolic
from mlir_async_pipe.machine.timeline import Trace, WaitLog
from mlir_async_pipe.machine.warp_clock import ClockedDetector
from mlir_async_pipe.session.diagnostics import MachineError, Place, UsageError
from mlir_async_pipe.vocabulary.launch_ids import block_size, cluster_size

Extent = int | Sequence[int]
# Of a grid along x, the largest that CUDA has (CUDA C++ Programming Guide, "Compute Capabilities").
LARGEST_SIZE = (1 << 31) - 1


def _three(extent: Extent, name: str) -> tuple[int, int, int]:
    given = (extent,) if isinstance(extent, int) else tuple(extent)
    if not 1 <= len(given) <= 3 or any(size < 1 for size in given):
        raise UsageError(f"{name} is {extent}, expected 1 to 3 positive sizes", code="bad-argument")
    if any(size > LARGEST_SIZE for size in given):
        raise UsageError(
            f"{name} is {extent}, expected sizes up to {LARGEST_SIZE}", code="bad-argument"
        )
    x, y, z = (*given, 1, 1)[:3]
    return x, y, z


@dataclass(frozen=True)
class RunOptions:
    """How `run` and `validate` run a function.

    `threads`, `grid`, `cluster`: threads of a block, blocks, and blocks of a cluster, which run together: a number or
    (x, y, z); without `threads` and `cluster` what the function (or its launches) states, else 1.
    `completion`: when copies arrive: "eager" at once, "late" when a wait forces them, "random"
    at a moment drawn with `seed`.
    `schedule`: the order of the threads between two barriers, one of `machine.SCHEDULES`, random ones drawn with `seed`.
    `target`: where the module is going, a `Target` or its text: says which queues share a FIFO.
    `warp`: lanes of a warp, by default the target chip's, else 32.
    `dynamic_shared_bytes`: dynamic workgroup memory of a block in bytes, by default what the
    function states.
    `step_limit`: ops that the run may execute; threads that run together count once.
    """

    threads: Extent | None = None
    grid: Extent = 1
    cluster: Extent | None = None
    completion: str = "eager"
    seed: int = 0
    schedule: str = "lockstep"
    target: Target | str | None = None
    warp: int | None = None
    dynamic_shared_bytes: int | None = None
    step_limit: int = 20_000_000

    @property
    def chip_target(self) -> Target | None:
        """`target` as a Target. Raises UsageError (unknown-target)."""
        return Target.parse(self.target) if isinstance(self.target, str) else self.target

    def launch(self, function: Any) -> LaunchOptions:
        """The launch of a function: an op, or None where there is none. Raises UsageError (bad-argument)."""
        target, known = self.chip_target, function is not None
        threads = self.threads or (block_size(function) if known else None) or 1
        cluster = self.cluster or (cluster_size(function) if known else None) or 1
        return LaunchOptions(
            **{
                **vars(self),
                "threads": _three(threads, "threads"),
                "grid": _three(self.grid, "grid"),
                "cluster": _three(cluster, "cluster"),
                "warp": self.warp or (target.chip.lanes if target is not None else 32),
                "target": target,
            }
        )


@dataclass(frozen=True)
class LaunchOptions(RunOptions):
    """Options of one launch: all sizes are known."""

    threads: tuple[int, int, int] = (1, 1, 1)
    grid: tuple[int, int, int] = (1, 1, 1)
    cluster: tuple[int, int, int] = (1, 1, 1)
    warp: int = 32


@dataclass(eq=False)
class Launch:
    """One run of one function on a grid of blocks.

    Blocks of one cluster run together, and all blocks of a program with flags; `enter` says which
    of them the rest speaks of. They are numbered one after the other, as in their cluster: x fastest.
    """

    decoder: Decoder
    options: LaunchOptions
    memory: Memory
    detector: Detector
    trace: Trace = field(default_factory=Trace)
    waits: WaitLog = field(default_factory=WaitLog)
    block_index: tuple[int, int, int] = (0, 0, 0)
    block_number: int = 0
    # The number of the cluster, and of the block in it; where the threads of the cluster meet.
    cluster_number: int = 0
    rank: int = 0
    cluster_barrier: Any = None
    dynamic_shared_bytes: int | None = None
    depth_limit: int = 200
    scheduler: Any = None
    # The tensors that are behind pointers: the arrays that were passed, or their TensorMaps, by their
    # address.
    tensors: dict[int, Any] = field(default_factory=dict)
    # The bytes of the buffer resources that were made, by their base address.
    resources: dict[int, int] = field(default_factory=dict)
    mbarriers: Any = None
    # The tensor memory of the block, None if the program has none.
    tensor_memory: Any = None
    steps: int = 0
    # For each block of the cluster its workgroup memory.
    _shared: list[dict[tuple[Any, int], Buffer]] = field(default_factory=list)
    _globals: dict[str, tuple[Buffer, Any]] = field(default_factory=dict)
    _freed: dict[int, int] = field(default_factory=dict)
    # The unit whose first lane is traced.
    traced: Unit | None = None

    def __post_init__(self) -> None:
        self.policy = policy_of(self.options.completion, self.options.seed)
        self.random_completion = self.options.completion.startswith("random")
        self.block_size = int(np.prod(self.options.threads))
        self.cluster_size = int(np.prod(self.options.cluster))
        # The blocks that run together: those of a cluster, or all where they wait for each other.
        together = self.follows_flags and self.cluster_size == 1
        self.together = int(np.prod(self.options.grid)) if together else self.cluster_size

    @property
    def follows_flags(self) -> bool:
        """Whether threads of the program tell each other through memory."""
        return isinstance(self.detector, ClockedDetector) and self.detector.flags is not None

    def grid_threads(self, threads: Array) -> Array:
        """Linear ids in the grid of threads of the current block."""
        return (threads + self.block_number * self.block_size).astype(np.int32)

    def unit(self, threads: Array, rank: int = 0) -> Unit:
        """A unit of threads of one block with queues of its own."""
        queues = Queues(len(threads), self.detector, self.policy)
        queues.mbarriers = self.mbarriers
        found = Unit(self, threads, queues, rank=rank)
        rows = [site.row for site in self.decoder.sites]
        if any(row.descriptors and not row.fences_sums for row in rows):
            found.registers = ProductRegisters(len(threads))
        return found

    def begin_cluster(self, number: int, function: Function) -> None:
        """Blocks begin to run together; they have mbarriers, if the program has any."""
        self.cluster_number = number
        self._shared = [{} for _ in range(self.together)]
        self.enter(0)
        self.detector.first_thread = self.block_number * self.block_size
        if isinstance(self.detector, ClockedDetector):
            clock = self.detector.clock
            clock.next_block(self.block_number * self.block_size)
            self.mbarriers = Mbarriers(self.detector, self.policy, clock)
            total = self.together * self.block_size
            self.cluster_barrier = ClusterBarrier(self.mbarriers, total, function.site.number)
            meeting = [site for site in self.decoder.sites if site.meets == "cluster"]
            if meeting and self.together > self.cluster_size:
                raise meeting[0].unsupported("it runs in blocks that wait for each other's flags")
            tensor = [site for site in self.decoder.sites if site.row.tensor]
            if tensor and self.together > 1:
                raise tensor[0].unsupported("it runs in blocks that run alone")
            if tensor:
                self.tensor_memory = TensorMemory(self.detector, clock)

    def enter(self, rank: int) -> None:
        """Go on in the block with this number among those that run together."""
        (cx, cy, cz), (gx, gy, _) = self.options.cluster, self.options.grid
        across, down = gx // cx, gy // cy
        self.rank = rank
        self.block_number = self.cluster_number * self.together + rank
        cluster, rank = divmod(self.block_number, self.cluster_size)
        self.block_index = (
            cluster % across * cx + rank % cx,
            cluster // across % down * cy + rank // cx % cy,
            cluster // (across * down) * cz + rank // (cx * cy),
        )

    @property
    def here(self) -> str:
        """Which block something is of, to follow its name; "" where blocks run alone."""
        return f" of block {self.rank}" if self.together > 1 else ""

    def in_block(self, address: int, rank: int) -> int | None:
        """Where what lies at an address of this block's workgroup memory lies in another block of
        the cluster; None where no such memory is."""
        buffer = self.memory.buffer_at(address)
        known = [key for key, mine in self._shared[self.rank].items() if mine is buffer]
        if buffer is None or not known or not 0 <= rank < self.cluster_size:
            return None
        name, mine = buffer.name.removesuffix(self.here), self.rank
        self.enter(rank)
        there = self.shared_once(known[0], buffer.size, name, buffer.place)
        self.enter(mine)
        return there.base + address - buffer.base

    def workgroup_memory(self, unit: Unit) -> list[Buffer]:
        """The buffers of the block of a unit that are alive."""
        mine = self._shared[unit.rank].values()
        return [buffer for buffer in mine if self.memory.live[buffer.base]]

    def leave(self, unit: Unit) -> None:
        """A unit has ended: nobody waits for it where the threads of the cluster meet."""
        if self.cluster_barrier is not None:
            self.cluster_barrier.leave(self.in_cluster(unit))

    def in_cluster(self, unit: Unit) -> Array:
        """The numbers of a unit's threads in its cluster."""
        return np.asarray(unit.threads + unit.rank * self.block_size)

    def take_steps(self, count: int) -> None:
        """Count executed ops; raises MachineError (step-limit) when there are too many."""
        self.steps += count
        if self.steps > self.options.step_limit:
            raise MachineError(
                f"the program ran for more than {self.options.step_limit} ops",
                code="step-limit",
                advice="raise step_limit, or look for a loop that does not end",
            )

    def trace_of(self, unit: Unit) -> Trace | None:
        """The trace, if this unit is the one that is traced and its first lane is active; a run on data has none."""
        if unit is not self.traced or unit.deferred is not None or is_symbolic(self.memory.data):
            return None
        return self.trace if unit.mask is None or unit.mask[0] else None

    def shared_buffer(self, unit: Unit, key: Any, size: int, name: str, place: Place) -> Buffer:
        """Workgroup memory: one buffer for all units that come here the same time."""
        round_number = unit.rounds.get(key, 0)
        unit.rounds[key] = round_number + 1
        return self.shared_once((key, round_number), size, name, place)

    def shared_once(self, key: Any, size: int, name: str, place: Place) -> Buffer:
        """Workgroup memory that exists once a block."""
        shared = self._shared[self.rank]
        if key not in shared:
            shared[key] = self.memory.allocate(size, WORKGROUP, name + self.here, place)
        return shared[key]

    def dynamic_buffer(self, site: Site) -> Buffer:
        """The block's dynamic workgroup memory; raises MachineError (no-shared-size)."""
        size = self.dynamic_shared_bytes
        if size is None:
            raise MachineError(
                "the size of the dynamic shared memory is not known",
                code="no-shared-size",
                at=site.place,
                advice="pass dynamic_shared_bytes, or set async_pipe.dynamic_shared_bytes",
            )
        return self.shared_once(("dynamic", 0), size, "dynamic shared memory", site.place)

    def global_once(self, name: str, size: int, place: Place, contents: Array | None) -> Buffer:
        """A global outside workgroup memory: it exists once a run."""
        if name not in self._globals:
            buffer = self.memory.allocate(size, GLOBAL, f"@{name}", place, contents)
            self._globals[name] = buffer, self.memory.bytes_of(buffer)
        return self._globals[name][0]

    def global_bytes(self) -> dict[str, tuple[Any, Any]]:
        """What the global variables that the run touched held before it, and hold now, by name."""
        return {
            f"@{name}": (before, self.memory.bytes_of(buffer))
            for name, (buffer, before) in self._globals.items()
        }

    def variable(
        self,
        site: Site,
        name: str,
        size: int,
        contents: Array | None,
        *,
        is_shared: bool,
        is_dynamic: bool,
    ) -> Buffer:
        """A global variable that `site` names: in workgroup memory it exists once a block, else once a run."""
        if is_dynamic:
            return self.dynamic_buffer(site)
        if is_shared:
            return self.shared_once(("global", name), size, f"@{name}", site.place)
        return self.global_once(name, size, site.place, contents)

    def private_memory(
        self, unit: Unit, size: int, name: str, place: Place, space: int = PRIVATE
    ) -> Array:
        """Memory of each thread's own: where it begins."""
        stride = -(-max(size, 1) // 256) * 256
        buffer = self.memory.allocate(stride * (unit.width - 1) + size, space, name, place)
        return np.asarray(buffer.base + stride * np.arange(unit.width))

    def may_free(self, unit: Unit, buffer: Buffer) -> bool:
        """Whether a dealloc by `unit` is the last: workgroup memory is freed by every warp."""
        if buffer.space != WORKGROUP:
            return True
        self._freed[buffer.base] = self._freed.get(buffer.base, 0) + unit.width
        return self._freed[buffer.base] >= self.block_size

    def check_ends(self, function: Function) -> None:
        """Blocks of a cluster must not end before others are done with their memory."""
        if self.cluster_size == 1 or not isinstance(self.detector, ClockedDetector):
            return
        for rank, shared in enumerate(self._shared):
            self.enter(rank)
            first, warps = self.block_number * self.block_size, self._warps_of(rank)
            self.detector.end_block(function.site.number, first, warps, list(shared.values()))

    def end_cluster(self) -> None:
        """Forget the blocks' workgroup memory; nothing orders them against the next."""
        for shared in self._shared:
            for buffer in shared.values():
                self.memory.free(buffer)
        self.detector.next_block()

    def meet(self, rank: int, spaces: tuple[int, ...]) -> None:
        """All threads of a block have met. Those of others that run with it go on as they were."""
        alone = self.cluster_size == 1 and not self.follows_flags
        if alone or not isinstance(self.detector, ClockedDetector):
            self.detector.barrier(spaces)
        else:
            self.detector.clock.meet(self._warps_of(rank), spaces)

    def _warps_of(self, rank: int) -> Array:
        assert isinstance(self.detector, ClockedDetector)
        warps = -(-self.block_size // self.detector.clock.lanes)
        return np.arange(rank * warps, (rank + 1) * warps)

    def attributions(self, unit: Unit, function: Function) -> tuple[Any, ...]:
        made = []
        for number, shape in enumerate(function.attributions):
            view = shape.over(uniform(0), [])
            size = int(shape.extent_bytes(view)[0])
            name = f"attribution {number} of @{function.name}"
            place = function.site.place
            if number < function.workgroup_count:
                key = ("attribution", number)
                base = uniform(self.shared_once(key, size, name, place).base)
            else:
                base = self.private_memory(unit, size, name, place)
            made.append(replace(view, base=base))
        return tuple(made)

    def copies_by_value(
        self, unit: Unit, function: Function, arguments: tuple[Any, ...]
    ) -> tuple[Any, ...]:
        """The arguments of a call, with a copy for each thread of what is passed by value."""
        made = list(arguments)
        for number, size in enumerate(function.by_value):
            if size:
                name = f"argument {number} of @{function.name}"
                made[number] = self.private_memory(unit, size, name, function.site.place)
                given = lanes_of(arguments[number], unit.width)
                for to, source in zip(made[number], given, strict=True):
                    for part in (self.memory.data, self.memory.initialised):
                        part[to : to + size] = part[source : source + size]
        return tuple(made)

    def barrier(self, unit: Unit, site: Site, spaces: tuple[int, ...]) -> None:
        """All threads of the block meet; `spaces` are ordered."""
        if unit.mask is not None and not unit.mask.all():
            unit.report("divergent-barrier", site, int(np.flatnonzero(~unit.mask)[0]))
            return
        self.scheduler.barrier(unit, site, spaces)


# Where all threads of a cluster of blocks meet: each arrives, and waits later.
#
#     cluster.arrive   64 of 128 threads: phase 0 lacks 64 arrivals
#     …                block 1 arrives, or ends: phase 0 is over
#     cluster.wait     passes; what was done before the arrivals has happened before
#
# (PTX ISA, barrier.cluster.) Threads that have ended count as arrived, but tell nothing. Those that arrive
# `relaxed` tell of the mbarriers alone that they have set up and fenced (PTX ISA, fence.mbarrier_init).


# The address of no mbarrier, and the number of no named barrier.
_KEY = -(1 << 30)


class ClusterBarrier:
    """An mbarrier without memory, and for each thread of the cluster the phase that it has arrived in
    and not yet waited for, -1 for none."""

    def __init__(self, mbarriers: Mbarriers, threads: int, site: int) -> None:
        self.mbarriers = mbarriers
        mbarriers.init(_KEY, "barrier of the cluster", site, threads)
        self.barrier: Mbarrier = mbarriers.at[_KEY]
        self.phases = np.full(threads, -1)

    def arrive(self, threads: Array, warps: Array, is_relaxed: bool) -> bool:
        """Threads of `warps` arrive; False if some arrived before and have not waited since."""
        if (self.phases[threads] >= 0).any():
            return False
        self.phases[threads] = self.barrier.phase
        for known in self.mbarriers.at.values():
            if known.is_fenced and known.shown is None and known.warp in warps:
                known.shown = self.barrier.phase
        released = warps[:0] if is_relaxed else warps
        return self.mbarriers.arrive(self.barrier, released, len(threads), 0)

    def is_over(self, threads: Array) -> bool:
        """Whether the threads have arrived, all in phases that are over."""
        phases = self.phases[threads]
        return bool(((phases >= 0) & (phases < self.barrier.phase)).all())

    def waited(self, threads: Array, warps: Array) -> None:
        """Threads of `warps` go on after their wait."""
        for known in self.mbarriers.at.values():
            if known.shown is not None and known.shown <= self.phases[threads].min():
                known.seen.update(warps.tolist())
        self.phases[threads] = -1
        self.mbarriers.waited(self.barrier, warps)

    def leave(self, threads: Array) -> None:
        arrived = int((self.phases[threads] == self.barrier.phase).sum())
        self.mbarriers.leave(self.barrier, arrived, len(threads) - arrived)


# Registers that products of a warpgroup add to: what their threads did to them since the last fence.
#
#     %s = llvm.insertvalue %one, %none[0]    the thread writes a register of %s
#     nvvm.wgmma.fence.aligned                now products may have it
#     %d = nvvm.wgmma.mma_async …, %s         else it adds to what the register held before (NaN, unless eager)
#
# (PTX ISA, wgmma.fence.) A register is the array of its lanes, by identity: what a product of one shape
# filled the next one of that shape may add to; what a thread read or wrote needs a fence. Registers that hold
# nothing yet need one before the first product only. Copies of registers are not distinguished: the checker knows
# those that two products add to.


@dataclass(eq=False)
class TouchedRegister:
    """What an op did last to a register: `how` is the shape of a product, or None. No fence came since in
    the lanes `unfenced`. The register is forgotten when its array no longer `lives`."""

    lives: Any
    site: int
    unfenced: Array
    how: Hashable


class ProductRegisters:
    """The registers of the sums of one unit of so many lanes."""

    def __init__(self, width: int) -> None:
        self.fenced = np.zeros(width, np.bool_)
        self.known: dict[int, TouchedRegister] = {}

    def touch(self, unit: Any, site: Site, value: Any, how: Hashable = None) -> None:
        """An op writes registers, or reads them."""
        for array in arrays_in(value):
            self._know(array, site.number, unit.active().copy(), how)

    def rename(self, old: Any, new: Any) -> None:
        """A register is another array from now on."""
        touched = self.known.get(id(old))
        if touched is not None:
            self._know(new, touched.site, touched.unfenced.copy(), touched.how)

    def _know(self, array: Any, site: int, unfenced: Array, how: Hashable) -> None:
        lives = weakref.finalize(array, self.known.pop, id(array), None)
        lives.atexit = False
        before = self.known.get(id(array))
        if before is not None:
            before.lives.detach()
        self.known[id(array)] = TouchedRegister(lives, site, unfenced, how)

    def fence(self, lanes: Array) -> None:
        """What lanes did to registers comes before products."""
        self.fenced |= lanes
        for touched in self.known.values():
            touched.unfenced &= ~lanes

    def multiply(self, unit: Any, site: Site, sums: Any, shape: Hashable) -> bool:
        """A product adds to registers; whether it has what was written there, else it is reported."""
        lanes = unit.active()
        if (lanes & ~self.fenced).any():
            unit.report("missing-register-fence", site)
            return False
        known = [self.known[id(array)] for array in arrays_in(sums) if id(array) in self.known]
        bad = [t for t in known if (t.unfenced & lanes).any() and t.how != shape]
        for touched in bad[:1]:
            unit.report("missing-register-fence", site, other=touched.site)
        return not bad


# When the data of an async op arrives: the adversary, in three moods.
#
# eager   at the issue
# late    at the wait that covers it, the youngest op of a wait first
# random  at any moment between the two, ops of all queues in any order, source sampled and
#         destination written at separate moments, some lanes before others


COMPLETIONS = ("eager", "late", "random")


class Policy:
    """What the queues ask the adversary. Data arrive as late as the waits allow."""

    poisons = True

    def issued(self, operation: AsyncOp) -> None:
        """An op has just been issued."""

    def tick(self, pending: list[AsyncOp]) -> None:
        """Time passes."""

    def order(self, finished: list[tuple[AsyncOp, Array]]) -> list[tuple[AsyncOp, Array]]:
        """The order in which one wait lets data arrive. The youngest first: inside a group no order is promised, and
        whatever is written twice by two groups in flight is reported as a race anyway."""
        return finished[::-1]


class Eager(Policy):
    """Data arrive at once."""

    poisons = False

    def issued(self, operation: AsyncOp) -> None:
        operation.move(operation.lanes)


class Random(Policy):
    """Data arrive at random moments, from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)

    def issued(self, operation: AsyncOp) -> None:
        self.tick([operation])

    def tick(self, pending: list[AsyncOp]) -> None:
        """With probability 1/4 one op takes one step, in all its lanes or in some."""
        if self.random.random() >= 0.25:
            return
        operation = pending[int(self.random.integers(len(pending)))]
        chosen = operation.lanes & ~operation.moved
        if self.random.random() < 0.5:
            chosen = chosen & (self.random.random(len(chosen)) < 0.5)
        if (chosen & ~operation.sampled).any():
            operation.take(chosen)
        else:
            operation.move(chosen)

    def order(self, finished: list[Any]) -> list[Any]:
        return [finished[int(i)] for i in self.random.permutation(len(finished))]


def policy_of(completion: str, seed: int) -> Policy:
    """The policy called "eager", "late", "random" or "random:SEED".

    Raises UsageError (bad-completion).
    """
    name, _, given = completion.partition(":")
    if name in ("eager", "late") and not given:
        return Eager() if name == "eager" else Policy()
    if name == "random" and (not given or given.isdigit()):
        return Random(int(given) if given else seed)
    raise UsageError(
        f"unknown completion '{completion}'",
        code="bad-completion",
        advice="eager, late, random or random:SEED",
    )
