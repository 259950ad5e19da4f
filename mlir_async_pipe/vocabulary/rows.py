"""What a row of the vocabulary says, as frozen dataclasses.

A row describes one op kind completely: what it reads and writes and how much, whether that
happens asynchronously, on which queue, whether it commits a group, what it waits for, which
barrier it is, and its `effects` on phases, tensor memory and the async proxy. Where nobody can say
what an op does, that is an effect, too, with its reason.

A *queue* is a first-in first-out sequence of commit groups. `wait N` on it blocks until at
most the N most recent groups are in flight (PTX ISA, cp.async.wait_group; LLVM, AMDGPU
asynchronous operations, wait.asyncmark). Counts are made per queue, so which ops share one
is the first fact that every analysis needs.

A *memory order* is what an op orders of the accesses of its own thread, for other threads that see them:

    llvm.store %v, %flag atomic release        what stands before it is over before the store
    llvm.load %flag atomic acquire             what stands after it begins after the load
    llvm.load volatile %flag                   keeps its place among volatile and atomic accesses
    memref.atomic_rmw addi %one, %flag[]       both: MLIR lowers it to acq_rel, of all threads
    func.call @unknown()                       may be any of these

Nothing moves above an acquire or below a release, and strong accesses (volatile, atomic) keep their
order among themselves (PTX ISA, "Memory Consistency Model"; LLVM, "Atomic Memory Ordering
Constraints"). A barrier of the block orders all that its threads do on both sides, in the spaces
that it lists. Waits for groups and phases order the asynchronous ops that they retire, which their
own rows say.

A volatile or relaxed read on which a loop spins counts as an acquire: programs that were written
before scopes wait like that, and what follows the loop is meant to come after it.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, get_args

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import ancestors, integer_attribute, is_used
from mlir_async_pipe.vocabulary.control_flow import WHILE_OPS

QueueScope = Literal["thread", "function"]


@dataclass(frozen=True)
class Queue:
    """One FIFO of commit groups.

    `scope` says whose groups a wait counts: "thread" all that the thread committed,
    "function" only those that the running function body committed itself.
    `largest_count` is the largest N that a wait can express, None if unlimited.
    `copies_in_flight` bounds the ops (not groups) that the hardware tracks, None if unlimited.
    """

    name: str
    scope: QueueScope
    largest_count: int | None = None
    copies_in_flight: int | None = None


# ptxas clamps a larger N to 63 without a word.
CP_ASYNC = Queue("cp.async", "thread", largest_count=63)
BULK_STORE = Queue("bulk-store", "thread")
# PTX ISA, wgmma.wait_group: N in 0..7.
WGMMA = Queue("wgmma", "thread", largest_count=7)
# LLVM's back end tracks 16 marks, of which 15 may stay in flight; vmcnt has 6 bits, and 63
# stands for "do not wait", so 62 copies can be distinguished.
ASYNC_LDS = Queue("async-lds", "function", largest_count=15, copies_in_flight=62)
ASYNCCNT = Queue("asynccnt", "thread", largest_count=63)
TENSORCNT = Queue("tensorcnt", "thread", largest_count=63)
# Registers on their way from and to tensor memory: a wait names none of them, but covers all.
TENSOR_LOADS = Queue("tensor-loads", "thread")
TENSOR_STORES = Queue("tensor-stores", "thread")


def abstract_queue(number: int) -> Queue:
    """The FIFO of abstract queue `number` (RFC 0077) as long as no target is given."""
    return Queue(f"queue {number}", "thread")


Scope = Literal["thread", "warp", "block", "cluster", "device", "system"]
"""The threads for whom an op orders memory, from few to many."""

ALL_SPACES = frozenset({"global", "workgroup", "private"})
_SCOPES: dict[str, Scope] = {
    "singlethread": "thread",
    **dict.fromkeys(("wavefront", "warp"), "warp"),
    **dict.fromkeys(("workgroup", "block", "cta"), "block"),
    "cluster": "cluster",
    **dict.fromkeys(("agent", "device", "gpu"), "device"),
}
# LLVM's numbers of atomic orderings; "unordered" and "monotonic" (1, 2) order nothing.
ACQUIRE, RELEASE, _BOTH, _SEQUENTIAL = 4, 5, 6, 7


@dataclass(frozen=True)
class MemoryOrder:
    """What one op orders, for threads of its `scope`.

    `acquire`: accesses after it, of the memory in `spaces`, begin after it. `release`: those before
    it are over before it. `strong`: it is a volatile or an atomic access. `spins`: it counts as an
    acquire since a loop spins on it, which no memory model promises.
    """

    acquire: bool = False
    release: bool = False
    strong: bool = False
    scope: Scope = "system"
    spaces: frozenset[str] = ALL_SPACES
    spins: bool = False

    @property
    def orders(self) -> bool:
        """Whether other accesses of the thread keep their place at it."""
        return self.acquire or self.release


_FROM_FEW_TO_MANY: tuple[Scope, ...] = get_args(Scope)


def least(one: Scope, other: Scope) -> Scope:
    """The smaller one of two scopes."""
    return min(one, other, key=_FROM_FEW_TO_MANY.index)


def covers(scope: Scope, threads: Scope) -> bool:
    return least(scope, threads) == threads


UNORDERED = MemoryOrder(scope="thread")
EVERYTHING = MemoryOrder(True, True, True)


def keeps_order(first: MemoryOrder, second: MemoryOrder) -> bool:
    """Whether two ops of a thread, each with what it orders, must stay in this order."""
    return first.acquire or second.release or (first.strong and second.strong)


def unordered(op: Any) -> MemoryOrder:
    return UNORDERED


def both(scope: Scope, spaces: frozenset[str] = ALL_SPACES) -> MemoryOrder:
    """Acquire and release for threads of a scope."""
    return MemoryOrder(True, True, False, scope, spaces)


def acquire(scope: Scope) -> MemoryOrder:
    """What comes after begins after it."""
    return MemoryOrder(acquire=True, scope=scope)


def release(scope: Scope) -> MemoryOrder:
    """What comes before is over before it."""
    return MemoryOrder(release=True, scope=scope)


def relaxed(op: Any) -> MemoryOrder:
    """An atomic access that orders nothing else."""
    return _spinning(op, MemoryOrder(strong=True))


def acquire_release(op: Any) -> MemoryOrder:
    """An atomic that MLIR's own lowering makes acq_rel, of the whole system. Without users of its
    result the thread cannot know whose value it met, so it acquires nothing (PTX ISA: `red` is
    relaxed or a release)."""
    return EVERYTHING if any(map(is_used, op.results)) else MemoryOrder(release=True, strong=True)


# !llvm.mmra: an AMD fence may say which address spaces alone it orders (LLVM, AMDGPU memory model).
_SYNCHRONISED = re.compile(r'"amdgpu-synchronize-as":\s*"(\w+)"')
_SPACES_OF_TAGS = {"local": "workgroup", "global": "global"}


def _spaces_of(op: Any) -> frozenset[str]:
    if "llvm.mmra" not in op.attributes:
        return ALL_SPACES
    tags = _SYNCHRONISED.findall(str(op.attributes["llvm.mmra"]))
    return frozenset(_SPACES_OF_TAGS[tag] for tag in tags if tag in _SPACES_OF_TAGS)


def attribute_order(op: Any) -> MemoryOrder:
    """What the ordering, the scope, `volatile` and the tags of an LLVM access or fence say."""
    names = ("ordering", "success_ordering", "failure_ordering")
    orderings = {integer_attribute(op, name) for name in names} - {None, 0}
    strong = bool(orderings) or "volatile_" in op.attributes
    scope = _scope_of(op)
    # A single thread's order is seen by signal handlers only.
    ordering = orderings if scope != "thread" else set()
    # A load cannot release (it has a pointer alone), and a store, without a result, cannot acquire.
    loads, stores = len(op.operands) == 1, len(op.operands) > 1 and not len(op.results)
    order = MemoryOrder(
        acquire=bool(ordering & {ACQUIRE, _BOTH, _SEQUENTIAL}) and not stores,
        release=bool(ordering & {RELEASE, _BOTH, _SEQUENTIAL}) and not loads,
        strong=strong,
        scope=scope,
        spaces=_spaces_of(op),
    )
    return _spinning(op, order)


def volatile_order(op: Any) -> MemoryOrder:
    """LLVM's intrinsics that copy or fill memory order nothing; volatile ones keep their place."""
    return MemoryOrder(strong=bool(integer_attribute(op, "isVolatile")), scope="thread")


def named_scope(op: Any) -> MemoryOrder:
    """A fence both ways for the threads that its `scope` names."""
    return both(scope_named(op))


def scope_named(op: Any) -> Scope:
    """The threads of `scope = #nvvm.mem_scope<gpu>`, those of the system where an op has none."""
    text = str(op.attributes["scope"]) if "scope" in op.attributes else ""
    return _SCOPES.get(text.partition("<")[2].rstrip(">"), "system")


def restricted_order(op: Any) -> MemoryOrder:
    """An acquire or a release, as `order` says, of shared memory for the threads of a cluster (PTX ISA, fence:
    `.sync_restrict`)."""
    order = acquire if "acquire" in str(op.attributes["order"]) else release
    return replace(order("cluster"), spaces=frozenset({"workgroup"}))


def _spinning(op: Any, order: MemoryOrder) -> MemoryOrder:
    if order.acquire or not order.strong or not len(op.results):
        return order
    if not any(above.name in WHILE_OPS for above in ancestors(op)):
        return order
    return replace(order, acquire=True, spins=True)


def _scope_of(op: Any) -> Scope:
    if "syncscope" not in op.attributes:
        return "system"
    name = str(ir.StringAttr(op.attributes["syncscope"]).value)
    # "-one-as" orders the address space of the access alone: all of them is more.
    return _SCOPES.get(name.removesuffix("-one-as"), "system")


AccessKind = Literal["read", "write", "atomic"]

Extent = Callable[[Any], tuple[int, ...] | None]
"""How many elements an access covers from its subscripts on, one number for each of the
trailing dimensions; None where the op does not say, which stands for the whole buffer."""


class Share(NamedTuple):
    """What one thread has of a dimension that the threads of a warpgroup share out: `length` elements
    from the sum of factor * (x / divisor mod modulus) over `digits` on, for the thread id x, and as many
    again at each sum of `steps` (distance, count) after it."""

    digits: tuple[tuple[int, int, int], ...]
    steps: tuple[tuple[int, int], ...]
    length: int

    def first(self, x: Any) -> Any:
        """The first element of thread x; arrays do too."""
        return sum(factor * (x // divisor % modulus) for factor, divisor, modulus in self.digits)

    def offsets(self) -> list[int]:
        """How far its elements are from the first one."""
        found = list(range(self.length))
        for distance, count in self.steps:
            found = [at + distance * n for n in range(count) for at in found]
        return found


Shares = Callable[[Any], tuple[Share, ...] | None]


@dataclass(frozen=True)
class AccessRule:
    """One read or write of an op, by the names of its operand groups.

    `memory` names the group that holds the memref or pointer, `indices` the subscripts (""
    if it has none). `certain` is False if the op may leave elements out (masks), given as a
    function of the op. `active_lanes` bounds the lanes of a warp whose address counts
    (ldmatrix uses the addresses of lanes below 8 * numTiles only).
    """

    kind: AccessKind
    memory: str
    indices: str
    extent: Extent
    certain: Callable[[Any], bool] | None = None
    active_lanes: Callable[[Any], int | None] | None = None
    # LDS copies of gfx9 and gfx10 name one address a wave; lane l writes l extents after it.
    over_lanes: bool = False
    # How threads share out the memory, one for each of its dimensions; None: each has all of it.
    shares: Shares | None = None
    # The leading slot index of a versioned buffer can be put before these subscripts.
    takes_slot_index: bool = True
    # Elements of the last dimension lie side by side, whatever the memref's strides are; without an
    # extent the access is somewhere in the memory of which the memref is a view.
    contiguous: bool = False
    # So they do beyond the end of a row; a function of the op.
    beyond_rows: Callable[[Any], bool] | None = None


class Place(NamedTuple):
    """Where `op` names memory and subscripts: the numbers of its operands."""

    op: Any
    memory: int
    indices: range


@dataclass(frozen=True)
class WaitRule:
    """How an op waits.

    `form`: "token" (operands name groups; a count attribute may override them), "count" (the
    attribute alone) or "next" (the oldest group that was not consumed yet).
    `count` is the name of the attribute that holds N and `count_bits` its width; a token
    wait without that attribute means N = 0.
    `completes`: "full", or "read" where only the source is known to be reusable.
    """

    form: Literal["token", "count", "next"]
    count: str
    count_bits: int
    completes: Callable[[Any], Literal["full", "read"]] = lambda op: "full"
    # The operand that holds N, in calls of intrinsics; None: the attribute does.
    operand: int | None = None


@dataclass(frozen=True)
class Opaque:
    """The op may touch any memory; `why` nobody can say which. It may also `order` the accesses of its
    thread, let threads meet or end, copy asynchronously until nobody knows when, end copies of AMD's
    queues as no group shows, or do to `phases` what nobody follows. `harmless`: it touches no
    memory that a copy could."""

    why: str
    orders: bool = True
    meets: bool = False
    copies: bool = False
    ends_copies: bool = False
    phases: bool = False
    harmless: bool = False


PhaseUse = Literal["handle", "init", "arrive", "arrive_after", "expect", "announce", "wait", "test", "poll", "copy",
                   "commit"]  # fmt: skip


@dataclass(frozen=True)
class Phase:
    """What an op does with an mbarrier: `barrier` among its operand groups is one, or a group of them
    with the number `index` (PTX ISA, mbarrier).

    | use     | what it does                                                                 |
    |---------|------------------------------------------------------------------------------|
    | handle  | makes a name of mbarriers, or of one of them                                 |
    | init    | sets the arrivals of each phase                                              |
    | arrive  | `arrivals` arrive (one, where the op names no number)                        |
    | arrive_after | one arrives when all cp.async that the thread issued are over; it is one arrival more if not `noinc` |
    | expect  | one arrives, and announces `bytes`                                           |
    | announce | announces `bytes`, and does not arrive                                      |
    | wait    | stops until the phase of parity `phase` is over                              |
    | test    | asks whether the phase of `phase`, a parity or what an arrival gave, is over |
    | copy    | lands later, and takes its bytes off those announced                         |
    | commit  | one arrives when all products of tensor memory that the thread issued are over |
    """

    use: PhaseUse
    # A copy by the threads' own proxy: no fence is needed between it and their accesses.
    generic: bool = False
    # To analyses that count groups.
    opaque: ClassVar[Opaque] = Opaque(
        "what completes with an mbarrier is not counted, and the barrier itself is memory"
    )


TensorUse = Literal["alloc", "permit", "dealloc", "product", "copy", "shift", "load", "store", "wait", "fence"]  # fmt: skip


@dataclass(frozen=True)
class Tensor:
    """What an op does with the tensor memory of Blackwell (PTX ISA, tcgen05). `plain`: what it reads
    and writes follows from its descriptors and columns alone.

    | use     | what it does                                                                      |
    |---------|-----------------------------------------------------------------------------------|
    | alloc   | a warp takes columns, and writes where they begin to workgroup memory             |
    | permit  | the block will allocate no more                                                   |
    | dealloc | a warp gives columns back                                                         |
    | product | D = A B + D; one thread issues it, a commit says when it is over                  |
    | copy    | workgroup memory to tensor memory; as a product                                   |
    | shift   | lanes move down by one; as a product                                              |
    | load    | a warp's lanes into registers, which are there after a wait                       |
    | store   | registers into a warp's lanes, which are there after a wait                       |
    | wait    | for all loads, or all stores, of the thread                                       |
    | fence   | what the thread knows from others counts for its tensor ops after it, or what its |
    |         | tensor ops before it did counts for those whom it tells                           |
    """

    use: TensorUse
    plain: bool = False
    # To analyses that follow no tensor memory.
    opaque: ClassVar[Opaque] = Opaque(
        "it works on tensor memory, which no access names", orders=False
    )


@dataclass(frozen=True)
class Fence:
    """The op orders what its thread does, and touches no memory; after it the async proxy sees all
    that the thread wrote, or the mbarriers that it initialised, if it `shows` them. One of `maps` is between
    what threads wrote in tensor maps and the copies that read these: a release, or an acquire of the map that
    it names, as its order says (PTX ISA, fence.proxy.tensormap::generic)."""

    shows: Literal["nothing", "all", "mbarriers"] = "nothing"
    maps: bool = False


@dataclass(frozen=True)
class Meeting:
    """Some threads of the block meet at the op, or those `of` a warp or cluster, or they arrive and do
    not wait: no analysis of the whole block counts on it. Those who wait find memory of `spaces` in
    order."""

    spaces: Callable[[Any], frozenset[str]]
    of: Literal["block", "warp", "cluster"]
    opaque: ClassVar[Opaque] = Opaque("some or all threads of the block meet at it", meets=True)


Effect = Opaque | Phase | Tensor | Fence | Meeting

Agreement = Literal["operands", "same", "differs"]
"""Threads make the same value: where their operands agree, always, or never."""


def _between(spaces: frozenset[str]) -> MemoryOrder:
    return both("block", spaces) if spaces else UNORDERED


def stated_alignment(op: Any) -> int:
    """What an access says of itself; a byte if it says nothing, as those of memrefs need not (MLIR, vector.load)."""
    return integer_attribute(op, "alignment") or 1


@dataclass(frozen=True)
class Row:
    """One op kind; where `op` ends in "." or "_", all those whose names begin so and have no row of
    their own. `operands` names its ODS operand groups in order, with the marks that
    `operand_groups` reads.

    `queue` is the physical queue, or "attribute" where the op's `queue` attribute names an
    abstract one. `asynchronous` says whether this very op completes later.
    `commits`: "group" (all that was issued since the last commit becomes one group), "self"
    (each op is a group of its own) or None; `token` says that result 0 denotes the group.
    `completion`: what retires the op: "group", "counter" or "mbarrier" (the latter is not
    counted). `barrier`: address spaces ordered between the threads of a block, None if the
    op is no barrier.
    """

    op: str
    operands: tuple[str, ...] = ()
    accesses: tuple[AccessRule, ...] = ()
    queue: Queue | Literal["attribute"] | None = None
    asynchronous: Callable[[Any], bool] = lambda op: False
    commits: Literal["group", "self"] | None = None
    token: bool = False
    wait: WaitRule | None = None
    completion: Literal["group", "counter", "mbarrier"] = "group"
    barrier: Callable[[Any], frozenset[str]] | None = None
    # What the op orders for other threads, beside being a barrier.
    order: Callable[[Any], MemoryOrder] = unordered
    # Whether all threads of the block meet at this very op; None: they always do.
    whole: Callable[[Any], bool] | None = None
    # Whose threads meet at a barrier.
    meets: Literal["block", "warp", "cluster"] = "block"
    # Whether the barrier counts waves, whichever of the block's barriers they are at.
    counts_waves: bool = False
    # Slots of its queue that the op acquires; below 0, that it releases.
    slots: int = 0
    # The operand group of workgroup memory that lies there as a tensor map says.
    swizzled: str = ""
    # What it writes it combines with what is there, element by element, so that two of its kind may meet.
    adds: bool = False
    # Where the memory of its accesses is named, by `AccessRule.memory`, if not by its own operands.
    places: Callable[[Any], dict[str, Place]] | None = None
    # The operand groups of memory that its value stands for: what it describes.
    describes: tuple[str, ...] = ()
    # A wave does it once for all of its lanes (all operands are the same in them).
    by_wave: bool = False
    # The counter of the hardware that counts it beside its queue: a wait for that retires it alone.
    counter: Queue | None = None
    # The operand groups of descriptors whose memory it reads while it is in flight.
    descriptors: tuple[str, ...] = ()
    # The unit attribute that makes an op of this kind asynchronous, "" if there is none.
    async_attribute: str = ""
    # Orders what its threads did to registers of sums before products that add up there.
    fences_sums: bool = False
    # Stores the value of operand 0 element by element: a copy can, if that was loaded.
    stores: bool = False
    effects: tuple[Effect, ...] = ()
    # Beside ops with effects: those that only make a value, those that move control or name memory,
    # and those at which nobody has looked.
    does: Literal["effects", "value", "nothing", "unknown"] = "effects"
    # The row of this very op, where its name does not say all: of calls and assembly.
    by_op: Callable[[Any], Row] | None = None
    # Touches no memory that a copy could.
    harmless: bool = False
    # How threads of a block agree on the value, beside the ids that `launch_ids` knows.
    agree: Agreement = "operands"
    # Bytes of which its addresses are multiples.
    alignment: Callable[[Any], int] = stated_alignment

    @cached_property
    def described(self) -> bool:
        """Whether the row says what the op does beside making a value and moving control."""
        return self.does == "effects"

    @cached_property
    def known(self) -> bool:
        """Whether accesses, queues and barriers are all that the op does."""
        return self.does == "effects" and self.opaque is None

    @cached_property
    def pure(self) -> bool:
        """Whether the op itself (not its regions) touches no memory and makes a value."""
        return self.does == "value"

    @cached_property
    def synchronises(self) -> bool:
        """Whether the op forms a group, waits, or is a barrier."""
        return self.commits == "group" or self.wait is not None or self.barrier is not None

    @cached_property
    def differs(self) -> bool:
        """Whether the op makes another value in each thread, whatever it is given."""
        return self.does == "value" and self.agree == "differs"

    @cached_property
    def by_proxy(self) -> bool:
        """Whether the op's accesses are those of a tensor copy, or complete on an mbarrier: its
        phases say when they happen."""
        return self.completion == "mbarrier" or bool(self.swizzled)

    @cached_property
    def phase(self) -> PhaseUse | None:
        """What the op does with an mbarrier."""
        return next((e.use for e in self.effects if isinstance(e, Phase)), None)

    @cached_property
    def in_generic_proxy(self) -> bool:
        """Whether it is a copy that completes on an mbarrier, by the proxy of the threads' own accesses."""
        return any(isinstance(e, Phase) and e.generic for e in self.effects)

    @cached_property
    def tensor(self) -> TensorUse | None:
        """What the op does with tensor memory."""
        return next((e.use for e in self.effects if isinstance(e, Tensor)), None)

    @cached_property
    def fence(self) -> Fence | None:
        return next((e for e in self.effects if isinstance(e, Fence)), None)

    @cached_property
    def shows_writes(self) -> bool:
        """Whether it is a fence after which the async proxy sees what the thread wrote."""
        return self.fence is not None and self.fence.shows != "nothing"

    @cached_property
    def meeting(self) -> Meeting | None:
        """The barrier of some threads that the op is."""
        return next((e for e in self.effects if isinstance(e, Meeting)), None)

    @cached_property
    def of_some(self) -> Row:
        """The row of a barrier of this kind at which some threads of the block may not meet."""
        barrier = self.barrier
        assert barrier is not None
        order = self.order if self.order is not unordered else lambda op: _between(barrier(op))
        return replace(
            self,
            barrier=None,
            whole=None,
            order=order,
            effects=(*self.effects, Meeting(barrier, self.meets)),
            agree="operands",
        )

    @cached_property
    def opaque(self) -> Opaque | None:
        """Why the op may do anything to those who follow accesses, queues and barriers alone."""
        for effect in self.effects:
            match effect:
                case Fence():
                    continue
                case Opaque() | Phase() | Tensor() | Meeting() if self.accesses:
                    return None
                case Opaque():
                    return effect
                case _:
                    return effect.opaque
        return None
