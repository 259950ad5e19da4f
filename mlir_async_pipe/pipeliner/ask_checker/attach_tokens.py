"""Pass `async-pipe-tokens`: gives count-form waits the tokens of the groups that they retire.

    nvvm.cp.async.commit.group            %a = nvgpu.device_async_create_group
    nvvm.cp.async.commit.group      -->   %b = nvgpu.device_async_create_group
    nvvm.cp.async.wait.group 1            nvgpu.device_async_wait %a {numGroups = 1 : i32}

A wait that lets N groups stay in flight retires the (N + 1)-th youngest group and all older
ones, so it gets the token of that one. A *history* is the list of the youngest groups at a
point, youngest first; loops, branches and blocks hand it on. Where some path has fewer than
N + 1 groups the wait retires none of them on every path and stays as it is. So many groups are known:

    commit   one more        a join   the fewer of both        a call that may commit   none
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    KERNEL_OPS,
    Block,
    Operation,
    OpWriter,
    Value,
    attributes_of,
    enclosing,
    function_name,
    functions,
    integer_attribute,
    operations,
    set_integer,
    unchanged,
    walk,
)
from mlir_async_pipe.checker.selection import callable_functions, releases_flags
from mlir_async_pipe.chips.target import Target, target_for, with_target
from mlir_async_pipe.facts.flow.conditions import Conditions
from mlir_async_pipe.facts.flow.flow_graph import FlowGraph, Item
from mlir_async_pipe.facts.flow.solver import Semiring, Solver
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.annotations import requested_loops
from mlir_async_pipe.pipeliner.dependence.surroundings import Surroundings, own_pipeline
from mlir_async_pipe.pipeliner.expand.expand_pass import ExpandOptions
from mlir_async_pipe.pipeliner.schedule.schedule_pass import ScheduleOptions
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Diagnostic, Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Queue, has_only_a_count, queue_of, row_of
from mlir_async_pipe.vocabulary.async_ops import (
    NO_COPIES,
    TOKEN_TYPE,
    UNNAMED_COPIES,
    no_group,
    token_form,
)
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, REGION_ROWS
from mlir_async_pipe.vocabulary.products import PRODUCTS_LEFT, products_left
from mlir_async_pipe.waits.count import wait_rule
from mlir_async_pipe.waits.ssa.carry import Carrier, Skeleton, Variables, can_carry

DEEPEST_HISTORY = 64


@dataclass(frozen=True)
class TokensOptions:
    """Options of `async-pipe-tokens`.

    `chip` says where the module is going: queues that have no op with a token of their own get
    the abstract ops, if they are the queue of that chip's copies. `relax` raises the counts
    first, as far as the checker proves every access, so that a wait gets the token of the group
    that is needed after it.
    """

    chip: str = ""
    relax: bool = False


@passes.register(
    "async-pipe-tokens",
    "give count-form waits the tokens of the groups that they retire",
    TokensOptions,
)
def attach_tokens(module_op: Any, options: TokensOptions, session: Session) -> None:
    """Attach tokens in every function; what cannot be followed stays, with a remark."""
    target = target_for(options, session)
    if options.relax:
        relax(module_op, target, session)
    for function in functions(module_op):
        waits: dict[Queue, list[Operation]] = {}
        for op in walk(function):
            queue = queue_of(op, target) if has_only_a_count(op) else None
            if queue is not None:
                waits.setdefault(queue, []).append(op)
        for queue, found in waits.items():
            _attach(function, queue, found, target, session)


def _attach(
    function: Operation,
    queue: Queue,
    waits: list[Operation],
    target: Target | None,
    session: Session,
) -> None:
    copies = None if target is None else target.chip.copy_queue
    bare = [op for op in waits if token_form(op, copies) is None]
    for op in bare:
        more = "" if target is not None else "; with a chip whose copies use it there may be"
        said = f"no op with a token stands for groups of {queue.name}{more}"
        session.diagnostics.remark(said, code="no-token-form", at=op)
    if bare:
        return
    if not can_carry(function):
        for op in waits:
            said = (
                "branches of the LLVM dialect hand on no tokens; attach them before it is lowered"
            )
            session.diagnostics.remark(said, code="no-token-form", at=op)
        return
    depth = min(DEEPEST_HISTORY, 1 + max(_count(op) for op in waits))
    graph = FlowGraph(function, partial(queue_of, target=target))
    events = [*graph.commits, *graph.calls, *graph.waits]
    conditions = Conditions(graph)
    known = History(queue, target)
    lengths = Solver(conditions, events, known, lambda root: NOTHING)
    latest = Solver(conditions, events, replace(known, latest=True), lambda root: NOTHING)
    retiring: dict[Block, list[bool]] = {}
    for item in graph.waits:
        assert item.node is not None
        # Nothing is said of a region that never runs.
        if item.node.frame.entry in lengths.starts and _waits_on(item.op, queue, target):
            answer = _count(item.op) < min(depth, lengths.before.get(item, NOTHING).most)
            retiring.setdefault(item.node.block, []).append(answer)
            if not answer:
                fewer = f"fewer than {_count(item.op) + 1} are known here"
                said = f"the wait retires no group on every path: {fewer}"
                session.diagnostics.remark(said, code="no-group", at=item.op)
    skeleton = Skeleton(
        function, lambda op: known.changes(op) or _waits_on(op, queue, target), known.changes
    )
    if any(map(any, retiring.values())):
        _Attacher(skeleton, known, depth, graph, latest, copies, retiring).run([])


def _waits_on(op: Operation, queue: Queue, target: Target | None) -> bool:
    return has_only_a_count(op) and queue_of(op, target) == queue


def _count(op: Operation) -> int:
    return max(0, integer_attribute(op, wait_rule(op).count) or 0)


@dataclass
class _Attacher(Carrier):
    """Carries the history of one queue through one function, and gives it to the waits. How many groups are known
    at a point, at most `depth`, is the most of all iterations of the loops around it (`latest`)."""

    skeleton: Skeleton
    known: History
    depth: int
    graph: FlowGraph
    latest: Solver[Known]
    copies: Queue | None
    retiring: dict[Block, list[bool]]
    kind: Any = field(init=False)

    def __post_init__(self) -> None:
        self.kind = ir.Type.parse(TOKEN_TYPE, self.skeleton.root.context)

    def over(self, op: Operation, variables: Variables) -> Variables:
        """A commit comes first in the history, a wait takes from it."""
        if row_of(op).wait is not None:
            # A block in a loop that never runs has no answers.
            answers = self.retiring.get(op.block)
            if answers and answers.pop(0):
                self._wait(op, variables[_count(op)])
            return variables
        if not self.known.has_token(op):
            return []
        token = op.results[0] if len(op.results) else self._commit(op)
        return [token, *variables][: self.depth]

    def _commit(self, op: Operation) -> Value:
        """Put an op with a token in the place of a commit; its token."""
        name = token_form(op, self.copies)
        assert name is not None
        copies: list[Value] = []
        if name == "async_pipe.commit_queue":
            attributes = {"queue": _first_queue(op)}
        else:
            copies, empty = _copies_since_last_commit(op)
            which = NO_COPIES if empty else UNNAMED_COPIES
            attributes = {} if copies else {which: ir.UnitAttr.get(op.context)}
        token = OpWriter.before(op).make(name, copies, self.kind, attributes)
        op.erase()
        return token

    def _wait(self, op: Operation, token: Value) -> None:
        name = token_form(op, self.copies)
        assert name is not None
        attributes = attributes_of(op) if name == op.name else {}
        if name == "async_pipe.wait_queue":
            attributes.setdefault("queue", _first_queue(op))
        made = OpWriter.before(op).op(name, [token], (), attributes)
        rule = wait_rule(made)
        set_integer(made, rule.count, _count(op), rule.count_bits)
        op.erase()

    def width_at(self, block: Block) -> int:
        """As many groups as are known on every path to the block."""
        node = self.graph.nodes.get(block)
        found = None if node is None else self.latest.starts.get(node)
        return 0 if found is None else min(self.depth, found.most)

    def width_after(self, op: Operation) -> int:
        """As many groups as are known after every branch of an op, which is found by its first block."""
        item = self.graph.nodes[op.regions[0].blocks[0]].frame.item
        return min(self.depth, self.latest.after(item).most) if item in self.latest.before else 0

    def passed_on(self, variables: Variables, width: int) -> Variables:
        """What the first iterations of such a loop do not have is no group: no wait reads it."""
        missing = max(0, width - len(variables))
        return [*variables[:width], *[self._no_group for _ in range(missing)]]

    @cached_property
    def _no_group(self) -> Value:
        root = self.skeleton.root
        return no_group(ir.InsertionPoint.at_block_begin(root.regions[0].blocks[0]), root.location)

    def after_apart(self, op: Operation, variables: Variables) -> Variables:
        """Another thread's groups are none of this one's; which others there are is not known."""
        row = REGION_ROWS.get(op.name)
        if row is not None and row.flow == "isolated":
            return variables
        return [] if any(map(self.skeleton.changes, op.regions)) else variables


def _first_queue(op: Operation) -> Any:
    return ir.IntegerAttr.get(ir.IntegerType.get_signless(64, op.context), 0)


def _copies_since_last_commit(commit: Operation) -> tuple[list[Value], bool]:
    """The tokens of the copies in the block that the group takes in, and whether there are certainly no others."""
    copies: list[Value] = []
    others = False
    siblings = operations(commit.block)
    for op in reversed(siblings[: siblings.index(commit)]):
        row = row_of(op)
        if row.commits == "group":
            return copies[::-1], not others
        if len(op.regions) or op.name in CALL_OPS:
            others = True
        elif row.asynchronous(op):
            if row.token and not list(op.results[0].uses):
                copies.append(op.results[0])
            else:
                others = True
    return copies[::-1], False


ENDLESS = 1 << 60


class Known(NamedTuple):
    """x -> min(x + more, most): what becomes of the number of groups that are known."""

    more: int = 0
    most: int = ENDLESS


SAME = Known()
NEVER = Known(ENDLESS, ENDLESS)
NOTHING = Known(ENDLESS, 0)


@dataclass(frozen=True)
class History(Semiring[Known]):
    """The domain: `most` of what comes to a point is the number of groups that are known there. With `latest`, a
    loop with a constant trip count is in its last iteration, which knows the most: all of that has to be forwarded,
    from the first iteration on."""

    queue: Queue
    target: Target | None
    latest: bool = False
    unit: Known = SAME
    never: Known = NEVER
    outside: Known = NOTHING

    def changes(self, op: Operation) -> bool:
        """Whether an op commits to the queue, or may."""
        if op.name in CALL_OPS:
            return self.queue.scope == "thread"
        row = row_of(op)
        return row.commits is not None and queue_of(op, self.target) in (self.queue, None)

    def has_token(self, op: Operation) -> bool:
        """Whether an op makes a group of the queue, which it or its other form denotes by a token."""
        if row_of(op).commits != "group" or queue_of(op, self.target) != self.queue:
            return False
        copies = None if self.target is None else self.target.chip.copy_queue
        return len(op.results) > 0 or token_form(op, copies) is not None

    def over(self, item: Item) -> Known:
        """A group is known once it is committed; what a call does is not."""
        if self.has_token(item.op):
            return Known(more=1)
        return NOTHING if self.changes(item.op) else self.unit

    def then(self, first: Known, later: Known) -> Known:
        if self.never in (first, later):
            return self.never
        return Known(
            min(ENDLESS, first.more + later.more), min(first.most + later.more, later.most)
        )

    def join(self, first: Known, second: Known) -> Known:
        return Known(min(first.more, second.more), min(first.most, second.most))

    def star(self, body: Known, most: int | None = None) -> Known:
        """The fewest of all iterations, or those of the last one."""
        if self.latest and most is not None:
            return self.power(body, most)
        return super().star(body, most)

    def is_apart(self, item: Item) -> bool:
        """Groups are forwarded where an op can be given more values to carry."""
        return not item.row.carries

    def past(self, item: Item, through: list[Known]) -> Known:
        """Which groups were committed there is not known."""
        return self.unit if all(worth == self.unit for worth in through) else NOTHING


# Larger counts -----------------------------------------------------------------------------------
#
# Raises the counts of waits that name no group, as far as every access stays covered.
#
#     copy of row i + 1; commit                      copy of row i + 1; commit
#     wait for all but 0 groups              -->     wait for all but 1 groups
#     use row i                                      use row i
#
# Such a wait does not say which group it is for, so the checker is asked: a count is raised by one as long as every
# access of the module is proven; what it says of one more is the witness that the count is exact. Waits after which
# nothing depends on any count stay, and so do all where a flag is released, which may tell other threads what was
# retired. Groups of asynchronous readers count too: products of warpgroups, which may wait by themselves
# (`waitGroup`), and bulk stores, whose tiles may be written anew.


# Groups more than given that are tried; a wait that may leave as many is not needed at all.
MOST_TRIED = 16
# A module without kernels is not proven.
NOT_CHECKED = Diagnostic("remark", "there is nothing that the checker looks at", "")


@dataclass(frozen=True)
class RelaxedWait:
    """One wait: the groups of `queue` that it left in flight, and those that it leaves now. `because` is what the
    checker says of one more, at `because_place`; "" where nothing depends on it, or the queue cannot leave more."""

    place: Place
    queue: str
    before: int
    after: int
    because: str = ""
    because_place: Place | None = None


def relax(
    root: Any, target: Target | None, session: Session, functions: frozenset[str] | None = None
) -> list[RelaxedWait]:
    """Raise the counts of the count-form waits below `root`, in textual order; only those in `functions` (by name)
    if they are given. Nothing is raised in a module of which the checker cannot prove every access."""
    trial = root.operation.clone(ip=False)
    if _wrong(trial, target) is not None:
        return []
    found = []
    waits, callees = _waits(root), callable_functions(root.operation)
    kernels = {enclosing(wait, KERNEL_OPS) for wait in waits} - {None}
    releasing = {kernel for kernel in kernels if releases_flags(kernel, callees)}
    for wait, tried in zip(waits, _waits(trial), strict=True):
        if functions is not None and function_name(wait) not in functions:
            continue
        if enclosing(wait, KERNEL_OPS) in releasing:
            continue
        before = _given_count(wait)
        after, wrong = _largest(tried, before, trial, target)
        if after > before:
            _write(wait, after)
            queue = queue_of(wait, target)
            because = ("", None) if wrong is None else (wrong.message, wrong.place)
            name = "" if queue is None else queue.name
            found.append(RelaxedWait(Place.of(wait), name, before, after, *because))
            session.record("relaxed", found[-1])
            said = f"the wait leaves {after} in flight instead of {before}: every access after it is covered all the same"
            notes = ((f"with one more {because[0]}", because[1]),) if because[0] else ()
            session.diagnostics.remark(said, code="relaxed-wait", at=wait, notes=notes)
    return found


def _waits(root: Any) -> list[Operation]:
    """The waits with a count and no tokens for groups, and products that wait by themselves."""
    return [
        op
        for op in walk(root)
        if products_left(op) is not None
        or (has_only_a_count(op) and row_of(op).completion == "group")
    ]


def _largest(
    wait: Operation, given: int, root: Any, target: Target | None
) -> tuple[int, Diagnostic | None]:
    """The largest count with which the checker proves `root`, where it is left, and what is wrong with one more."""
    queue = queue_of(wait, target)
    limit = given + MOST_TRIED
    if queue is not None and queue.largest_count is not None:
        limit = min(limit, queue.largest_count)
    for count in range(given, limit):
        _write(wait, count + 1)
        wrong = _wrong(root, target)
        if wrong is not None:
            _write(wait, count)
            return count, wrong
    _write(wait, given)
    return given, None


def _wrong(root: Any, target: Target | None) -> Diagnostic | None:
    """The first thing that keeps the checker from proving every access, None if it does."""
    session = Session(target=target)
    try:
        passes.run_one("async-pipe-check", root, session)
    except AsyncPipeError as error:
        return error.diagnostic
    report = session.report()
    checks = report.of("checks")
    if checks and all(entry.unsafe == entry.unknown == 0 for entry in checks):
        return None
    reported = [item for item in report.diagnostics if item.severity != "remark"]
    return next(iter(reported), NOT_CHECKED)


def _given_count(wait: Operation) -> int:
    left = products_left(wait)
    return left if left is not None else integer_attribute(wait, wait_rule(wait).count) or 0


def _write(wait: Operation, count: int) -> None:
    if products_left(wait) is not None:
        set_integer(wait, PRODUCTS_LEFT, count, 64)
        return
    rule = wait_rule(wait)
    set_integer(wait, rule.count, count, rule.count_bits)


@dataclass(frozen=True)
class RecountOptions(ExpandOptions, ScheduleOptions):
    """Options of `async-pipe-recount`: those of the passes after it, with which it tries them."""


@passes.register(
    "async-pipe-recount",
    "give annotated loops that are pipelined already larger counts",
    RecountOptions,
)
def run_recount(module: Any, options: RecountOptions, session: Session) -> None:
    """Annotated loops that are pipelined already keep their pipeline and get better counts.

    A loop that goes on with its own prologue is refused (`already-pipelined`), unless its waits leave
    fewer groups in flight than they could. Then that is what it gets: the annotation goes, token
    waits become exact, and waits that name no group are relaxed as far as the checker proves them.

    Raises PipelineError (already-pipelined) where that is nothing, of loops that cannot be pipelined once more.
    """
    session = with_target(options, session)
    with unchanged():
        around, loops = Surroundings(), requested_loops(module)
        own = [n for n, loop in enumerate(loops) if own_pipeline(loop, around) is not None]
    if not own or _refused(module.operation.clone(ip=False), options, session) is None:
        return
    refused = [(loops[number], _refusal(module, number, options, session)) for number in own]
    kept = [(loop, error) for loop, error in refused if error is not None]
    if kept:
        _keep(module, kept, session)


def _refused(trial: Operation, options: RecountOptions, session: Session) -> AsyncPipeError | None:
    """The error that keeps a module from being pipelined, None if there is none."""
    try:
        passes.run_all(passes.PIPELINING, trial, options, session.silent())
    except AsyncPipeError as error:
        return error
    return None


def _keep(module: Any, kept: list[tuple[Operation, AsyncPipeError]], session: Session) -> None:
    functions = frozenset(function_name(loop) for loop, _ in kept)
    better = _gain_of_tokens(module, functions, session) + [
        (str(wait.place), wait.before, wait.after)
        for wait in relax(module, session.target, session, functions)
    ]
    for loop, error in kept:
        if not better:
            raise error
        counts = ", ".join(f"{before} -> {after} ({place})" for place, before, after in better)
        said = f"the loop is pipelined already and keeps its pipeline; larger counts: {counts}"
        session.diagnostics.remark(said, code="recounted", at=loop)
        names.forget(loop)


def _refusal(
    module: Any, number: int, options: RecountOptions, session: Session
) -> AsyncPipeError | None:
    """The error that refuses a loop as pipelined already; the others are left out of it."""
    trial = module.operation.clone(ip=False)
    for other, loop in enumerate(requested_loops(trial)):
        if other != number:
            names.forget(loop)
    error = _refused(trial, options, session)
    return error if error is not None and error.code == "already-pipelined" else None


def _gain_of_tokens(
    module: Any, functions: frozenset[str], session: Session
) -> list[tuple[str, int, int]]:
    """The token waits of `functions` that get a larger count than they have: place, count before and after."""
    places = {str(Place.of(op)) for op in walk(module) if function_name(op) in functions}
    counted = Session(target=session.target, witnesses=False)
    passes.run_one("async-pipe-count-waits", module.operation.clone(ip=False), counted)
    return [
        (str(record.place), record.given or 0, record.count)
        for record in counted.report().of("waits")
        if record.count > (record.given or 0) and str(record.place) in places
    ]
