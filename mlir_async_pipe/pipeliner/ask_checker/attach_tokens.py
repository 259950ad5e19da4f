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
from functools import partial
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    Value,
    attributes_of,
    before,
    create,
    functions,
    integer_attribute,
    operations,
    walk,
)
from mlir_async_pipe.chips.target import Target, target_for
from mlir_async_pipe.facts.flow.conditions import Conditions
from mlir_async_pipe.facts.flow.flow_graph import FlowGraph
from mlir_async_pipe.facts.flow.items import Item
from mlir_async_pipe.facts.flow.solver import Semiring, Solver
from mlir_async_pipe.pipeliner.ask_checker.relax_waits import relax
from mlir_async_pipe.session import passes
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
from mlir_async_pipe.waits.ssa.carry import Carrier, Skeleton, Variables, can_carry
from mlir_async_pipe.waits.write_counts import wait_rule

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
    """Attach tokens to the waits of one queue in one function."""
    copies = None if target is None else target.chip.copy_queue
    bare = [op for op in waits if token_form(op, copies) is None]
    for op in bare:
        session.diagnostics.remark(
            f"no op with a token stands for groups of {queue.name}"
            + ("" if target is not None else "; with a chip whose copies use it there may be"),
            code="no-token-form",
            at=op,
        )
    if bare:
        return
    if not can_carry(function):
        for op in waits:
            session.diagnostics.remark(
                "branches of the LLVM dialect hand on no tokens; attach them before it is lowered",
                code="no-token-form",
                at=op,
            )
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
                session.diagnostics.remark(
                    "the wait retires no group on every path: fewer than "
                    f"{_count(item.op) + 1} are known here",
                    code="no-group",
                    at=item.op,
                )
    skeleton = Skeleton(
        function, lambda op: known.changes(op) or _waits_on(op, queue, target), known.changes
    )
    if any(map(any, retiring.values())):
        _Attacher(skeleton, known, depth, _TokenWidths(graph, latest, depth), copies, retiring).run(
            []
        )


def _waits_on(op: Operation, queue: Queue, target: Target | None) -> bool:
    return has_only_a_count(op) and queue_of(op, target) == queue


def _count(op: Operation) -> int:
    return max(0, integer_attribute(op, wait_rule(op).count) or 0)


@dataclass(frozen=True)
class _TokenWidths:
    """How many groups are known at a point, at most `depth`: the most of all iterations of the
    loops around it. What the other iterations do not have is no group: no wait reads it."""

    graph: FlowGraph
    latest: Solver[Known]
    depth: int

    def at(self, block: Block) -> int:
        found = (
            self.latest.starts.get(self.graph.nodes[block]) if block in self.graph.nodes else None
        )
        return 0 if found is None else min(self.depth, found.most)

    def after_op(self, op: Operation) -> int:
        """After an op with regions, which are found by their first block."""
        item = self.graph.nodes[op.regions[0].blocks[0]].frame.item
        return min(self.depth, self.latest.after(item).most) if item in self.latest.before else 0


@dataclass
class _Attacher(Carrier):
    """Carries the history of one queue through one function, and gives it to the waits."""

    skeleton: Skeleton
    known: History
    depth: int
    widths: _TokenWidths
    copies: Queue | None
    retiring: dict[Block, list[bool]]
    kind: Any = field(init=False)
    _no_group: Value | None = None

    def __post_init__(self) -> None:
        self.kind = ir.Type.parse(TOKEN_TYPE, self.skeleton.root.context)

    def over(self, op: Operation, variables: Variables) -> Variables:
        """A commit comes first in the history, a wait takes from it."""
        row = row_of(op)
        if row.wait is not None:
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
        name = token_form(op, self.copies)
        assert name is not None
        return _group_with_token(op, name, self.kind)

    def _wait(self, op: Operation, token: Value) -> None:
        name = token_form(op, self.copies)
        assert name is not None
        attributes = attributes_of(op) if name == op.name else {}
        if name == "async_pipe.wait_queue":
            i64 = ir.IntegerType.get_signless(64, op.context)
            attributes.setdefault("queue", ir.IntegerAttr.get(i64, 0))
        count = _count(op)
        made = create(name, [token], (), attributes, ip=before(op), loc=op.location)
        rule = wait_rule(made)
        kind = ir.IntegerType.get_signless(rule.count_bits, op.context)
        made.attributes[rule.count] = ir.IntegerAttr.get(kind, count)
        op.erase()

    def width_at(self, block: Block) -> int:
        """As many groups as are known on every path to the block."""
        return self.widths.at(block)

    def passed_on(self, variables: Variables, width: int) -> Variables:
        """What the first iterations of such a loop do not have is no group: no wait reads it."""
        missing = max(0, width - len(variables))
        return [*variables[:width], *[self._placeholder() for _ in range(missing)]]

    def _placeholder(self) -> Value:
        if self._no_group is None:
            root = self.skeleton.root
            ip = ir.InsertionPoint.at_block_begin(root.regions[0].blocks[0])
            self._no_group = no_group(ip, root.location)
        return self._no_group

    def width_after(self, op: Operation) -> int:
        """As many groups as are known after every branch."""
        return self.widths.after_op(op)

    def after_apart(self, op: Operation, variables: Variables) -> Variables:
        """Another thread's groups are none of this one's; which others there are is not known."""
        row = REGION_ROWS.get(op.name)
        if row is not None and row.flow == "isolated":
            return variables
        return [] if any(map(self.skeleton.changes, op.regions)) else variables


def _group_with_token(op: Operation, name: str, kind: Any) -> Value:
    """Put the op `name` in the place of the commit `op`; its token."""
    copies: list[Value] = []
    if name == "async_pipe.commit_queue":
        i64 = ir.IntegerType.get_signless(64, op.context)
        attributes = {"queue": ir.IntegerAttr.get(i64, 0)}
    else:
        copies, empty = _copies_since_last_commit(op)
        attributes = {}
        if not copies:
            attributes[NO_COPIES if empty else UNNAMED_COPIES] = ir.UnitAttr.get(op.context)
    made = create(name, copies, [kind], attributes, ip=before(op), loc=op.location)
    op.erase()
    return made.results[0]


def _copies_since_last_commit(commit: Operation) -> tuple[list[Value], bool]:
    """The tokens of the copies in the block that the group takes in, and whether there certainly
    are no others."""
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
    """The domain: `most` of what comes to a point is the number of groups that are known there.

    With `latest`, a loop with a constant trip count is in its last iteration, which knows the
    most: all of that has to be forwarded, from the first iteration on.
    """

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
        queues = (self.queue, None)
        return row.commits is not None and queue_of(op, self.target) in queues

    def has_token(self, op: Operation) -> bool:
        """Whether an op makes a group of the queue, and denotes it by a token, or its other form
        does."""
        row = row_of(op)
        if row.commits != "group" or queue_of(op, self.target) != self.queue:
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
        """What both paths know."""
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
