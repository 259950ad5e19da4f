"""What each op does to mbarriers, queues and memory of a block, with numbers put in.

    nvgpu.mbarrier.arrive.expect_tx %full[%slot], %bytes, predicate = %go
        -> the threads where %go holds arrive at (full, 2), and announce 32768 bytes

What an op is says its row; ops that touch no memory a copy or a
product touches do nothing here. What is not followed says so: then nothing is claimed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from math import prod
from typing import Any

from mlir_async_pipe.bindings.raw_ops import constant_value, parent
from mlir_async_pipe.checker import forms
from mlir_async_pipe.checker.forms import Atom, Form
from mlir_async_pipe.checker.phase_faults import Forgiven, NotFollowedError, PhaseFault
from mlir_async_pipe.checker.phases import byte_places
from mlir_async_pipe.checker.phases.amounts import address_of, address_parts, is_address, threads_of
from mlir_async_pipe.checker.phases.block_memory import BlockMemory
from mlir_async_pipe.checker.phases.byte_places import Asked, BytePlace, ByteRange, OfRanks, Value
from mlir_async_pipe.checker.phases.cluster_blocks import is_of_cluster, landings
from mlir_async_pipe.checker.phases.global_memory import GlobalMemory
from mlir_async_pipe.checker.phases.mbarrier_state import (
    GLOBAL_STORES,
    ByThreads,
    CopyInFlight,
    Touch,
    single,
)
from mlir_async_pipe.checker.phases.memory_bounds import Bounds
from mlir_async_pipe.checker.phases.mending import forgiving
from mlir_async_pipe.checker.phases.path_state import Effect, Spot
from mlir_async_pipe.checker.phases.tensor_state import QUARTERS, Product
from mlir_async_pipe.checker.phases.warp_clocks import LANES, WARP, warps_of
from mlir_async_pipe.checker.poll_loops import AWAITED
from mlir_async_pipe.checker.precision import RefineError
from mlir_async_pipe.checker.sites import Sites
from mlir_async_pipe.checker.step_graph import Run
from mlir_async_pipe.facts.values.memory_roots import columns_after, root_of
from mlir_async_pipe.vocabulary import (
    Row,
    accesses,
    given_count,
    groups_of,
    mbarrier_ops,
    named_row,
    tensor_memory,
)
from mlir_async_pipe.vocabulary.async_ops import DESCRIPTORS
from mlir_async_pipe.vocabulary.barriers import NUMBERS
from mlir_async_pipe.vocabulary.products import (
    ProductForm,
    described_bytes,
    product_form,
    products_left,
)
from mlir_async_pipe.vocabulary.rows import (
    BULK_STORE,
    CP_ASYNC,
    WGMMA,
    Fence,
    Meeting,
    Opaque,
    Phase,
    PhaseUse,
    Tensor,
)
from mlir_async_pipe.vocabulary.tensor_boxes import box_bytes
from mlir_async_pipe.vocabulary.tensor_memory import COLUMNS, LANES_OF_WARP, Cells, moved_columns

# Operands that say nothing of workgroup memory; the first two of global memory.
_ELSEWHERE = ("coordinates", "tensor_map", "ticks")


@dataclass
class OpEffects:
    """The effects of the ops of one kernel. `touched` are the roots that copies and products touch, and `in_global` the
    global memory that is followed with them, if it is. Blocks have `width` threads along x. `ops` are the steps that faults
    may name, by number. Of the roots `alternating` it is noted in which order roles come to them. Faults that are
    `forgiven` end no path. Tests whose answers are followed `apart`, the same in all threads that ask; they may be `mixed`:
    then nothing is proven. Of accesses `by_threads` the order is looked at, too. `until_found`: one fault is enough."""

    sites: Sites
    touched: set[int]
    in_global: GlobalMemory | None = None
    width: int = 1
    ops: list[Run] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)
    alternating: frozenset[int] = frozenset()
    forgiven: Forgiven = field(default_factory=Forgiven)
    apart: frozenset[int] = frozenset()
    mixed: bool = False
    by_threads: ByThreads[int] | None = None
    until_found: bool = False

    def __post_init__(self) -> None:
        self.bounds = Bounds(self.sites, self.number)

    def number(self, run: Run) -> int:
        if id(run) not in self._numbers:
            self._numbers[id(run)] = len(self.ops)
            self.ops.append(run)
        return self._numbers[id(run)]

    def prepare(self, run: Run) -> Effect | None:
        """Read one op once; what it gives runs on a spot. None: it does nothing here."""
        effect = self._effect(run)
        if effect is None or not self.forgiven:
            return effect
        return forgiving(effect, self.number(run), self.forgiven)

    def _effect(self, run: Run) -> Effect | None:
        op, row = run.op, run.row
        if run.makes_values:
            return None
        if not row.described:
            return self.opaque(run)
        if tensor_memory.is_of_two_blocks(op):
            return partial(not_followed, reason="cta-group")
        for effect in row.effects:
            match effect:
                case Tensor():
                    return tensor_effect(run, effect, self)
                case Phase(use):
                    return not_followed if run.maybe or run.variables else self._phase(run, use)
                case Fence(shows, maps) if maps or shows != "nothing":
                    of_map = maps and "address" in groups_of(op)
                    return self._acquire(run) if of_map else _fence_of(op, effect)
                case Meeting():
                    return meeting(run, self.number(run))
                case Opaque():
                    return not_followed if effect.phases else self.opaque(run)
                case Fence():
                    continue
                case _:
                    return not_followed
        if row.barrier is not None:
            of_block = "workgroup" in row.barrier(op)
            return meeting(run, self.number(run)) if of_block else not_followed
        groups = row.queue == CP_ASYNC and not row.accesses and self.has_copies
        if groups or row.queue in (WGMMA, BULK_STORE):
            return not_followed if run.maybe or run.variables else self._queued(run, row)
        access = self.access(run)
        if not self._is_alternating(run):
            return access
        return partial(_touch_alternating, self.number(run), access)

    def _is_alternating(self, run: Run) -> bool:
        """Whether it matters after what threads run an op."""
        roots = (self.root(access.memory, run.frame) for access in accesses(run.op))
        return any(root in self.alternating for root in roots)

    def reads(self, run: Run) -> tuple[int, ...]:
        """The values that an op looks at which does something or names memory; places in global memory do not matter."""
        row = run.row
        names = row.phase is not None or row.swizzled
        alone = self._is_alternating(run) and self.access(run) is None
        if not names and (alone or self.prepare(run) is None):
            return ()
        groups = groups_of(run.op) if row.described else {}
        followed = self.in_global is not None and self.in_global.touched(run)
        elsewhere = _ELSEWHERE[2:] if followed else _ELSEWHERE
        left_out = {n for name in elsewhere for n in groups.get(name, ())}
        return tuple(value for n, value in enumerate(run.operands) if n not in left_out)

    # What the generic proxy does: loads, stores, atomics, cp.async ------------------------------
    #
    # memref.load %ring[%slot, %t]     the threads that are there read these bytes
    # nvvm.cp.async %ring[%slot, %t]   they write these, until they have waited for its group
    # "my.op"(%ring)                   may do anything to them: not followed
    # vector.store %v, %x[%t]          %x is global: looked at if a tensor copy may touch it, too

    @cached_property
    def has_copies(self) -> bool:
        """Whether some cp.async may write what copies and products touch: then its groups matter."""
        sites = self.sites.sites
        roots = {site.root for site in sites if site.queue == CP_ASYNC.name and site.writes}
        return any(map(self._is_near, roots))

    def access(self, run: Run) -> Effect | None:
        op = run.op
        known = self.in_global.touched(run) if self.in_global is not None else ()
        near = [
            access
            for access in accesses(op)
            if is_of_cluster(access.memory)
            or self._is_near(root := self.root(access.memory, run.frame))
            or root in known
        ]
        if not near:
            return None
        queue = run.row.queue
        if any(access.asynchronous for access in near) and (
            queue != CP_ASYNC or any(access.kind != "write" for access in near)
        ):
            return not_followed
        number = self.number(run)

        def execute(spot: Spot) -> None:
            for access in near:
                value = spot.get(run.operands[access.memory_operand])
                if isinstance(value, BytePlace) and access.shares is not None:
                    region = byte_places.region_of_shares(
                        value, access.memory.type, access.shares, spot.threads(), self.width
                    )
                elif isinstance(value, BytePlace):
                    indices = [spot.get(run.operands[n]) for n in access.index_operands]
                    region = byte_places.region_of_access(
                        value, access.memory.type, indices, access.extent, access.contiguous
                    )
                else:
                    region = ByteRange(self.root(access.memory, run.frame))
                if not access.certain:
                    region = region._replace(exact=False)
                self.bounds.check(region, number)
                region = self._as_global(region, run) or region
                if access.asynchronous:
                    spot.memory.issue_write(CP_ASYNC.name, Touch(region, number, spot.threads()))
                elif access.kind != "read" or access.over_lanes:
                    spot.memory.write(Touch(region, number, spot.mask))
                if access.kind != "write":
                    spot.memory.read(Touch(region, number, spot.mask))

        return execute

    def _as_global(self, region: ByteRange, run: Run) -> ByteRange | None:
        """A region as one of global memory that copies touch."""
        if self.in_global is None:
            return None
        region = region._replace(exact=region.exact and not (run.maybe or run.variables))
        return self.in_global.seen(region, run.op)

    def root(self, memory: Any, frame: int) -> int:
        return self.sites.roots.number(root_of(memory), frame)

    def _is_near(self, root: int) -> bool:
        """Whether memory may be what copies and products touch."""
        return any(self.sites.roots.may_alias(root, other) for other in self.touched)

    def opaque(self, run: Run) -> Effect | None:
        """An op outside the vocabulary: not followed if it may reach what copies touch."""
        op = run.op
        if self.sites.is_harmless(op):
            return None
        given = self.sites.roots_given(run)
        if self.in_global is not None and self.in_global.touched(run):
            return not_followed
        near = any(map(self._is_near, self.sites.reachable(op, given)))
        return None if given and not near else not_followed

    # mbarriers ----------------------------------------------------------------------------

    def _phase(self, run: Run, use: PhaseUse) -> Effect | None:
        # Whether a test passes is a matter of its result (`answer`).
        if use == "handle" or (use == "test" and AWAITED not in run.op.attributes):
            return None
        if use == "poll":
            return partial(not_followed, reason="asks-for-a-phase")
        if run.name == mbarrier_ops.ARRIVAL_IN_LDS and not self._releases_all(run):
            return partial(not_followed, reason="memory-order")
        at = operands_of(run)
        if "multicast" in at and use != "copy":
            return not_followed
        number = self.number(run)
        size = None
        if use == "copy":
            # As many bytes as its row says, or its box has.
            said = [one.extent for one in accesses(run.op) if one.kind == "write" and one.extent]
            size = prod(said[0]) if said else box_bytes(run.op)

        def execute(spot: Spot) -> None:
            whole = spot.mask
            mask = spot.where(spot.get(at["predicate"])) if "predicate" in at else spot.threads()
            if not mask:
                return
            try:
                for those in _by_mbarrier(spot.get(at["barrier"]), mask, use):
                    spot.mask = those
                    self._use(spot, run, use, at, number, size)
            except PhaseFault as fault:
                fault.at = self.bounds.mbarrier(spot, at, number)
                raise
            finally:
                spot.mask = whole

        return execute

    def _use(
        self,
        spot: Spot,
        run: Run,
        use: PhaseUse,
        at: dict[str, int],
        number: int,
        box: int | None = None,
    ) -> None:
        """Threads use an mbarrier; a copy moves a `box` of so many bytes, if its operands say no other number."""
        memory, mask = spot.memory, spot.threads()
        key = self.bounds.mbarrier(spot, at, number)
        match use:
            case "init":
                memory.init(key, number, mask, spot.exact(at["arrivals"]))
            case "arrive":
                count = spot.exact(at["arrivals"]) if "arrivals" in at else 1
                try:
                    memory.arrive(key, number, mask, count, 0, not mbarrier_ops.is_relaxed(run.op))
                except PhaseFault as fault:
                    # What becomes of an arrival too many the documents of AMD do not say.
                    if (
                        run.name == mbarrier_ops.ARRIVAL_IN_LDS
                        and fault.found.code == "too-many-arrivals"
                    ):
                        raise NotFollowedError("unknown-number") from fault
                    raise
            case "arrive_after":
                memory.arrive_after_copies(key, number, mask, mbarrier_ops.is_counted(run.op))
            case "expect":
                announced = spot.exact(at["bytes"])
                memory.arrive(key, number, mask, 1, announced, not mbarrier_ops.is_relaxed(run.op))
            case "announce":
                memory.announce(key, number, mask, spot.exact(at["bytes"]))
            case "wait" | "test":
                memory.wait(key, number, mask, spot.parity(at["phase"]))
            case "commit":
                memory.commit_products(key, number, mask)
            case "copy":
                generic = run.row.in_generic_proxy
                if generic and not single(mask):
                    raise NotFollowedError("async-proxy")
                place = spot.place(at["destination"])
                size = spot.exact(at["bytes"]) if "bytes" in at else box
                region = _copied(place, run.op.operands[0].type, size)
                of_each = byte_places.bytes_of_each(place, mask, size)
                if of_each is not None and size is not None:
                    region, size = of_each, size * mask.bit_count()
                sources = self.in_global.read_by(spot, run) if self.in_global is not None else ()
                blocks = spot.exact(at["multicast"]) if "multicast" in at else None
                for there, lands in landings(memory.blocks, blocks, key, region, number):
                    self.bounds.check(lands, number)
                    try:
                        copy = CopyInFlight(lands, size, number, sources)
                        memory.issue_copy(there, mask, copy, of_each is not None)
                    except PhaseFault as fault:
                        # What stands behind a copy by the threads' own proxy is followed as if there were another one.
                        if generic and fault.found.code == "missing-fence":
                            raise NotFollowedError("async-proxy") from fault
                        raise
            case _:
                raise NotFollowedError("async-proxy")

    def _releases_all(self, run: Run) -> bool:
        """Whether the fence before an arrival in LDS, if there is one, is known, and orders all memory that is followed."""
        spaces, followed = mbarrier_ops.released_before(run.op), {"workgroup"}
        if self.in_global is not None:
            followed |= {"global"}
        followed = followed.union(*map(self.sites.roots.spaces, self.alternating))
        return spaces is not None and (not spaces or followed <= spaces)

    def answer(self, run: Run, spot: Spot) -> Value:
        """The result of a test, which is true where the phase is over. Threads that ask once, and wait if it is
        not, all know it in the end, whatever each was told: so the path goes on as one (`Asked`). Else, and in a
        loop that asks again, it splits, if they do not know it anyway."""
        if mbarrier_ops.is_relaxed(run.op):
            raise NotFollowedError("memory-order")
        at, mask, number = operands_of(run), spot.threads(), self.number(run)
        key = self.bounds.mbarrier(spot, at, number)
        phase = spot.memory.asked(key, number, mask, spot.parity(at["phase"]))
        if phase is not None and spot.memory.knows_end(key, mask, phase):
            return self._is_over(run, spot)
        if number not in self.apart and not asks_again(run):
            if phase is None:
                raise RefineError(apart=frozenset({number}))
            return Asked(number, key, phase)
        self.mixed |= not (asks_again(run) or single(mask))
        asked = Atom("bit", ("test", number))
        passes = spot.known.at_least_one(forms.of_atom(asked))
        spot.known.forget(asked)
        return self._is_over(run, spot) if passes else 0

    def _is_over(self, run: Run, spot: Spot) -> int:
        """Threads are told that a phase is over, where a wait would pass; what is wrong then is no certain fault."""
        try:
            self._use(spot, run, "test", operands_of(run), self.number(run))
        except PhaseFault as fault:
            found = fault.found
            if found.code == "deadlock" and not asks_again(run):
                raise NeverAnsweredError from fault
            certain = found.certain and found.code != "deadlock" and asks_again(run)
            raise PhaseFault(found.code, found.later, found.earlier, found.note, certain) from fault
        return 1

    def check_awaited(self, run: Run, spot: Spot, asked: Asked) -> None:
        """Threads have waited that were not told that a phase is over: for that one. Raises RefineError."""
        key = self.bounds.mbarrier(spot, operands_of(run), self.number(run))
        if key != asked.mbarrier or spot.memory.mbarriers[key].over - 1 != asked.phase:
            raise RefineError(apart=frozenset({asked.test}))

    def token(self, run: Run, spot: Spot) -> int | None:
        """The result of an arrival of all threads: the parity of the phase that it came in."""
        at = operands_of(run)
        if spot.mask != spot.memory.everybody:
            return None
        return spot.memory.running_parity(self.bounds.mbarrier(spot, at, self.number(run)))

    # Queues -------------------------------------------------------------------------------

    def _queued(self, run: Run, row: Row) -> Effect | None:
        op, queue = run.op, row.queue
        assert queue is not None and not isinstance(queue, str)
        parts: list[Effect] = []
        if row.descriptors:
            parts.append(self._product(run, row))
        elif row.accesses:
            parts.append(partial(self._store, run))
        left = products_left(op)
        names = (queue.name, GLOBAL_STORES) if queue == BULK_STORE else (queue.name,)
        if row.commits or left is not None:
            parts += [partial(_commit, name) for name in names]
        if row.wait is not None:
            left = given_count(op) or 0
            names = names[:1] if row.wait.completes(op) == "read" else names
        if left is not None:
            parts += [partial(_wait, name, left) for name in names]
        if queue == WGMMA:
            parts.append(_align)
        if not parts:
            return None

        def execute(spot: Spot) -> None:
            for part in parts:
                part(spot)

        return execute

    def _product(self, run: Run, row: Row) -> Effect:
        groups, form = groups_of(run.op), product_form(run.op)
        reads = [
            self.read_by_product(run, DESCRIPTORS.index(name), groups[name][0], form)
            for name in row.descriptors
        ]

        def execute(spot: Spot) -> None:
            for read in reads:
                for touch in read(spot):
                    spot.memory.issue_read("wgmma", touch)

        return execute

    def _store(self, run: Run, spot: Spot) -> None:
        """A copy out of workgroup memory reads its source."""
        groups = groups_of(run.op)
        mask = spot.threads()
        if groups.get("predicate"):
            mask = spot.where(spot.get(run.operands[groups["predicate"][0]]))
        if not mask:
            return
        operand = groups["source"][0]
        place, kind = spot.place(run.operands[operand]), run.op.operands[operand].type
        region = self.bounds.check(_copied(place, kind, box_bytes(run.op)), self.number(run))
        spot.memory.issue_read(BULK_STORE.name, Touch(region, self.number(run), mask))
        if self.in_global is None:
            return
        for written in self.in_global.box(spot, run):
            spot.memory.issue_store(Touch(written, self.number(run), mask), adds=run.row.adds)
        for tensor_map in self.in_global.map_of(spot, run):
            spot.memory.issue_read(BULK_STORE.name, Touch(tensor_map, self.number(run), mask))

    def read_by_product(
        self,
        run: Run,
        side: int,
        operand: int,
        form: ProductForm | tensor_memory.ProductShape | None,
    ) -> Callable[[Spot], Iterator[Touch]]:
        """What a product reads by the descriptor of one side: all that is touched, if that does not say where it lies."""
        number, operand = self.number(run), run.operands[operand]

        @cache
        def named(value: Value, mask: int | None) -> list[ByteRange]:
            if isinstance(value, ByteRange):
                return [value]
            if form is None or not isinstance(value, Form) or not is_address(value):
                return []
            atom, numbers = address_parts(value, mask)
            root, rows, by_k = int(str(atom.key)), (form.m, form.n)[side], form.by_k[side]
            spans = [described_bytes(bits, rows, by_k) for bits in numbers]
            if None in spans:
                # One is not aligned to its swizzle: which lines it names is not known.
                raise NotFollowedError("unknown-place")
            return [ByteRange(root, *ends, True) for some in spans for ends in some or ()]

        def read(spot: Spot) -> Iterator[Touch]:
            regions = named(spot.get(operand), spot.mask)
            for region in regions or spot.memory.blocks.anywhere(self.touched, spot.mask):
                yield Touch(self.bounds.check(region, number), number, spot.threads())

        return read

    def _acquire(self, run: Run) -> Effect | None:
        in_global = self.in_global
        if in_global is None:
            return None

        def execute(spot: Spot) -> None:
            for region in in_global.map_of(spot, run):
                spot.memory.acquire_map(Touch(region, self.number(run), spot.threads()))

        return execute


def not_followed(spot: Spot, reason: str = "async-proxy") -> None:
    """The effect of an op of which no rule is known here."""
    raise NotFollowedError(reason)


def _by_mbarrier(place: Value, mask: int, use: PhaseUse) -> list[int]:
    """The threads that name one mbarrier each: those that only arrive do not part for that."""
    if use != "arrive":
        return [mask]
    if isinstance(place, OfRanks):
        named = [mine & mask for mine, _ in place.parts if mine & mask]
        return named if sum(named) == mask else [mask]
    each = place.each if isinstance(place, BytePlace) else None
    return [mask] if each is None else each.split(mask)


class NeverAnsweredError(Exception):
    """No run comes here: a test said that a phase is over which nobody ends."""


def asks_again(run: Run) -> bool:
    """Whether a test stands in a loop that asks until it is true."""
    around = parent(run.op)
    return around is not None and around.name == "scf.while"


def counts_arrivals(run: Run) -> bool:
    """Whether a step only arrives, or copies bytes that a phase counts: in whatever order, the phase is the same."""
    return run.row.phase in ("arrive", "expect", "copy")


def is_asked(form: Form) -> bool:
    """Whether a condition is the answer of a test of a phase: both may come."""
    return all(atom.kind == "bit" and atom.tag == "test" for atom, _ in form.terms)


def _copied(place: BytePlace, kind: Any, size: int | None) -> ByteRange:
    """Where a copy writes or reads workgroup memory: all of a memref, so many bytes after a pointer."""
    if str(kind).startswith("memref<"):
        return byte_places.region_of_view(place, kind)
    return byte_places.bytes_from(place, size)


def _fence_of(op: Any, fence: Fence) -> Effect | None:
    shown = mbarrier_ops.fenced_by(op, fence)
    return (lambda spot: spot.memory.fence(spot.threads(), shown)) if shown else None


def _touch_alternating(number: int, access: Effect | None, spot: Spot) -> None:
    if access is not None:
        access(spot)
    if spot.memory.together:
        raise NotFollowedError("specialised")
    spot.memory.touch_alternating(number, spot.threads())


def _commit(queue: str, spot: Spot) -> None:
    spot.memory.commit(queue, spot.threads())


def _wait(queue: str, left: int, spot: Spot) -> None:
    spot.memory.wait_group(queue, spot.threads(), left)


def _align(spot: Spot) -> None:
    """All lanes of a warp run the op (PTX ISA, wgmma: .aligned), and wait for each other (.sync)."""
    if not _are_whole_warps(spot.threads()):
        raise NotFollowedError("lanes-apart")
    if spot.memory.clocks.classes.aligned:
        spot.memory.clocks.align(spot.threads())


# Barriers of threads: all of the block, those of one role, or some that name a barrier.
#
# gpu.barrier                                       all threads; barrier 0, where roles come one by one
# nvvm.barrier id = 1 number_of_threads = 128       as many arrivals, and each waits for all of them
# nvvm.barrier.arrive id = 1 number_of_threads = …  an arrival that does not wait
# nvvm.cluster.arrive, .wait                        all threads of the cluster, in two steps


def may_wait(run: Run) -> bool:
    row = named_row(run.op.name)
    return row.barrier is not None or row.phase in ("wait", "test", "poll")


def meeting(run: Run, number: int) -> Callable[[Spot], None]:
    """What a barrier does, which faults call by its `number`."""
    row = run.row
    if row.meeting is not None and row.meeting.of == "cluster":
        waits, releases = bool(row.meeting.spaces(run.op)), row.order(run.op).release
        return partial(_meet_in_cluster, run, number, waits=waits, releases=releases)
    whole = row.barrier is not None
    near_only = row.barrier is not None and "global" not in row.barrier(run.op)
    at = operands_of(run) if row.operands else {}
    waits = row.meeting is None or bool(row.meeting.spaces(run.op))
    is_named = row.meeting is None or row.meeting.of == "block"

    def execute(spot: Spot) -> None:
        memory = spot.memory
        if near_only and memory.has_alternating():
            raise NotFollowedError("memory-order")
        if whole and spot.threads() == memory.everybody and not memory.blocks.threads:
            memory.meet()
        elif memory.together:
            if is_named:
                raise NotFollowedError("specialised")
            memory.some_met = True
        elif "predicate" in at or run.maybe:
            raise NotFollowedError("unknown-mbarrier")
        elif is_named:
            _join(spot, memory, at, number, waits=waits, whole=whole)

    return execute


def _join(
    spot: Spot, memory: BlockMemory, at: dict[str, int], number: int, *, waits: bool, whole: bool
) -> None:
    if not (whole or _are_whole_warps(spot.threads(), memory.everybody)):
        # Warps come to it, not lanes (PTX ISA, barrier.cta: .aligned), and what one lane learns all of its warp know. Where the
        # whole block comes, lanes that went apart before have met again.
        raise NotFollowedError("lanes-apart")
    name = spot.exact(at["number"]) if "number" in at else 0
    if name >= NUMBERS:
        raise PhaseFault(
            "out-of-bounds", number, number, f"a block has barriers 0 to {NUMBERS - 1}"
        )
    name += NUMBERS * memory.blocks.rank_of(spot.mask)
    everybody = memory.everybody.bit_count() // memory.blocks.count
    count = spot.exact(at["threads"]) if "threads" in at else everybody
    if spot.meeting is None:
        phase = memory.join_barrier(name, number, spot.threads(), count)
        spot.meeting = (name, phase) if waits else None
    if spot.meeting is not None:
        memory.meet_at(*spot.meeting, number, spot.threads())
        spot.meeting = None


def _meet_in_cluster(run: Run, number: int, spot: Spot, *, waits: bool, releases: bool) -> None:
    """All threads of a cluster meet: they arrive, and wait later."""
    memory, mask = spot.memory, spot.threads()
    if run.maybe or not _are_whole_warps(mask):
        raise NotFollowedError("cluster-barrier")
    if waits:
        memory.wait_all(number, mask)
    else:
        memory.arrive_all(number, mask, releases=releases)


def _are_whole_warps(mask: int, everybody: int = -1) -> bool:
    return all(
        mask >> first & LANES in (0, everybody >> first & LANES)
        for first in range(0, mask.bit_length(), WARP)
    )


def operands_of(run: Run) -> dict[str, int]:
    """The operands of an op by name, those that it has."""
    groups = groups_of(run.op)
    return {name: run.operands[found[0]] for name, found in groups.items() if len(found)}


# What ops do to tensor memory on a path (`tensor_state`): products, loads, waits and fences.
#
#     nvvm.tcgen05.mma %sums, %a, %b, …      reads what its descriptors name, fills N columns of %sums
#     nvvm.tcgen05.ld %from                  as many columns as it has registers
#     nvvm.tcgen05.st %to, %registers        likewise
#
# Columns are distinguished by what is added to the same value. Copies and shifts are not followed.


def tensor_effect(run: Run, done: Tensor, effects: OpEffects) -> Effect | None:
    """What an op does to tensor memory, None if it does nothing here."""
    effect, number = _effect(run, done, effects), effects.number(run)
    if done.use not in tensor_memory.OF_WARPS:
        return effect

    def of_warps(spot: Spot) -> None:
        if not _are_whole_warps(spot.threads(), spot.memory.everybody):
            note = "all lanes of a warp must come here together"
            raise PhaseFault("divergent-warp-op", number, number, note)
        if effect is not None:
            effect(spot)

    return of_warps


def _warps(spot: Spot) -> list[tuple[int, int]]:
    """The warps that are there, with those of their threads that are."""
    mask = spot.threads()
    return [(warp, mask & LANES << WARP * warp) for warp in threads_of(warps_of(mask))]


def _effect(run: Run, done: Tensor, effects: OpEffects) -> Effect | None:
    op, number = run.op, effects.number(run)
    match done:
        case Tensor("permit"):
            return None
        case Tensor("dealloc"):
            count = constant_value(op.operands[1])
            given = _cells(run, effects)
            return partial(_given_back, given, count, number, effects.bounds)
        case Tensor("alloc"):
            return _allocation(run, number, effects.bounds)
        case Tensor("product", plain=True):
            return _product(run, number, effects)
        case Tensor("load" | "store", plain=True) if not groups_of(op)["offset"]:
            cells, moved = _cells(run, effects), moved_columns(op)

            def move(spot: Spot) -> None:
                spot.memory.use_tensor(done.use, cells(spot, *moved), number, spot.threads())
                _check_lanes(run, number, spot)

            return move
        case Tensor("wait"):
            step = "landed" if tensor_memory.waits_for(op) == "load" else "stored"
            return lambda spot: spot.memory.tensor_step(step, spot.threads())
        case Tensor("fence"):
            side = f"fence_{tensor_memory.fence_side(op)}"
            return lambda spot: spot.memory.tensor_step(side, spot.threads())
    return not_followed


def _product(run: Run, number: int, effects: OpEffects) -> Effect:
    product, groups = tensor_memory.tensor_product(run.op), groups_of(run.op)
    reads = [
        effects.read_by_product(run, side, groups[name][0], product.shape)
        for side, name in enumerate(("matrix_a", "matrix_b"))
        if side or product.left is None
    ]
    cells = {n: _cells(run, effects, n) for n in (product.sums, product.left) if n is not None}

    def execute(spot: Spot) -> None:
        read = tuple(touch for each in reads for touch in each(spot))
        used = product.cells(lambda operand, columns: cells[operand](spot, columns))
        spot.memory.issue_product(Product(number, spot.threads(), read, used))

    return execute


def _allocation(run: Run, number: int, bounds: Bounds) -> Effect:
    """The first lane of a warp writes where its columns begin."""
    bounds.add_columns(run)
    count = constant_value(run.op.operands[1])

    def execute(spot: Spot) -> None:
        if count is None:
            raise NotFollowedError("unknown-number")
        if count & (count - 1) or not tensor_memory.SMALLEST_ALLOCATION <= count <= COLUMNS:
            note = f"{count} columns are no power of two from {tensor_memory.SMALLEST_ALLOCATION} to {COLUMNS}"
            raise PhaseFault("no-columns", number, number, note)
        warps = _warps(spot)
        spot.memory.tensor.took(number, count, len(warps))
        place = spot.get(run.operands[0])
        if not isinstance(place, BytePlace):
            raise NotFollowedError("unknown-place")
        lowest = sum(lanes & -lanes for _, lanes in warps)
        region = ByteRange(place.root)
        if place.low is not None and place.low == place.high:
            region = ByteRange(place.root, place.low, place.low + 4, True)
        spot.memory.allocate(Touch(bounds.check(region, number), number, lowest))

    return execute


def _given_back(
    given: Callable[..., Cells], count: int | None, number: int, bounds: Bounds, spot: Spot
) -> None:
    """Columns are given back: all that some op took."""
    cells, warps = given(spot, count), _warps(spot)
    spot.memory.use_tensor("give_back", cells, number, spot.threads())
    if count is None:
        raise NotFollowedError("unknown-number")
    taken = None
    if isinstance(cells.base, int) and cells.low is not None:
        taken = -1 - cells.base
        bounds.check_given_back(taken, cells.low, count, number)
        if len(warps) > 1 and cells.high == cells.low + count:
            note = f"each of {len(warps)} warps gives them back"
            raise PhaseFault("out-of-bounds", number, taken, note)
    elif len(warps) > 1:
        raise NotFollowedError("unknown-place")
    for _ in warps:
        spot.memory.tensor.returned(taken, count)


def _check_lanes(run: Run, number: int, spot: Spot) -> None:
    """Each warp touches the lanes of its number modulo 4."""
    address = spot.get(run.operands[0])
    if not isinstance(address, Form) or not is_address(address):
        return
    height = LANES_OF_WARP // (1 if moved_columns(run.op)[1] else 2)
    for warp, lanes in _warps(spot):
        own = LANES_OF_WARP * (warp % QUARTERS)
        found = {at // tensor_memory.LANE for at in address_parts(address, lanes)[1]}
        wrong = {at for at in found if not own <= at <= own + LANES_OF_WARP - height or at % height}
        if wrong:
            note = f"warp {warp} of the block has lanes {own} to {own + LANES_OF_WARP - 1}, and not {min(wrong)}"
            raise PhaseFault("wrong-lanes", number, number, note, wrong == found)


def _cells(run: Run, effects: OpEffects, operand: int = 0) -> Callable[..., Cells]:
    """So many columns (None: it is not known how many) from the address on that is an operand, perhaps not `all_of_them`: by
    its number where that is known, else by the ops that it is made of."""
    base, offset = columns_after(run.op.operands[operand])

    def cells(spot: Spot, columns: int | None, all_of_them: bool = True) -> Cells:
        size = COLUMNS if columns is None else columns
        sure = 1 if columns is None or not all_of_them else columns
        address = spot.get(run.operands[operand])
        if not isinstance(address, Form) or not is_address(address):
            return Cells() if base is None else Cells(base, offset, offset + size)
        atom, numbers = address_parts(address, spot.mask)
        found = {at % tensor_memory.LANE for at in numbers}
        taken, number = -1 - int(str(atom.key)), effects.number(run)
        effects.bounds.check_columns(taken, min(found), sure, number)
        return Cells(atom.key, min(found), max(found) + size)

    return cells


def columns_of(op: int) -> Form:
    return address_of(-1 - op, 0)
