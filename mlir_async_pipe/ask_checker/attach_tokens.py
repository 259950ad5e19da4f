"""Pass `async-pipe-tokens`: gives count-form waits the tokens of the groups that they retire.

    nvvm.cp.async.commit.group            %a = nvgpu.device_async_create_group
    nvvm.cp.async.commit.group      -->   %b = nvgpu.device_async_create_group
    nvvm.cp.async.wait.group 1            nvgpu.device_async_wait %a {numGroups = 1 : i32}

A wait that lets N groups stay in flight retires the (N + 1)-th youngest group and all older
ones, so it gets the token of that one. A *history* is the list of the youngest groups at a
point, youngest first; loops, branches and blocks hand it on. Where some path has fewer than
N + 1 groups the wait retires none of them on every path and stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from mlir_async_pipe.ask_checker.relax_waits import relax
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
    walk,
)
from mlir_async_pipe.chips.target import Target, target_for
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import Queue, has_only_a_count, queue_of, row_of
from mlir_async_pipe.vocabulary.async_ops import TOKEN_TYPE, token_form
from mlir_async_pipe.vocabulary.placeholder_token import no_group
from mlir_async_pipe.waits.ssa.carry import Carrier, Variables, can_carry
from mlir_async_pipe.waits.ssa.forward import Forward
from mlir_async_pipe.waits.ssa.skeleton import Skeleton
from mlir_async_pipe.waits.tokens.group_tokens import group_with_token
from mlir_async_pipe.waits.tokens.histories import History, changes_history
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
    known = History(queue, depth, target)
    skeleton = Skeleton(
        function,
        lambda op: changes_history(op, queue, target) or _waits_on(op, queue, target),
        lambda op: changes_history(op, queue, target),
    )
    lengths = Forward(skeleton, known, 0, exact=True)
    retiring = _retiring(skeleton, lengths)
    for block, answers in retiring.items():
        bare_waits = [op for op in skeleton.of(block) if has_only_a_count(op)]
        for op, answer in zip(bare_waits, answers, strict=True):
            if answer:
                continue
            session.diagnostics.remark(
                f"the wait retires no group on every path: fewer than {_count(op) + 1} are known here",
                code="no-group",
                at=op,
            )
    if any(map(any, retiring.values())):
        _Attacher(skeleton, known, lengths, copies, retiring).run([])


def _waits_on(op: Operation, queue: Queue, target: Target | None) -> bool:
    return has_only_a_count(op) and queue_of(op, target) == queue


def _count(op: Operation) -> int:
    return max(0, integer_attribute(op, wait_rule(op).count) or 0)


def _retiring(skeleton: Skeleton, lengths: Forward[int]) -> dict[Block, list[bool]]:
    """For the waits of each block, whether every path to it has more groups than it leaves in
    flight (no iteration of a loop around it may have fewer)."""
    return {
        block: [
            _count(op) < length
            for op, length in lengths.through(block, start)
            if has_only_a_count(op)
        ]
        for block, start in lengths.at_block.items()
    }


@dataclass
class _Attacher(Carrier):
    """Carries the history of one queue through one function, and gives it to the waits."""

    skeleton: Skeleton
    known: History
    lengths: Forward[int]
    copies: Queue | None
    retiring: dict[Block, list[bool]]
    kind: Any = field(init=False)
    _no_group: Value | None = None

    def __post_init__(self) -> None:
        self.kind = _token(self.skeleton.root)

    def over(self, op: Operation, variables: Variables) -> Variables:
        """A commit comes first in the history, a wait takes from it."""
        row = row_of(op)
        if row is not None and row.wait is not None:
            # A block in a loop that never runs has no answers.
            answers = self.retiring.get(op.block)
            if answers and answers.pop(0):
                self._wait(op, variables[_count(op)])
            return variables
        length = self.known.over(op, len(variables))
        if not (self.known.is_commit(op) and self.known.has_token(op)):
            return variables[:length]
        token = op.results[0] if len(op.results) else self._commit(op)
        return [token, *variables][:length]

    def _commit(self, op: Operation) -> Value:
        name = token_form(op, self.copies)
        assert name is not None
        return group_with_token(op, name, self.kind)

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
        return self.lengths.at_block.get(block, 0)

    def width_of_loop(self, op: Operation) -> int:
        """A loop with a constant trip count may hand on more than its first iteration gets."""
        return max(self.width_at(op.regions[0].blocks[0]), self.width_behind(op))

    def handed(self, variables: Variables, width: int) -> Variables:
        """What the first iterations of such a loop do not have is no group: no wait reads it."""
        missing = max(0, width - len(variables))
        return [*variables[:width], *[self._placeholder() for _ in range(missing)]]

    def _placeholder(self) -> Value:
        if self._no_group is None:
            root = self.skeleton.root
            ip = ir.InsertionPoint.at_block_begin(root.regions[0].blocks[0])
            self._no_group = no_group(ip, root.location)
        return self._no_group

    def width_behind(self, op: Operation) -> int:
        """As many groups as are known after every branch."""
        return self.lengths.behind.get(op.regions[0].blocks[0], 0)

    def apart(self, op: Operation, block: Block) -> Variables:
        """Nothing is known about groups before such a region."""
        return []

    def behind_apart(self, op: Operation, variables: Variables) -> Variables:
        """What is still known after it."""
        return variables[: self.known.behind_apart(op, len(variables))]


def _token(op: Operation) -> Any:
    return ir.Type.parse(TOKEN_TYPE, op.context)
