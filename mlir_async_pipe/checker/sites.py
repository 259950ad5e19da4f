"""The memory and the accesses of a kernel, numbered, and which of them can conflict at all.

An access matters if another access may alias it, one of the two writes, and one of them is
async, both are to workgroup memory (where threads meet) or both to global memory (where blocks
meet, see `owners`). Everything else is left out before any path is followed.

    store release 1, %flag      load acquire %flag      strong: of threads of their scope they do not race
    store 1, %flag              load acquire %flag      a race, unless something orders them

    func.call @inner(%p)        in the callee's frame %q is the memory that %p names
    func.func @inner(%q: …)
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from math import prod
from typing import Any, NamedTuple

from mlir_async_pipe.bindings.raw_ops import KERNEL_OPS, ancestors, enclosing, integer_attribute
from mlir_async_pipe.checker.step_graph import Bracket, Flow, Run, is_integer, is_memory
from mlir_async_pipe.chips.target import Chip
from mlir_async_pipe.facts.loops.annotations import INDEPENDENT
from mlir_async_pipe.facts.values.alignment import element_bytes
from mlir_async_pipe.facts.values.memory_roots import (
    GIVEN,
    OWN,
    Root,
    is_pointer,
    may_alias,
    parameter_of,
    root_of,
    space_of,
    threads_may_meet,
)
from mlir_async_pipe.vocabulary import (
    Access,
    Row,
    accesses,
    given_count,
    groups_of,
    queue_of,
    row_of,
)
from mlir_async_pipe.vocabulary.async_ops import count_operand
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, SCOPE
from mlir_async_pipe.vocabulary.memory_names import DEALLOCATION_OPS, is_set
from mlir_async_pipe.vocabulary.op_table import (
    function_queues,
    is_load,
    is_unseen_copy,
    needed_where,
)
from mlir_async_pipe.vocabulary.pure_ops import is_opaque_code
from mlir_async_pipe.vocabulary.rows import ASYNC_LDS, MemoryOrder, Scope, covers, least

# How far back token waits without a count are followed, in groups.
TOKEN_AGES = 16
# Every wait with a larger count keeps nothing apart that these do not.
LARGEST_TRACKED_WAIT = 64

# Root, writes, asynchronous, the spaces in which others may find it.
_Kind = tuple[int, bool, bool, frozenset[str]]


@dataclass
class Sites:
    """All accesses of one kernel.

    `shared`: other threads or blocks see global memory too. Of the roots `tracked` synchronous
    accesses are remembered up to the next barrier. `unlike`: threads that load from one place of workgroup memory may get
    different numbers; else those of the sites `trusted` get one, so long as nothing is found of these.
    """

    flow: Flow
    roots: Roots
    chip: Chip | None
    shared: bool = False
    tracked: frozenset[int] = frozenset()
    unlike: bool = True
    trusted: set[int] = field(default_factory=set)
    sites: list[Site] = field(default_factory=list)
    ops: list[Any] = field(default_factory=list)
    largest_wait: int = 0
    # The abstract queues of which a wait takes groups without saying how many stay.
    taken_queues: set[str] = field(default_factory=set)
    function_queues: frozenset[str] = field(default_factory=function_queues)
    _of: dict[tuple[Any, int], tuple[int, ...]] = field(default_factory=dict)
    _opaque: dict[tuple[Any, int, str], int] = field(default_factory=dict)
    # By block the outermost op around it of which independence is asserted.
    _asserted: dict[Any, Any] = field(default_factory=dict)
    _op_numbers: dict[Any, int] = field(default_factory=dict)
    _tracked: frozenset[int] = frozenset()

    def __post_init__(self) -> None:
        self._has_scopes = any(isinstance(step, Bracket) for step in self.flow.steps())
        unknown: set[int] = set()
        for run in self.flow.runs():
            if not run.makes_values:
                self._collect(run)
                if self.is_unknown(run):
                    unknown |= self.reachable(run.op, self.roots_given(run))
        self._find_conflicting(unknown)
        self._written = unknown | {site.root for site in self.sites if site.writes}

    def loads_constant(self, op: Any, frame: int) -> bool:
        """Whether an op loads from global memory that no thread of the kernel writes, as far as anybody knows what its ops
        do, or from a struct that the kernel is given by value, the same in all threads; a volatile or atomic load
        expects somebody who writes."""
        site = self._plain_load(op, frame)
        if site is None:
            return False
        known = self.roots.roots[site.root]
        given = known.kind in (*GIVEN, "global") and known.space == "global"
        by_value = not frame and known.space == "private" and parameter_of(known) is not None
        return (given or by_value) and not any(
            self.roots.may_alias(site.root, other) for other in self._written
        )

    def loads_alike(self, op: Any, frame: int) -> bool:
        """Whether threads that load from one place at once get one value: from memory that nobody writes; or from workgroup
        memory, if nothing is found of the load.

            if %tid == 0 { store %more, %flag }; barrier; %v = load %flag      one %v: what writes %flag in between races
        """
        if self.loads_constant(op, frame):
            return True
        site = self._plain_load(op, frame)
        if site is None or site.space != "workgroup" or self.unlike or site.needed:
            return False
        copied = any(other.asynchronous or row_of(other.op).by_proxy for other in self.sites)
        if copied or self._meet_elsewhere or not is_integer(op.results[0].type):
            return False
        self.trusted.update(self.of(op, frame))
        return True

    def _plain_load(self, op: Any, frame: int) -> Site | None:
        """The access of an op that only loads, and is neither volatile nor atomic, if all that is written is known."""
        numbers = self.of(op, frame)
        if not numbers or not is_load(op) or self._writes_unseen:
            return None
        site = self.sites[numbers[0]]
        return site if site.strong == NOT_STRONG else None

    @cached_property
    def _meet_elsewhere(self) -> bool:
        """Whether threads may come to one load in different intervals, as some of them meet alone, or an op may do anything:
        of these findings are left out."""
        return any(
            run.row.counts_waves
            or run.row.meeting is not None
            or run.row.phase is not None
            or not (run.row.known or run.makes_values or self.is_harmless(run.op))
            for run in self.flow.runs()
        )

    @cached_property
    def _writes_unseen(self) -> bool:
        """Whether an op may write memory that no access names: code, and copies out of workgroup memory by tensor maps."""
        return any(
            is_opaque_code(op)
            or is_unseen_copy(op)
            or ("tensor_map" in row.operands and {a.kind for a in row.accesses} == {"read"})
            for op, row in ((run.op, run.row) for run in self.flow.runs())
        )

    def _collect(self, run: Run) -> None:
        op, row, frame = run.op, run.row, run.frame
        if not row.described or (op, frame) in self._of:
            return
        if row.wait is not None:
            given = given_count(op)
            wanted = 1 if given is None else given + 1
            if row.wait.form != "count" and given is None:
                wanted = TOKEN_AGES
            if row.wait.form == "next" and given is None:
                self.taken_queues.add(self.own_queue(op))
            self.largest_wait = min(max(self.largest_wait, wanted), LARGEST_TRACKED_WAIT)
        numbers = []
        scope = enclosing(op, (SCOPE,)) if self._has_scopes else None
        queue = self.queue_name(scope, row_of(scope)) if scope is not None else None
        independent = self.independent(op) if row.accesses else None
        order = row.order(op)
        for access in accesses(op):
            asynchronous = access.asynchronous or (scope is not None and queue is not None)
            own_queue = (queue or self.queue_name(op, row)) if asynchronous else None
            memory, *indices = self.flow.numbers_of(frame, (access.memory, *access.indices))
            root = self.roots.number(root_of(access.memory), frame)
            what = (access.writes, access.kind == "atomic", self.roots.roots[root].space)
            site = Site(op, access, frame, asynchronous, own_queue, *what, independent)
            site.root, site.memory, site.indices = root, memory, tuple(indices)
            if order.strong and not asynchronous:
                site.strong = _strength(access, order)
            needed = needed_where(op)
            site.needed = needed and (self.flow.number(frame, needed[0]), needed[1])
            numbers.append(len(self.sites))
            self.sites.append(site)
        self._of[op, frame] = tuple(numbers)

    def independent(self, op: Any) -> int | None:
        """The kernel or loop whose author asserted independence: of a loop its number on an op of an
        expanded one; a number of its own, below 0, for what still is around the op as it was written.
        A kernel asserts it of all that its loops hold, too."""
        number, block = integer_attribute(op, INDEPENDENT), op.block
        if block not in self._asserted:
            around = [above for above in ancestors(op) if is_set(above.attributes, INDEPENDENT)]
            self._asserted[block] = around[-1] if around else None
        outermost = self._asserted[block]
        if outermost is not None and (number is None or outermost.name in KERNEL_OPS):
            return -1 - self.op_number(outermost)
        return number

    def _find_conflicting(self, unknown: set[int]) -> None:
        """Which accesses may conflict with others, or with what `unknown` ops do to some roots."""
        # When tensor copies happen their phases say (see `kernel`), and no path here.
        kinds: dict[int, _Kind] = {
            number: (site.root, site.writes, site.asynchronous, self.roots.spaces(site.root))
            for number, site in enumerate(self.sites)
            if not row_of(site.op).by_proxy
        }
        of_root: dict[int, list[_Kind]] = {}
        anything = ((root, True, False, self.roots.spaces(root)) for root in sorted(unknown))
        for kind in dict.fromkeys((*kinds.values(), *anything)):
            of_root.setdefault(kind[0], []).append(kind)
        near, out = {}, {}
        all_partners = self.roots.partners()
        # A path may lead an unknown pointer to a tracked root.
        self._tracked = self.tracked | {
            root
            for root, partners in enumerate(all_partners)
            if self.roots.roots[root].kind == "unknown" and not self.tracked.isdisjoint(partners)
        }
        for root, partners in enumerate(all_partners):
            met = [kind for partner in partners for kind in of_root.get(partner, ())]
            for kind in of_root.get(root, ()):
                near[kind] = any(self._conflict(kind, other) for other in met)
                # Through other blocks.
                out[kind] = self.shared and any(
                    "global" in kind[3] & k[3] and (kind[1] or k[1]) for k in met
                )
        for number, kind in kinds.items():
            site = self.sites[number]
            site.near, site.outside = near[kind], out[kind]
            site.logged = near[kind] and kind[3] != OWN

    def _conflict(self, one: _Kind, other: _Kind) -> bool:
        """Whether two kinds at memory that may be the same may race on one path: one is async, or threads meet in
        workgroup memory or at a tracked root."""
        threads = "workgroup" in one[3] & other[3] or (
            one[0] in self._tracked and other[0] in self._tracked
        )
        return (one[2] or other[2] or threads) and (one[1] or other[1])

    def of(self, op: Any, frame: int) -> tuple[int, ...]:
        return self._of.get((op, frame), ())

    def values_read(self, run: Run) -> tuple[int, ...]:
        """The values that executing an op with effects looks at: memory and subscripts of
        accesses that matter, tokens of a wait, the memory that an unknown op is given."""
        row = run.row
        if not row.known:
            if self.is_harmless(run.op):
                return ()
            given = zip(run.operands, run.op.operands, strict=True)
            return tuple(number for number, operand in given if is_memory(operand.type))
        found: list[int] = []
        for site in (self.sites[number] for number in self.of(run.op, run.frame)):
            if site.matters:
                found += [site.memory, *site.indices]
                found += [] if site.needed is None else [site.needed[0]]
        operand = count_operand(run.op) if row.wait is not None else None
        if operand is not None:
            found.append(self.flow.number(run.frame, operand))
        if self.reads_tokens(run.op, row):
            found += run.operands
        return tuple(found)

    def reads_tokens(self, op: Any, row: Row) -> bool:
        """Whether the tokens of a wait say how many groups it leaves in flight."""
        return (
            row.wait is not None
            and row.wait.form == "token"
            and self.is_abstract(op)
            and given_count(op) is None
        )

    def op_number(self, op: Any) -> int:
        """A number for any op that a finding may name."""
        if op not in self._op_numbers:
            self._op_numbers[op] = len(self.ops)
            self.ops.append(op)
        return self._op_numbers[op]

    def queue_name(self, op: Any, row: Row) -> str | None:
        """The FIFO of an op; abstract queues share the one of the chip, if there is one."""
        queue = None if op is None or row.queue is None else queue_of(op)
        if queue is None:
            return None
        if self.is_abstract(op) and self.chip is not None and self.chip.copy_queue is not None:
            return self.chip.copy_queue.name
        return queue.name

    def own_queue(self, op: Any) -> str:
        """The abstract queue of an op, "" if it has none."""
        queue = queue_of(op) if self.is_abstract(op) else None
        return "" if queue is None else queue.name

    def is_abstract(self, op: Any) -> bool:
        return bool(op.name.startswith("async_pipe."))

    def counted_queues(self, op: Any) -> tuple[str, ...]:
        """The queues whose copies a counter wait counts."""
        own = self.queue_name(op, row_of(op))
        return () if own is None else (own, ASYNC_LDS.name)

    @cached_property
    def copies_counted(self) -> frozenset[str]:
        """The queues on which some wait counts copies, not groups."""
        ops = {op for op, _ in self._of if row_of(op).completion == "counter"}
        return frozenset(name for op in ops for name in self.counted_queues(op))

    @cached_property
    def alike(self) -> list[int]:
        """For each access one that stands for all that conflict like it: copies in prologue and kernel,
        each with its place among those since the last commit, so that those of one group differ."""
        found = list(range(len(self.sites)))
        first: dict[Hashable, int] = {}
        for block in self.flow.blocks:
            since: Counter[Hashable] = Counter()
            for step in block.steps:
                if not isinstance(step, Run) or not step.row.described:
                    continue
                if step.row.commits == "group":
                    since.clear()
                for number in self.of(step.op, step.frame):
                    site = self.sites[number]
                    if site.asynchronous:
                        where = site.frame, site.root, site.queue
                        kind = (*where, site.manner, site.atomic, site.independent)
                        found[number] = first.setdefault((kind, since[kind]), number)
                        since[kind] += 1
        return found

    @cached_property
    def some_alike(self) -> bool:
        return any(number != first for number, first in enumerate(self.alike))

    def opaque(self, op: Any, frame: int, space: str = "global") -> int:
        """The site of an op that is not in the vocabulary: it may write anything in `space`."""
        if (op, frame, space) not in self._opaque:
            self._opaque[op, frame, space] = len(self.sites)
            what = (False, None, True, False, space, self.independent(op))
            # Through workgroup memory, and where threads may meet, others see what it did.
            logged = space == "workgroup" or bool(self.tracked)
            self.sites.append(Site(op, None, frame, *what, logged=logged))
        return self._opaque[op, frame, space]

    def is_unknown(self, run: Run) -> bool:
        """Whether an op may touch any memory that it can reach, since nobody knows what it does. Of code and
        copies that nobody can look into nothing is reported wherever they stand (see `unfollowed`)."""
        row = run.row
        if row.known or row.meeting is not None:
            return False
        ends_copies = row.opaque is not None and row.opaque.ends_copies
        reported = is_opaque_code(run.op) or is_unseen_copy(run.op)
        return not (ends_copies or reported or self.is_harmless(run.op))

    def roots_given(self, run: Run) -> set[int]:
        """The roots of the memrefs and pointers among the operands of an op."""
        given = (operand for operand in run.op.operands if is_memory(operand.type))
        return {self.roots.number(root_of(memory), run.frame) for memory in given}

    def reachable(self, op: Any, given: set[int]) -> set[int]:
        """The roots that an unknown op may touch: what it was given; a call, or an op that was
        given nothing, what is not ours, too."""
        if given and op.name not in CALL_OPS:
            return given
        # Memory of these kinds nobody outside the function can reach.
        local = ("allocation", "attribution")
        return given | {n for n, root in enumerate(self.roots.roots) if root.kind not in local}

    def is_harmless(self, op: Any) -> bool:
        """Ops outside the vocabulary that touch no memory which a copy could."""
        if op.name in DEALLOCATION_OPS:
            # Workgroup memory stays until the block has ended.
            return space_of(op.operands[-1]) == "workgroup"
        row = row_of(op)
        if row.phase is not None or row.tensor not in (None, "alloc"):
            # Threads meet there by atomics; what they wait for is judged by `phases`.
            return True
        return row.harmless or row.pure


def _strength(access: Access, order: MemoryOrder) -> Strength:
    if access.extent is None:
        return Strength(order.scope, None)
    element = 1 if is_pointer(access.memory) else element_bytes(access.memory)
    return Strength(order.scope, prod(access.extent) * element or None)


class Strength(NamedTuple):
    """A volatile or atomic access does not race with others of threads of its `scope`, if they have as many `bytes`
    (None: not known); that of a plain one is its thread (PTX ISA, "Morally strong operations")."""

    scope: Scope
    bytes: int | None


NOT_STRONG = Strength("thread", None)


class Manner(NamedTuple):
    writes: bool
    strong: Strength


def conflict(one: Manner, other: Manner, threads: Scope) -> bool | None:
    """Whether two accesses of different `threads` of a block, or of the device, race if they meet; None: it is not
    known, of strong ones of a scope in which some of the threads are, and of those of different sizes."""
    if not (one.writes or other.writes):
        return False
    if NOT_STRONG in (one.strong, other.strong):
        return True
    scope = least(one.strong.scope, other.strong.scope)
    if covers(scope, threads):
        sizes = {one.strong.bytes, other.strong.bytes} - {None}
        return None if len(sizes) > 1 else False
    some = "warp" if threads == "block" else "cluster"
    return None if scope == some else True


@dataclass(eq=False)
class Site:
    """One access of one op in one frame. `space` is that of the memory it names; `independent`
    the loop whose author asserted that what is undecided of its accesses is no conflict. It names the `root` in the
    IR, by the value numbers of its `memory` and its subscripts `indices`; all of these are left out of an op that is not
    in the vocabulary. What is remembered on a path may conflict with it if it is `near`, a later copy of another thread
    if it is `logged`, and if it is `outside` other blocks, or any thread of this one, may. Of what it reads only threads
    in which a condition, by its value number, holds or not have need: `needed`."""

    op: Any
    access: Any
    frame: int
    asynchronous: bool
    queue: str | None
    writes: bool
    atomic: bool
    space: str
    independent: int | None = None
    strong: Strength = NOT_STRONG
    root: int = -1
    memory: int = -1
    indices: tuple[int, ...] = ()
    near: bool = False
    logged: bool = False
    outside: bool = False
    needed: tuple[int, bool] | None = None

    @property
    def matters(self) -> bool:
        """Whether any other access may ever conflict with this one."""
        return self.near or self.outside

    @cached_property
    def counter(self) -> str | None:
        """The counter of the hardware that counts it beside its queue."""
        counter = row_of(self.op).counter
        return None if counter is None else counter.name

    @cached_property
    def by_wave(self) -> bool:
        """Whether a wave does it once for all of its lanes."""
        return row_of(self.op).by_wave

    @cached_property
    def manner(self) -> Manner:
        return Manner(self.writes, self.strong)

    @property
    def stored(self) -> Any | None:
        """The value that a plain store stores."""
        if not self.writes or self.asynchronous or self.atomic:
            return None
        group = groups_of(self.op).get("value", range(0))
        return self.op.operands[group.start] if len(group) == 1 else None


# Each call has others of these.
_OF_A_FRAME = ("allocation", "unknown", "argument")


@dataclass
class Roots:
    """All pieces of memory of a kernel, by number. `noalias_maps`: no two tensor maps that it is given
    describe one memory. `passed_in`: what calls hand to the arguments of each frame, as (frame, value)."""

    assume_noalias_arguments: bool = False
    noalias_maps: bool = False
    passed_in: Mapping[tuple[int, Any], tuple[int, Any]] = field(default_factory=dict)
    roots: list[Root] = field(default_factory=list)
    _numbers: dict[tuple[Any, ...], int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # Copies in flight are looked up in pairs: each question is asked once.
        self.may_alias, self.threads_may_meet = cache(self._may_alias), cache(self._may_meet)
        # The address spaces in which others may find a root.
        self.spaces = cache(lambda number: self.roots[number].spaces)

    def number(self, root: Root, frame: int) -> int:
        """The number of a root; allocations of a callee are its frame's own, its arguments what its
        caller hands it, or else any memory, whatever they assert of each other."""
        while root.kind == "argument" and (frame, root.value) in self.passed_in:
            frame, value = self.passed_in[frame, root.value]
            root = root_of(value)
        if frame and root.kind in ("argument", "address"):
            root = root._replace(kind="unknown", noalias=False)
        own = frame if root.kind in _OF_A_FRAME or root.space == "private" else 0
        key = (root.kind, root.key, own)
        found = self._numbers.get(key)
        if found is None:
            found = self._numbers[key] = len(self.roots)
            self.roots.append(root)
        return found

    def is_own(self, number: int) -> bool:
        """Whether a root is a thread's own, which nobody else reaches."""
        return self.spaces(number) == OWN

    def _may_meet(self, a: int, b: int) -> bool:
        """Whether two threads may reach one memory by two roots that may be the same."""
        return threads_may_meet(self.roots[a], self.roots[b])

    def _may_alias(self, a: int, b: int) -> bool:
        if a == b:
            return True
        one, other = self.roots[min(a, b)], self.roots[max(a, b)]
        if (one.kind, one.key) == (other.kind, other.key):
            return one.kind == "unknown"
        return may_alias(one, other, assume_noalias_arguments=self.assume_noalias_arguments)

    def partners(self) -> list[list[int]]:
        """By number, all roots that a root may share memory with, itself among them.

        Two pieces of memory that are reached only through their own values never meet, so only the others (arguments,
        unknown ones) are held against every root: 1000 buffers and 2 arguments are 4000 questions, not 10^6."""
        open_ones = [number for number, root in enumerate(self.roots) if not root.owned]
        found = []
        for number, root in enumerate(self.roots):
            asked = open_ones if root.owned else range(len(self.roots))
            met = [other for other in asked if other != number and self.may_alias(number, other)]
            found.append([number, *met])
        return found
