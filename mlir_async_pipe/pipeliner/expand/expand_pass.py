"""Rewrites scheduled loops into prologue, kernel and epilogue with versioned buffers.

    scf.for %k = 0 to %K step 32 {               prologue: copies of iterations 0 … S-2
      copy A[%k] -> %a {stage 0, async}          scf.for %k = … iter_args(slots, tokens) {
      group, wait, barrier                 -->     wait, barrier
      use %a {stage 2}                             copy A[%k + 64] -> %a[%slot_in]; group
      barrier                                      use %a[%slot_out]
    }                                            }
                                                 epilogue: wait, use, twice

Waits are token waits without counts: `async-pipe-count-waits` makes them exact. All loops
are planned before the first edit; a loop that cannot be pipelined is an error and leaves
the module as it was. Inner loops are expanded before outer ones.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    KERNEL_OPS,
    Operation,
    ancestors,
    function_name,
    is_function,
    operations,
    unchanged,
)
from mlir_async_pipe.bindings.run_on_copy import run_on_copy
from mlir_async_pipe.chips.target import Chip, ChipOptions, target_for
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import Roles
from mlir_async_pipe.facts.loops.transactions import has_transactions
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings, refusal
from mlir_async_pipe.pipeliner.expand.residuals import Residuals, plan_residuals, write_residuals
from mlir_async_pipe.pipeliner.expand.stores_pass import mark_stores
from mlir_async_pipe.pipeliner.expand.wave_turns import asks_for_turns, check_block
from mlir_async_pipe.pipeliner.expand.wide_stores import (
    WidePlan,
    plan_wide_stores,
    write_own_wide_stores,
    write_wide_stores,
)
from mlir_async_pipe.pipeliner.expand.write.versioned_buffers import Rooms
from mlir_async_pipe.pipeliner.expand.write.write_loop import place_unexpanded, write_loop
from mlir_async_pipe.pipeliner.expand.write.write_ring import write_ring
from mlir_async_pipe.pipeliner.expand.write.write_roles import write_roles
from mlir_async_pipe.pipeliner.expand.write.write_tiles import Nest, find_nest, overlap
from mlir_async_pipe.pipeliner.normalise.guarded_stores import take_apart_copies
from mlir_async_pipe.pipeliner.plan.barrier_pairs import BarrierPair
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan
from mlir_async_pipe.pipeliner.plan.make_plan import Limits, Plan, Tiles, make_plan, share_barriers
from mlir_async_pipe.pipeliner.plan.memory_limit import register_budget, registers_of, remark_excess
from mlir_async_pipe.pipeliner.plan.ring_plan import RingPlan, SharedRing, plan_ring, share_rings
from mlir_async_pipe.pipeliner.plan.role_block import refuse
from mlir_async_pipe.pipeliner.plan.role_plan import part_kernels, share_registers
from mlir_async_pipe.pipeliner.plan.sync_state import Filling, filling
from mlir_async_pipe.pipeliner.schedule.by_count import remark_registers, through_registers, write
from mlir_async_pipe.session.diagnostics import (
    AsyncPipeError,
    Diagnostics,
    InputError,
    PipelineError,
    Place,
    UsageError,
    refusing,
)
from mlir_async_pipe.session.passes import register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary.launch_ids import (
    CLUSTER_SIZES,
    Size,
    cluster_size,
    set_cluster_size,
)


@dataclass(frozen=True)
class ExpandOptions(ChipOptions):
    """Options of `async-pipe-expand`: those of `mlir_async_pipe.pipeline` that are no schedule's."""

    smem_limit: int = 0
    assume_noalias_arguments: bool = False
    overlap_outer: bool = False
    roles: Roles = field(default="auto", metadata={"choices": names.CHOICES[names.ROLES]})
    cluster: str = ""


@register("async-pipe-expand", "expand scheduled loops into pipelines", ExpandOptions)
def run(module: Any, options: ExpandOptions, session: Session) -> None:
    """Plan every scheduled loop, then expand them, inner loops first.

    Outer loops can only be planned when the inner ones are expanded, so nests are expanded in a
    copy, which the module becomes in the end: an error leaves it as it was."""
    target, noalias = target_for(options, session), options.assume_noalias_arguments
    limits = Limits.of(options.smem_limit, target, noalias)
    loops = names.scheduled_loops(module)
    if options.cluster:
        _give_clusters(loops, options.cluster)
    if len(names.innermost(loops)) == len(loops) and not options.overlap_outer:
        _Expander(module, options, limits, session).expand(loops)
        return
    said = session.silent()

    def expand_nests(copy: Any) -> None:
        nests = _Expander(copy, options, limits, said)
        joined = nests.overlap_all() if options.overlap_outer else []
        nests.expand(names.scheduled_loops(copy), joined)

    run_on_copy(module.operation, expand_nests)
    session.take(said)


@dataclass(frozen=True)
class _Expander:
    module: Any
    options: ExpandOptions
    limits: Limits
    session: Session

    def expand(
        self, loops: list[Operation], joined: Iterable[tuple[Operation, Tiles]] = ()
    ) -> None:
        """Expand `loops`; those in `joined` are written as loops over tiles."""
        limits, session = self.limits, self.session
        while loops:
            inner = names.innermost(loops)
            around, rings, plans = self._planned(inner)
            with unchanged():
                numbering = ir.AsmState(self.module.operation)
                made = share_barriers([plan for _, plan in plans if plan is not None], around)
                tiles = [next((t for loop, t in joined if loop == p.loop), None) for p in made]
                made = [replace(plan, tiles=own) for plan, own in zip(made, tiles, strict=True)]
                records = [record_of(plan, numbering) for plan in made]
                blocks = [around.launch_size(plan.loop) for plan in made]
                budgets = [
                    register_budget(p.loop, limits.chip) if limits.chip else None for p in made
                ]
                wide = plan_wide_stores(made, limits, around, session)
                spent = sum(each.own_bytes for each in wide)
                residuals = plan_residuals(made, limits, around, session, spent)
            for loop, found in plans:
                if found is None:
                    place_unexpanded(loop)
                    names.forget(loop)
            for each in (plan for ring in rings for plan in ring):
                session.record("loops", ring_record(each, numbering))
                self._remark_ring(each)
            # Of groups with tiles of their own one stores while the other one multiplies.
            together = [plan for ring in rings for plan in ring if not plan.beside]
            mark_stores([(*plan.outer, plan.loop)[0] for plan in together])
            for stores in wide:
                if stores.buffer is None:
                    write_own_wide_stores(stores)
            wide = [stores for stores in wide if stores.buffer is not None]
            carried = _write_round(made, rings, wide, residuals, self.module)
            for record, block, budget, taken in zip(records, blocks, budgets, carried, strict=True):
                session.record("loops", replace(record, carried_registers=taken))
                if budget is not None:
                    remark_excess(taken, budget, block, record.place, session.diagnostics)
            # Only loops around those that have been expanded are left.
            more = len(inner) < len(loops)
            loops = names.scheduled_loops(self.module) if more else []

    def _planned(
        self, loops: list[Operation]
    ) -> tuple[Surroundings, list[SharedRing], list[tuple[Operation, Plan | None]]]:
        """The plans of loops of which none holds another. One that is refused for its versions goes through
        registers if its schedule leaves that open, and all are planned once more."""
        diagnostics = self.session.diagnostics
        while True:
            around, said = Surroundings(self.limits.chip), len(diagnostics.items)
            try:
                with unchanged():
                    tensors = [loop for loop in loops if has_transactions(loop)]
                    rings = self._rings(tensors, around)
                    of_groups = [loop for loop in loops if loop not in tensors]
                    for loop in of_groups:
                        _check_roles(loop, self.limits.chip)
                    plans = [(loop, self._plan(loop, around)) for loop in of_groups]
                return around, rings, plans
            except PipelineError as error:
                refused = len(diagnostics.items)
                if not _goes_through_registers(error, self.limits, self.session):
                    raise
                del diagnostics.items[said:refused]

    def _plan(self, loop: Operation, around: Surroundings) -> Plan | None:
        try:
            return make_plan(loop, self.limits, self.session.diagnostics, around)
        except AsyncPipeError as error:
            refused = refusal(error, loop, around)
            refused.loop = loop
            raise refused from error

    def _rings(self, loops: list[Operation], around: Surroundings) -> list[SharedRing]:
        plans, limits = [], self.limits
        for loop in loops:
            beside = tuple(other for other in loops if other != loop)
            with refusing(loop):
                noalias, roles = limits.noalias_arguments, self.options.roles
                plans.append(plan_ring(loop, noalias, around, roles, beside))
        rings = share_rings(part_kernels(plans, around), limits.workgroup_bytes, around)
        return share_registers(rings, limits.chip, around)

    def _remark_ring(self, ring: RingPlan) -> None:
        """Say with how many threads a kernel is to be launched, where a ring is smaller than asked, and which phases
        of the input nobody knows."""
        remark, roles = self.session.diagnostics.remark, ring.roles
        if roles is not None and ring.loop == roles.loops[0] and not roles.block.launches:
            block = roles.block
            groups = f"{block.groups} groups of " if block.groups > 1 else ""
            remark(
                f"the kernel is to be launched with {block.grown} threads: {block.copying} copy, beside "
                f"{groups}the {block.threads} of the input",
                code="roles-launch",
                at=ring.loop,
            )
        if ring.ahead < ring.asked_ahead:
            remark(
                f"{ring.ahead} tiles are copied ahead instead of {ring.asked_ahead}, on {ring.versions} "
                f"slots, to fit {self.limits.workgroup_bytes} bytes of workgroup memory",
                code="fewer-slots",
                at=ring.loop,
            )
        for wait in ring.undecided:
            remark(
                f"whether '{wait.name}' waits for the phase of its tile is not known; that of the "
                "pipeline takes its place",
                code="input-phase-unknown",
                at=wait,
            )

    def overlap_all(self) -> list[tuple[Operation, Tiles]]:
        """Rewrite every nest of a scheduled loop in a sequential one that can overlap; returns the loops, and what
        each will be written as.

        Tried on a copy first: where the loop over all steps of all tiles has no legal plan, because
        what stands after the inner loop may touch what the next tile's copies read, the tiles stay
        apart and a remark says why."""
        found = []
        for number in range(len(names.innermost(names.scheduled_loops(self.module)))):
            inner = names.innermost(names.scheduled_loops(self.module))[number]
            nest = find_nest(inner)
            why = self._rehearsed(number) if isinstance(nest, Nest) else nest
            if why:
                said = f"the next tile cannot start before this one ends: {why}"
                self.session.diagnostics.remark(said, code="outer-not-overlapped", at=inner)
            elif isinstance(nest, Nest):
                found.append(overlap(nest))
        return found

    def _rehearsed(self, number: int) -> str:
        """Why the one loop for a nest could not be pipelined, "" if it can."""
        copy = self.module.operation.clone(ip=False)
        same = find_nest(names.innermost(names.scheduled_loops(copy))[number])
        assert isinstance(same, Nest)
        loop, _ = overlap(same)
        try:
            plan = make_plan(loop, self.limits, Diagnostics(), Surroundings(self.limits.chip))
        except PipelineError as error:
            return error.diagnostic.message.removeprefix("cannot pipeline: ")
        return "" if plan is not None else "all tiles together are too short"


def _check_roles(loop: Operation, chip: Chip | None) -> None:
    """Only tensor copies leave a warp nothing to do but to name them: 32 lanes that copy by
    cp.async take as many instructions as all did, and wait for what they issued themselves. On AMD two groups
    of waves may take turns that all copy and compute (`wave_turns`)."""
    asked = names.choice(loop, names.ROLES)
    if asked == "ping-pong" and chip is not None and chip.lowering == "rocdl":
        check_block(loop, chip)
    elif asked in names.APART:
        why = (
            "its copies do not complete on mbarriers, so that nobody could wait for another warp's"
        )
        advice = "copy by nvgpu.tma.async.load, or leave the loop to all warps"
        refuse(why, loop, loop, advice=advice)


def _write_round(
    plans: list[Plan],
    rings: list[SharedRing],
    wide: list[WidePlan],
    residuals: list[Residuals],
    module: Any,
) -> list[int]:
    """Write loops of which none holds another; returns the registers that each loop of `plans` carries."""
    of_groups = [(plan.loop, plan.buffers) for plan in plans]
    rooms = Rooms([*of_groups, *((plan.loop, plan.memory) for ring in rings for plan in ring)])
    free = [rooms.of(stores.plan.loop, stores.plan.buffers) for stores in wide]
    carried = []
    for plan in plans:
        in_turn = asks_for_turns(plan.loop)
        read_after = next((each for each in residuals if each.plan is plan), None)
        if read_after is not None:
            read_after.mark()
        kernel = write_loop(plan, rooms.of(plan.loop, plan.buffers))
        if read_after is not None:
            write_residuals(read_after, kernel)
        if in_turn:
            kernel.attributes[names.ROLES] = ir.StringAttr.get("ping-pong", kernel.context)
        carried.append(registers_of((value.type for value in kernel.results), plan.buffers))
    # Those of a kernel whose copies warps of their own issue are written together.
    kernels: dict[Operation, list[SharedRing]] = {}
    for ring in rings:
        roles = ring[0].roles
        kernels.setdefault(ring[0].loop if roles is None else roles.block.kernel, []).append(ring)
    for together in kernels.values():
        own = [[rooms.of(plan.loop, plan.memory) for plan in ring] for ring in together]
        if together[0][0].roles is None:
            write_ring(together[0], own[0])
        else:
            write_roles(together, own)
    for stores, buffers in zip(wide, free, strict=True):
        write_wide_stores(stores, buffers)
    rooms.close(module)
    return carried


# What forbids several versions of a buffer, but not loads into registers.
VERSION_CODES = ("smem-limit", "not-privatisable", "escapes", "buffer-not-versionable")


def _goes_through_registers(error: PipelineError, limits: Limits, session: Session) -> bool:
    """Schedule a loop anew whose buffers cannot have the versions that asynchronous copies need, so that it
    loads into registers; False if it cannot.

        plan: refused, smem-limit    -->    remark through-registers; the schedule that loads into
        {else_registers = 3}                registers, where buffers keep one version or two

    The schedule says which loops leave the form open (`async_pipe.else_registers`, in how many stages)."""
    loop = error.loop
    if loop is None or error.code not in VERSION_CODES:
        return False
    found = names.read_loop(loop)
    if found.else_registers is None:
        return False
    asked = replace(found, num_stages=found.else_registers, stage_through="registers")
    decision = through_registers(loop, asked, session, Surroundings(limits.chip), limits)
    if decision is None:
        take_apart_copies(loop)
        decision = through_registers(loop, asked, session, Surroundings(limits.chip), limits)
    if decision is None:
        return False
    for op in operations(loop.regions[0].blocks[0]):
        names.remove(op, (names.ASYNC,))
    write(decision)
    why = error.diagnostic.message.removeprefix("cannot pipeline: ")
    remark_registers(decision, why, error.diagnostic.place, session)
    return True


def _give_clusters(loops: Iterable[Operation], asked: str) -> None:
    """Let kernels have clusters of `asked` blocks, "x,y,z", where nobody in the module says how large they are;
    only those whose loops copy by tensor maps: others have nothing to copy for other blocks.

    Raises UsageError (bad-usage), InputError (cluster-conflict)."""
    size = _asked_size(asked)
    copying = [list(ancestors(loop)) for loop in loops if has_transactions(loop)]
    kernels = dict.fromkeys(next(op for op in above if op.name in KERNEL_OPS) for above in copying)
    for kernel in kernels:
        known = cluster_size(kernel)
        if known not in (None, size) or not (known or is_function(kernel)):
            what = f"of {' x '.join(map(str, known))} blocks" if known else "that it does not name"
            raise InputError(
                f"clusters of {' x '.join(map(str, size))} blocks are asked for, and this "
                f"'{kernel.name}' has clusters {what}",
                code="cluster-conflict",
                at=kernel,
                advice="leave the option out, or let the kernel and its launches say the same",
            )
    for kernel in kernels:
        if is_function(kernel) and not any(name in kernel.attributes for name in CLUSTER_SIZES):
            set_cluster_size(kernel, size)


def _asked_size(asked: str) -> Size:
    parts = [part.strip() for part in asked.split(",")]
    if len(parts) > 3 or not all(part.isdecimal() and int(part) for part in parts):
        why = f"'{asked}' is no size of clusters"
        raise UsageError(why, code="bad-usage", advice="write the blocks along x, y and z: 2,1,1")
    x, y, z = [*map(int, parts), 1, 1][:3]
    return x, y, z


# What the report holds of a pipelined loop: its buffers and why they have their versions, its
# barriers and what they separate.


@dataclass(frozen=True)
class BufferRecord:
    """One versioned buffer in the report; bytes of one slot and of all versions.

    The loop writes it first in `write_stage`, at `write_place`, and touches it last in
    `last_stage`, at `last_place`: V versions let an iteration's slot be written again V iterations
    later. `extra_wait`: there are fewer than the loosest waits want.
    """

    buffer: str
    versions: int
    slot_bytes: int
    bytes: int
    extra_wait: bool
    write_stage: int
    write_place: Place
    last_stage: int
    last_place: Place


@dataclass(frozen=True)
class SeparatedPair:
    """Two ops that barriers of the loop keep apart: `second` may meet what another thread did
    with `first` in the same step, or `lag` steps before. `pairs` of ops of these names do."""

    first: str
    first_place: Place
    second: str
    second_place: Place
    lag: int
    pairs: int


@dataclass(frozen=True)
class LoopRecord:
    """One pipelined loop in the report.

    `function` is the name of the function around it. `filling` says what keeps the counts of a queue steady that several stages share,
    `carried_registers` are those of 32 bits, in each thread, of the values that travel from step
    to step.
    """

    place: Place
    function: str
    stages: int
    groups_per_iteration: int
    trip_count: int | None
    wait_at: str
    short_trip: str
    filling: Filling
    buffers: tuple[BufferRecord, ...]
    barriers: tuple[SeparatedPair, ...] = ()
    carried_registers: int = 0


def record_of(plan: Plan, numbering: Any) -> LoopRecord:
    """The report's entry; `numbering` (ir.AsmState) has the names of all values."""
    return LoopRecord(
        Place.of(plan.loop),
        function_name(plan.loop),
        plan.last_stage + 1,
        len(plan.groups),
        plan.trip_count,
        plan.wait_at,
        plan.short_trip,
        filling(plan.synchronisation),
        tuple(_touched(plan, buffer, numbering) for buffer in plan.buffers),
        _separated(plan),
    )


def _touched(plan: Plan, buffer: BufferPlan, numbering: Any) -> BufferRecord:
    """A buffer, with its first write in an iteration and the last op that touches it."""

    def place(region: CoveredRegion) -> tuple[int, int]:
        unit = plan.units.unit_of(region.top)
        return unit.stage, unit.position

    writes = [region for region in buffer.regions if region.writes] or buffer.regions[:1]
    first, last = min(writes, key=place), max(buffer.regions, key=place)
    return _buffer_record(buffer, numbering, (place(first)[0], first.op), (place(last)[0], last.op))


def _separated(plan: Plan) -> tuple[SeparatedPair, ...]:
    """The pairs that need a barrier, those of ops of the same names reported as one."""
    alike: dict[Any, list[BarrierPair]] = {}
    for pair in plan.barriers:
        key = pair.first.ops[0].name, pair.second.ops[0].name, pair.lag
        alike.setdefault(key, []).append(pair)
    found = []
    for (first, second, lag), pairs in alike.items():
        at, then = (Place.of(unit.ops[0]) for unit in (pairs[0].first, pairs[0].second))
        found.append(SeparatedPair(first, at, second, then, lag, len(pairs)))
    return tuple(found)


def ring_record(plan: RingPlan, numbering: Any) -> LoopRecord:
    """The same of a loop of tensor copies."""
    # A product reads its tile until a wait says that it is over; other readers come after the phase.
    use = (*plan.products.waits, *(each.wait for each in plan.transactions))[0]
    return LoopRecord(
        Place.of(plan.loop),
        function_name(plan.loop),
        plan.ahead + 1,
        len(plan.transactions),
        plan.trip_count,
        "consumer",
        "predicate",
        Filling(0, 0),
        tuple(
            _buffer_record(buffer, numbering, (0, buffer.regions[0].op), (plan.ahead, use))
            for buffer in plan.buffers
        ),
    )


def _buffer_record(
    buffer: BufferPlan, numbering: Any, write: tuple[int, Operation], last: tuple[int, Operation]
) -> BufferRecord:
    """`write` and `last` are a stage and the op in it."""
    return BufferRecord(
        buffer.root.describe(numbering),
        buffer.versions,
        buffer.slot_bytes,
        buffer.versions * buffer.slot_bytes,
        buffer.extra_wait,
        write[0],
        Place.of(write[1]),
        last[0],
        Place.of(last[1]),
    )
