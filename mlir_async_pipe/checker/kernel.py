"""Checks one kernel: builds its graph, follows all paths, sorts the findings."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, cached_property, partial
from typing import Any

from mlir_async_pipe.bindings.raw_ops import (
    ancestors,
    defining_op,
    is_block_argument,
    operations,
    outermost,
    symbol_name,
    unchanged,
    walk_named,
)
from mlir_async_pipe.checker.budget import POINTS, SYMBOLIC_POINTS, Budget, BudgetError, of_steps
from mlir_async_pipe.checker.commit_groups import Groups
from mlir_async_pipe.checker.conflicts import Cause, Finding, Findings, Judge
from mlir_async_pipe.checker.effects import Effects, ReliedBarriers
from mlir_async_pipe.checker.explore import Explorer
from mlir_async_pipe.checker.flag_orders import MEMORY_ORDER, AwaitedFlags, FlagOrders, Points
from mlir_async_pipe.checker.forms import Atom, AtomRange
from mlir_async_pipe.checker.grid_blocks import GridBlocks, grid_of
from mlir_async_pipe.checker.hazards import CheckSummary
from mlir_async_pipe.checker.kernel_flow import build
from mlir_async_pipe.checker.overlap import Answers, Comparer
from mlir_async_pipe.checker.owners import Owners
from mlir_async_pipe.checker.partings import is_barrier
from mlir_async_pipe.checker.path_values import PathValues
from mlir_async_pipe.checker.phase_faults import FaultCode, FoundFault, causes
from mlir_async_pipe.checker.phases.cluster_blocks import is_of_cluster
from mlir_async_pipe.checker.phases.followed_kernel import Followed, OrderedByPhases, Step, follow
from mlir_async_pipe.checker.phases.global_memory import find_global_memory
from mlir_async_pipe.checker.phases.mbarrier_state import Does
from mlir_async_pipe.checker.precision import Precision, RefineError, Rung, refined
from mlir_async_pipe.checker.promises import NO_PROMISES, CheckOptions
from mlir_async_pipe.checker.selection import (
    Callees,
    callable_functions,
    is_about_threads,
    names_in,
)
from mlir_async_pipe.checker.sites import Roots, Site, Sites
from mlir_async_pipe.checker.step_graph import Flow, Run
from mlir_async_pipe.checker.thread_divergence import by_what_is_handed_on
from mlir_async_pipe.checker.thread_grid import ThreadRange, Threads
from mlir_async_pipe.checker.unfollowed import REASON, lost_steps, reason_of, unfollowed
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.facts.values.same_values import METADATA
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.vocabulary import groups_of, row_of
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS
from mlir_async_pipe.vocabulary.launch_ids import (
    LARGEST_BLOCK,
    Launches,
    Size,
    axes_read,
    block_size,
    enclosing_launch_size,
    lanes_of_triton,
    largest_block,
    launches_below,
    sizes_of,
    usual_lanes,
)
from mlir_async_pipe.vocabulary.memory_names import ADDRESS_OF_MEMREF
from mlir_async_pipe.vocabulary.op_table import INLINE_ASSEMBLY
from mlir_async_pipe.vocabulary.rows import CP_ASYNC, WGMMA


@dataclass(frozen=True)
class KernelVerdict:
    """What was found in one kernel. `findings` name entries of `sites` and `ops`; `unfinished` are sites whose copies
    may be in flight when it ends, `left` those of them to memory that is live after it. `in_scope` are groups, waits
    and barriers that run inside an async scope, and `relied_on` barriers without which something would race (numbers of
    `ops`). `roles` says what threads do with mbarriers that take paths of their own; `one_value` are sites of stores at
    which the lanes of a warp store one value to one place."""

    findings: tuple[Finding, ...]
    left: tuple[int, ...]
    unfinished: tuple[int, ...]
    in_scope: tuple[int, ...]
    relied_on: frozenset[int]
    sites: list[Any]
    ops: list[Any]
    summary: CheckSummary
    roles: tuple[RoleUse, ...] = ()
    one_value: tuple[int, ...] = ()


@dataclass(frozen=True)
class ModuleKernels:
    """What kernels of a module share: its functions by name, the block sizes with which it launches them, the sizes of
    their grids and clusters, and whether there is assembly, so that products in it may name registers."""

    callees: Callees
    launches: Launches
    grids: Launches
    clusters: Launches
    has_assembly: bool


def surroundings(module: Any, found: list[Any]) -> ModuleKernels:
    """Read a module once, for all the kernels that were `found` in it."""
    root = outermost(found[0]) if found else None
    launches = [] if root is None else launches_below(root)
    assembly = root is not None and bool(walk_named(root, INLINE_ASSEMBLY.__eq__))
    blocks, grids, clusters = (
        sizes_of(launches, extent) for extent in ("block", "grid", "cluster")
    )
    return ModuleKernels(callable_functions(module), blocks, grids, clusters, assembly)


def threads_of(
    kernel: Any,
    target: Target | None,
    around: ModuleKernels | None = None,
    *,
    several: bool = False,
) -> Threads:
    """The block that runs a kernel: its known size, else whether it knows of threads at all.

    A function without thread ids, barriers and a known size is run by one thread. Axes of a block of unknown size that
    neither the kernel nor a function of its module reads have one, unless there are `several` along all of them.
    """
    is_launch = kernel.name == "gpu.launch"
    inside = operations(kernel.regions[0].blocks[0])[0] if is_launch else kernel
    size = (
        enclosing_launch_size(inside)
        if is_launch
        else block_size(kernel, around.launches if around is not None else None)
    )
    stated = lanes_of_triton(kernel) if target is None else target.chip.lanes
    most = LARGEST_BLOCK if is_launch else largest_block(kernel)
    of_lanes = partial(Threads, most=most, sure_lanes=stated or Threads.sure_lanes)
    if size is not None and stated:
        return of_lanes(size, size != (1, 1, 1), stated)
    names = names_in(kernel, around.callees if around is not None else {})
    lanes = stated or usual_lanes(names)
    if size is not None:
        return of_lanes(size, size != (1, 1, 1), lanes)
    if not (is_launch or any(is_about_threads(name) for name in names)):
        return of_lanes((1, 1, 1), False, lanes)
    if several:
        return of_lanes(None, True, lanes, "xyz")
    calls = around is not None and not names.isdisjoint(CALL_OPS)
    called = around.callees.values() if around is not None and calls else ()
    read = axes_read((kernel, *called)) | {0}
    return of_lanes(None, True, lanes, "".join(axis for n, axis in enumerate("xyz") if n in read))


def name_of(kernel: Any) -> str:
    return symbol_name(kernel) or str(kernel.name)


def check_kernel(
    kernel: Any,
    around: ModuleKernels,
    target: Target | None,
    options: CheckOptions = NO_PROMISES,
    *,
    until_found: bool = False,
    each_unfinished: bool = False,
) -> KernelVerdict:
    """Follow all paths of a kernel and give every finding; some of them with `until_found`. Of copies that may
    be in flight at the end those of a prologue may be named by the loop's, but with `each_unfinished`."""
    name = name_of(kernel)
    with unchanged():
        flow = build(kernel, around.callees, around.has_assembly)
        missing = tuple(unfollowed(kernel, flow, around.callees))
        threads = threads_of(kernel, target, around, several=options.assume_several_threads)
        sizes = around.grids, around.clusters
        grid = grid_of(kernel, flow, *sizes, several=options.assume_several_blocks)
        run = _KernelRun(
            kernel,
            name,
            flow,
            missing,
            threads,
            grid,
            target,
            Roots(options.assume_noalias_arguments, options.assume_noalias_maps, flow.passed_in),
            until_found,
        )
        outcome = run.symbolic(each_unfinished)
        return run.slot_by_slot() if outcome is None else outcome


@dataclass(frozen=True)
class _KernelRun:
    """Following all paths of one kernel: with slots as symbols first, which proves most
    kernels, else slot by slot. `missing` are the ops that no path of the graph comes to."""

    kernel: Any
    name: str
    flow: Flow
    missing: tuple[Any, ...]
    threads: Threads
    grid: GridBlocks
    target: Target | None
    roots: Roots
    until_found: bool
    met_across_barriers: Answers = field(default_factory=dict)

    def symbolic(self, each_unfinished: bool) -> KernelVerdict | None:
        """The outcome of a kernel that is safe; None if it must be looked at more closely."""
        budget = self._budget(SYMBOLIC_POINTS)

        def run(precision: Precision) -> KernelVerdict | None:
            explorer = self._explorer(precision, budget, Rung.SYMBOLS)
            explorer.enough = bool
            try:
                explorer.run()
            except BudgetError:
                return None
            judge = explorer.effects.judge
            if judge.findings or (judge.left and explorer.tainted):
                return None
            if each_unfinished and judge.unfinished and explorer.effects.sites.some_alike:
                return None
            return self._tracked(explorer, precision)

        return refined(run)

    def slot_by_slot(self) -> KernelVerdict:
        """The outcome with iteration numbers modulo what slots need."""
        budget, clean = self._budget(POINTS), False

        def without_trust() -> KernelVerdict:
            # What was proven rests on loads that all threads do alike: all of it is asked again.
            nonlocal budget, clean
            budget, clean = self._budget(POINTS), False
            return refined(run, Precision(unlike=True))

        def run(precision: Precision) -> KernelVerdict:
            nonlocal clean
            explorer = self._explorer(precision, budget, Rung.SLOTS)
            trusted, judge = explorer.effects.sites.trusted, explorer.effects.judge
            try:
                explorer.run()
            except BudgetError:
                if trusted:
                    return without_trust()
                self._confirm(explorer, precision.joined(explorer.forgotten), SYMBOLIC_POINTS)
                met = precision.tracked | explorer.effects.owners.shared_roots()
                return self._outcome(explorer, exhausted=True, only=met if clean else None)
            by_paths = any(map(_rests_on_paths, judge.findings.values()))
            if by_paths and precision.joined(explorer.forgotten) != precision:
                raise RefineError(**explorer.forgotten)
            if not trusted.isdisjoint(number for key in judge.findings for number in key[:2]):
                return without_trust()
            self._confirm(explorer, precision, POINTS)
            clean = not (judge.findings or judge.left or judge.in_scope or precision.tracked)
            return self._tracked(explorer, precision)

        return refined(run)

    def _tracked(self, explorer: Explorer, precision: Precision) -> KernelVerdict:
        """The outcome where all memory that other threads touch is tracked. Raises RefineError."""
        shared = explorer.effects.owners.shared_roots()
        if not shared <= precision.tracked:
            raise RefineError(tracked=shared)
        return self._outcome(explorer, exhausted=False)

    def _confirm(self, explorer: Explorer, precision: Precision, points: int) -> None:
        """What was found of widened states on paths that iteration numbers choose, or with a `precision` that the run did
        not have, is an error only if it is found of the first iterations too, each followed by itself."""

        def by_numbers(finding: Finding) -> bool:
            return not finding.loose.isdisjoint(decided)

        def doubtful(finding: Finding) -> bool:
            return finding.certain and (coarse or by_numbers(finding))

        decided, judge = explorer.decided, explorer.effects.judge
        coarse = precision != explorer.precision
        if self.until_found or not any(map(doubtful, judge.findings.values())):
            return
        patient = self._explorer(precision, self._budget(points), Rung.FIRST)

        def unconfirmed(found: Findings) -> list[Finding]:
            decided.update(patient.decided)
            sure = {key for key, one in found.items() if one.certain and not by_numbers(one)}
            return [f for key, f in judge.findings.items() if doubtful(f) and key not in sure]

        patient.enough = lambda found: not unconfirmed(found)
        with suppress(BudgetError, RefineError):
            patient.run()
        for finding in unconfirmed(patient.effects.judge.findings):
            finding.certain, finding.reason = False, "undecided-path"

    def _budget(self, points: int) -> Budget:
        return of_steps(points, len(self.flow.steps()))

    def _explorer(self, precision: Precision, budget: Budget, rung: Rung) -> Explorer:
        roots, tracked, fold = self.roots, precision.tracked, rung is not Rung.SYMBOLS
        chip = self.target.chip if self.target is not None else None
        unlike = precision.unlike or self.grid.in_clusters
        shared = self.threads.several or self.grid.several
        sites = Sites(self.flow, roots, chip, shared, tracked, unlike)
        values = PathValues(
            self.flow, self.threads, roots, self.grid, sites.loads_alike, fold_iterations=fold
        )
        orders = FlagOrders(Points(self.flow), sites.sites, self.grid.in_clusters)
        comparer = Comparer(self.threads, budget)
        handed = cache(partial(self._handed_on, sites))
        judge = Judge(sites.sites, roots, comparer, values.base_facts, orders, tracked, handed)
        groups = Groups(values, sites, self.threads.several)
        flags = AwaitedFlags(self.flow, sites, orders, values.divergence)
        owners = Owners(judge, self.threads, self.grid, self._is_argument, flags, values.limits)
        comparer = Comparer(self.threads, self._budget(0), self.met_across_barriers)
        apart = replace(judge, comparer=comparer)
        effects = Effects(values, sites, judge, groups, owners, ReliedBarriers(apart))
        explorer = Explorer(self.flow, values, effects, budget, precision, rung)
        if self.until_found:
            explorer.enough = bool
        return explorer

    def _handed_on(self, sites: Sites) -> frozenset[int]:
        """The accesses where what threads hand each other decides how many of them come."""
        blocks = by_what_is_handed_on(self.flow, sites.loads_constant).parted
        steps = (step for number in blocks for step in self.flow.blocks[number].steps)
        runs = (step for step in steps if isinstance(step, Run))
        return frozenset(site for run in runs for site in sites.of(run.op, run.frame))

    def _is_argument(self, number: int) -> bool:
        """Whether a value is one number for all blocks: it comes from outside the kernel, or describes global memory that
        does."""
        frame, value = self.flow.values[number]
        if frame or not hasattr(value, "type"):
            return False
        maker = defining_op(value)
        if maker is not None and maker.name in (METADATA, ADDRESS_OF_MEMREF):
            (value,) = maker.operands
            if root_of(value).space != "global":
                return False
        around = value.owner.owner if is_block_argument(value) else value.owner.operation
        if is_block_argument(value):
            return (
                around.operation == self.kernel and value.owner == self.kernel.regions[0].blocks[0]
            )
        return self.kernel not in ancestors(around)

    def _exhausted(self, judge: Judge, sites: Sites, only: frozenset[int] | None) -> None:
        """Nothing is known of accesses, and of barriers, that were not followed to the end.

        `only`: all was safe but for accesses of one barrier interval to these roots.
        """
        rest = {number for number, site in enumerate(sites.sites) if site.matters}
        if only is not None:
            rest = {number for number in rest if sites.sites[number].root in only}
        elif self.threads.several:
            rest |= {sites.opaque(r.op, r.frame) for r in self.flow.runs() if is_barrier(r)}
        for number in sorted(rest - {finding.later for finding in judge.findings.values()}):
            judge.unfollowed(number, "budget", "budget")

    def _outcome(
        self, explorer: Explorer, *, exhausted: bool, only: frozenset[int] | None = None
    ) -> KernelVerdict:
        judge, sites = explorer.effects.judge, explorer.effects.sites
        # What stopped the run early counts, whoever judges the memory later: the rest is not known.
        stopped_by = tuple(judge.findings.values()) if self.until_found else ()
        explorer.effects.owners.judge_blocks()
        explorer.effects.owners.judge_aliases()
        for step in lost_steps(self.flow) if exhausted else explorer.lost:
            judge.unfollowed(sites.opaque(step.op, step.frame), REASON)
        for op in self.missing:
            judge.unfollowed(sites.opaque(op, 0), reason_of(op))
        if exhausted:
            self._exhausted(judge, sites, only)
        may_meet = explorer.effects.owners.may_meet
        followed = ByPhases(judge, sites, self.threads, self.grid, may_meet).run(
            several_blocks=self.grid.several,
            whole=not exhausted and not stopped_by,
            until_found=self.until_found,
        )
        findings = tuple(judge.findings.values()) or stopped_by
        in_scope = tuple(sorted(judge.in_scope))
        return KernelVerdict(
            findings,
            tuple(sorted(judge.left)),
            tuple(sorted(judge.unfinished)),
            in_scope,
            frozenset(explorer.effects.relied.numbers),
            sites.sites,
            sites.ops,
            _summary(self.name, findings, len(in_scope), sites, explorer),
            () if followed is None else tuple(role_uses(self.name, followed)),
            tuple(sorted(judge.one_value)),
        )


def _rests_on_paths(finding: Finding) -> bool:
    """Whether a finding may be of a path that nothing takes: it is an error, or unknown for what paths decide."""
    return finding.certain or finding.cause == "in-flight" or finding.reason == "undecided-path"


def _summary(
    name: str, findings: tuple[Finding, ...], in_scope: int, sites: Sites, explorer: Explorer
) -> CheckSummary:
    unsafe = {f.later for f in findings if f.certain}
    reasons: dict[str, int] = {}
    unknown: set[int] = set()
    for finding in findings:
        if not finding.certain and finding.later not in unsafe | unknown:
            unknown.add(finding.later)
            reasons[finding.reason] = reasons.get(finding.reason, 0) + 1
    unsafe_ops = len(unsafe) + in_scope
    return CheckSummary(name, len(sites.sites), unsafe_ops, len(unknown), reasons, explorer.states)


# Who arrives at which mbarriers, and who waits there: a record for each op of each role.
#
# threads   does       op                              place     group  barriers  arrivals  parities  made
# 0-127     waits      nvgpu.mbarrier.try_wait.parity  k:30:7    0      0, 1, 2   1         0, 1      k:12:5
# 128       announces  nvgpu.mbarrier.arrive.expect_tx k:51:9    0      0, 1, 2   1         0, 1      k:12:5


@dataclass(frozen=True)
class RoleUse:
    """What the threads of one role do at an op: with the mbarriers `barriers` of a `group`, which is
    initialised at `made` (None, and group -1: barriers of threads, by number), of which `arrivals`
    make a phase, in phases of some `parities`."""

    function: str
    threads: str
    does: Does
    op: str
    place: Place
    group: int
    barriers: tuple[int, ...]
    arrivals: int
    parities: tuple[int, ...]
    made: Place | None


def role_uses(function: str, followed: Followed) -> Iterator[RoleUse]:
    """The records of a kernel, by op and role."""
    # Each mbarrier of a group is initialised by an op of its own.
    found: dict[tuple[Any, ...], set[tuple[int, int]]] = {}
    groups = sorted({step.root for step in followed.roles if step.root >= 0})
    for step, seen in sorted(followed.roles.items(), key=lambda entry: entry[0]):
        op = followed.ops[step.op].op
        made = None if step.root < 0 else Place.of(followed.ops[step.init].op)
        group = -1 if step.root < 0 else groups.index(step.root)
        who = (_ranges(step.mask), step.does, op.name, Place.of(op), group, step.needs, made)
        found.setdefault(who, set()).update(seen)
    for (threads, does, name, place, group, needs, made), seen in found.items():
        barriers = tuple(sorted({number for number, _ in seen}))
        parities = tuple(sorted({parity for _, parity in seen}))
        yield RoleUse(function, threads, does, name, place, group, barriers, needs, parities, made)


def _ranges(mask: int) -> str:
    """0-3, 8 of the bits 100001111."""
    found: list[str] = []
    first = None
    for number in range(mask.bit_length() + 1):
        if mask >> number & 1:
            first = number if first is None else first
        elif first is not None:
            found.append(str(first) if first == number - 1 else f"{first}-{number - 1}")
            first = None
    return ", ".join(found)


# Memory of the async proxy -----------------------------------------------------------------------
#
# Memory that tensor copies and products of warpgroups touch: judged by phases, or not claimed.
#
#     nvgpu.tma.async.load … to %tile                    every access to what %tile names
#     nvgpu.warpgroup.generate.descriptor %tile, …      likewise
#     nvvm.wgmma.mma_async %a, %b                        all of workgroup memory
#
# When such a copy has landed is a matter of mbarriers and their phases (docs/phases.md), and when a product has read
# its operands one of the wait for its group; which threads issue them, one of their predicates. The checker's paths
# follow none of these; `phases` has paths that do. Where those were not followed to their end either, what was found is
# no error, and what was not found is not safe. Two generic accesses that race still do.


@dataclass(frozen=True)
class ByPhases:
    """Replaces what was found of such memory by what its phases say. `grid` gives the blocks of a cluster; `may_meet`
    tells whether accesses of some sites, to one root, may touch one place in two threads of a range."""

    judge: Judge
    sites: Sites
    threads: Threads
    grid: GridBlocks
    may_meet: Callable[[set[int], int, ThreadRange], bool]

    @property
    def findings(self) -> Findings:
        return self.judge.findings

    @property
    def runs(self) -> list[Run]:
        return self.sites.flow.runs()

    @cached_property
    def size(self) -> Size | None:
        """The threads of a block, if they are known."""
        return self.threads.size if self.threads.several else (1, 1, 1)

    @cached_property
    def touched(self) -> set[int]:
        """The roots of workgroup memory that tensor copies, descriptors of products and copies on mbarriers name."""
        sites, found = self.sites, {self.sites.sites[number].root for number in self.on_mbarriers}
        for run in self.runs:
            row = run.row
            if row.tensor is not None or (row.queue == WGMMA and row.asynchronous(run.op)):
                # Its descriptors are numbers: they may name any workgroup memory.
                found |= {
                    n for n, root in enumerate(sites.roots.roots) if root.space == "workgroup"
                }
            if row.swizzled:
                memory = run.op.operands[groups_of(run.op)[row.swizzled][0]]
                found.add(sites.roots.number(root_of(memory), run.frame))
        copies = (s for s in sites.sites if is_proxy(s) and s.writes and s.space == "workgroup")
        return found.union(site.root for site in copies)

    @cached_property
    def on_mbarriers(self) -> set[int]:
        """The sites of cp.async, where some complete on mbarriers."""
        if all(run.row.phase != "arrive_after" for run in self.runs):
            return set()
        numbered = enumerate(self.sites.sites)
        return {n for n, site in numbered if site.queue == CP_ASYNC.name and site.writes}

    def run(self, *, several_blocks: bool, whole: bool, until_found: bool) -> Followed | None:
        """None if there is no such memory. `several_blocks`: the grid may have more than one; `whole`: all paths of
        single threads were followed."""
        judge, sites, on_mbarriers = self.judge, self.sites, self.on_mbarriers
        proxies = {number for number, site in enumerate(sites.sites) if is_proxy(site)}
        proxies |= on_mbarriers
        remote = {
            number
            for number, site in enumerate(sites.sites)
            if site.access is not None and is_of_cluster(site.access.memory)
        }
        if not (self.touched or proxies or remote or any(map(_has_phases, self.runs))):
            return None
        copies = self._copies(whole=whole) if on_mbarriers else None
        for key, finding in list(self.findings.items()):
            # Threads that do one op at once no phase orders.
            if proxies & {finding.later, finding.earlier} - on_mbarriers or (
                on_mbarriers & {finding.later, finding.earlier} and finding.cause != "same-op"
            ):
                del self.findings[key]
        more = partial(
            follow,
            sites.flow,
            sites,
            size=self.size,
            cluster=self.grid.cluster,
            until_found=until_found,
        )
        again = partial(more, touched=self.touched, by_threads=copies)
        followed = again()
        unwaited = {
            self._site(followed.ops[fault.later])
            for fault in followed.faults
            if fault.code == "unwaited-copy"
        } & on_mbarriers
        for fault in followed.faults:
            if self._site(followed.ops[fault.later]) not in unwaited:
                self._report(fault, followed.ops)
        reason = followed.reason
        if not reason:
            judge.left -= on_mbarriers - unwaited
            judge.unfinished -= on_mbarriers - unwaited
            self._judge_global(again, followed, several_blocks)
            flat = self.size is not None and self.size[1:] == (1, 1)
            if flat and not self.grid.in_clusters:
                self._judge_alternating(again)
            if whole:
                self._judge_released(more, copies)
            return followed
        unsafe = {finding.later for finding in self.findings.values() if finding.certain}
        for number, site in enumerate(sites.sites):
            if site.access is None:
                continue
            near = number in proxies | remote
            near = near or any(judge.roots.may_alias(site.root, other) for other in self.touched)
            if near and number not in unsafe:
                judge.unfollowed(number, reason, "async-proxy")
        for run in self.runs:
            # Waits on mbarriers may hang or pass too early whatever memory they are for.
            if run.row.phase in ("wait", "test", "poll"):
                judge.unfollowed(
                    sites.opaque(run.op, run.frame, "workgroup"), reason, "async-proxy"
                )
        return followed

    def _judge_global(
        self, again: Callable[..., Followed], near: Followed, several_blocks: bool
    ) -> None:
        """What is wrong with global memory behind tensor maps, in a kernel that was followed to its end
        without it: it is followed `again`. What may follow from the faults of `near` is not reported."""
        in_global = find_global_memory(self.sites, self.sites.flow)
        if in_global is None:
            return
        # Which places of global memory a block has is not followed.
        for one, other in in_global.pairs if several_blocks else ():
            ends = (self._site(one), self._site(other))
            reason = in_global.reason(one, other)
            reason = "other-blocks" if reason == "unknown-place" else reason
            self.judge.unknown(max(ends), min(ends), "other-block", reason)
        found = again(in_global=in_global)
        known = {cause for fault in near.faults for cause in causes(self._ends(fault, near.ops))}
        for fault in found.faults:
            if known.isdisjoint(causes(self._ends(fault, found.ops))):
                doubt = in_global.reason(found.ops[fault.later], found.ops[fault.earlier])
                self._report(fault, found.ops, doubt)
        for run in self.runs if found.reason else ():
            if not run.makes_values and in_global.touched(run):
                self.judge.unfollowed(self._site(run), found.reason, "async-proxy")

    def _judge_alternating(self, again: Callable[..., Followed]) -> None:
        """Accesses to memory of which paths of single threads do not show that roles touch it one after the other: only
        threads that run them together may race there, and these not where they meet in between.

            group 0: store %c[%row, %t mod 64]; nvvm.barrier.arrive id = 1       threads 0 to 63
            group 1: nvvm.barrier id = 1; store %c[%row, %t mod 64]              threads 64 to 127
                     nvvm.barrier id = 2 number_of_threads = 64; load %c[%t mod 64, %row]
        """
        by_root: dict[int, list[tuple[int, int, Cause | FaultCode]]] = {}
        for key, finding in self.findings.items():
            ends = [self.sites.sites[number] for number in key[:2]]
            roots = {site.root for site in ends if site.access}
            plain = not any(site.access is None or site.asynchronous for site in ends)
            in_block = plain and finding.cause in ("missing-barrier", "same-op")
            if in_block and not finding.certain and len(roots) == 1:
                by_root.setdefault(roots.pop(), []).append(key)
        if not by_root:
            return
        found = again(alternating=frozenset(by_root))
        if found.reason or found.faults:
            return
        numbers = {(run.op, run.frame): number for number, run in enumerate(found.ops)}

        def pair_of(key: tuple[int, int, Any]) -> frozenset[int | None]:
            return frozenset(numbers.get(self._step(number)) for number in key[:2])

        met: dict[str, set[frozenset[int | None]]] = {"touches": set(), "overlaps": set()}
        masks: dict[int | None, set[int]] = {}
        for step, others in found.roles.items():
            if step.does in met:
                met[step.does].update(frozenset({step.op, op}) for op, _ in others)
                masks.setdefault(step.op, set()).add(step.mask)
        for root, keys in by_root.items():
            accesses = {number for key in keys for number in key[:2]}
            ops = frozenset[int | None]().union(*map(pair_of, keys))
            if not ops <= masks.keys():
                continue
            ranges = [_ids_of(mask) for mask in set().union(*(masks[op] for op in ops))]
            together = any(self.may_meet(accesses, root, threads) for threads in ranges)
            for key in keys:
                beside = key[2] == "same-op" or pair_of(key) in met["overlaps"]
                if pair_of(key) not in met["touches"] and not (beside and together):
                    del self.findings[key]

    def _judge_released(
        self, again: Callable[..., Followed], known: OrderedByPhases | None
    ) -> None:
        """Accesses to memory that no copy touches, and that something may order beside barriers of the block: phases do, or not.

        store %s[%t]; %p = nvvm.mbarrier.arrive %b; nvvm.mbarrier.test.wait %b, %p, asked until it is over; load %s[%t + 1]
        """

        def is_near(number: int) -> bool:
            site = self.sites.sites[number]
            plain = site.access is not None and not site.asynchronous
            return plain and site.space == "workgroup" and site.root not in self.touched

        found = {key: one for key, one in self.findings.items() if all(map(is_near, key[:2]))}
        # Threads that do one op at once no phase orders.
        some = found and not any(one.certain or one.cause == "same-op" for one in found.values())
        if not some or (known is not None and known.met is None):
            return
        numbers = {number for key in found for number in key[:2]}
        roots = {self.sites.sites[number].root for number in numbers}
        ops, met = frozenset(map(self._step, numbers)), self._met(found.values())
        if known is not None and known.met is not None:
            ops, met = ops | known.ops, {**met, **known.met}
        on_mbarriers = known is not None and known.on_mbarriers
        by_threads = OrderedByPhases(ops, met, on_mbarriers)
        followed = again(touched=self.touched | roots, by_threads=by_threads)
        if not (followed.reason or followed.faults):
            for key in found:
                del self.findings[key]

    def _copies(self, *, whole: bool) -> OrderedByPhases:
        """Copies that complete on mbarriers. Any access may meet them where not the `whole` kernel was followed."""
        copies, found = self.on_mbarriers, list(self.findings.values())
        ops = frozenset(map(self._step, copies))
        if not whole or any(one.cause in ("budget", "unfollowed") for one in found):
            return OrderedByPhases(ops, None, on_mbarriers=True)
        met = self._met(one for one in found if copies & {one.later, one.earlier})
        return OrderedByPhases(ops, met, on_mbarriers=True)

    def _met(self, found: Iterable[Finding]) -> dict[frozenset[Step], bool]:
        """Pairs of accesses of which two threads may touch one byte where nothing but phases can order them, and whether
        they certainly do: paths of single threads do not know phases."""
        met: dict[frozenset[Step], bool] = {}
        for one in found:
            pair = frozenset({self._step(one.later), self._step(one.earlier)})
            met[pair] = met.get(pair, False) or one.certain or one.reason == MEMORY_ORDER
        return met

    def _report(
        self, fault: FoundFault, ops: tuple[Run, ...], doubt: str = "undecided-path"
    ) -> None:
        """A fault as a finding about the two ops; in `doubt` if it is not certain."""
        code, later, earlier = self._ends(fault, ops)
        key = (later, earlier, code)
        known = self.findings.get(key)
        if known is None or (fault.certain and not known.certain):
            reason = "" if fault.certain else fault.doubt or doubt
            example = None
            if fault.example is not None:
                text, loop = fault.example
                example = text, later if loop is None else self.sites.opaque(loop, 0)
            found = Finding(*key, fault.certain, reason, note=fault.note, example=example)
            self.findings[key] = found

    def _ends(self, fault: FoundFault, ops: tuple[Run, ...]) -> tuple[FaultCode, int, int]:
        """What a fault is about, by the numbers of sites."""
        return fault.code, self._site(ops[fault.later]), self._site(ops[fault.earlier])

    def _site(self, run: Run) -> int:
        """The site that stands for an op: an access of it, if it has one."""
        found = self.sites.of(run.op, run.frame)
        return found[-1] if found else self.sites.opaque(run.op, run.frame, "workgroup")

    def _step(self, number: int) -> Step:
        return self.sites.sites[number].op, self.sites.sites[number].frame


def _ids_of(mask: int) -> ThreadRange:
    """Where the threads of a mask are, in a block along x."""
    first = (mask & -mask).bit_length() - 1
    return ((Atom("tid", "x"), AtomRange(first, mask.bit_length() - 1)),)


def is_proxy(site: Site) -> bool:
    """Whether an access is that of a tensor copy, or of a copy that completes on an mbarrier."""
    return row_of(site.op).by_proxy


def _has_phases(run: Run) -> bool:
    """Whether an op is of use to `phases` alone: of mbarriers, barriers of some threads, products, tensor memory."""
    row = run.row
    meets = row.meeting is not None and row.meeting.of == "block"
    return meets or row.phase is not None or row.tensor is not None or row.queue == WGMMA
