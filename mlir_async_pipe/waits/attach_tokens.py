"""Pass `async-pipe-tokens`: gives count-form waits the tokens of the groups that they retire.

    nvvm.cp.async.commit.group            %a = nvgpu.device_async_create_group
    nvvm.cp.async.commit.group      -->   %b = nvgpu.device_async_create_group
    nvvm.cp.async.wait.group 1            nvgpu.device_async_wait %a {numGroups = 1 : i32}

A wait that lets N groups stay in flight retires the (N + 1)-th youngest group and all older
ones, so it gets the token of that one. A *history* is the list of the youngest groups at a
point, youngest first; loops carry it as iter_args, branches merge it in results. Where some
path has fewer than N + 1 groups the wait retires none of them on every path and stays as it is.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from mlir_async_pipe import passes
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.ir_helpers import (
    before,
    create,
    functions,
    integer_attribute,
    operations,
    terminator,
    walk,
)
from mlir_async_pipe.report import Session
from mlir_async_pipe.targets import Target
from mlir_async_pipe.vocabulary import Queue, queue_of, row_of
from mlir_async_pipe.vocabulary.async_ops import NO_COPIES, TOKEN_FORMS
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS
from mlir_async_pipe.waits.count import TOKEN_TYPE
from mlir_async_pipe.waits.write import wait_rule

History = list[Any]
"""Tokens of the youngest groups, youngest first; it ends where some path has no older group."""

DEEPEST_HISTORY = 64


@dataclass(frozen=True)
class TokensOptions:
    """Options of `async-pipe-tokens`: none."""


@passes.register(
    "async-pipe-tokens", "give count-form waits the tokens of the groups that they retire"
)
def attach_tokens(module_op: Any, options: Any, session: Session) -> None:
    """Attach tokens in every function; what cannot be followed stays, with a remark."""
    for function in functions(module_op):
        queues: dict[Queue | None, int] = {}
        for op in walk(function):
            if is_count_wait(op):
                queue = queue_of(op, session.target)
                queues[queue] = max(queues.get(queue, 0), integer_attribute(op, _count(op)) or 0)
        for queue, most in queues.items():
            if queue is not None:
                depth = min(most + 1, DEEPEST_HISTORY)
                _Attacher(queue, depth, session.target, session).function(function)


def is_count_wait(op: Any) -> bool:
    """Whether a wait has a count and no tokens, and a form with tokens exists."""
    row = row_of(op)
    if row is None or row.wait is None or op.name not in TOKEN_FORMS:
        return False
    return len(op.operands) == 0 and integer_attribute(op, row.wait.count) is not None


def _count(op: Any) -> str:
    return wait_rule(op).count


class _Attacher:
    """Attaches tokens for one queue of one function."""

    def __init__(self, queue: Queue, depth: int, target: Target | None, session: Session) -> None:
        self.queue = queue
        self.depth = depth
        self.target = target
        self.session = session

    def function(self, function: Any) -> None:
        """Follow the body of a function; nothing is known about groups before it."""
        blocks = list(function.regions[0].blocks)
        for block in blocks:
            # The history at a block with predecessors is not followed.
            self._block(block, [])

    def _block(self, block: Any, history: History) -> History:
        for op in operations(block):
            history = self._op(op, history)
        return history

    def _op(self, op: Any, history: History) -> History:
        row = row_of(op)
        if row is not None and row.commits == "group" and self._is_mine(op):
            token = self._commit(op)
            return [] if token is None else [token, *history][: self.depth]
        if is_count_wait(op) and self._is_mine(op):
            self._wait(op, history)
            return history
        if op.name in CALL_OPS and self.queue.scope == "thread":
            return []
        if not any(self._matters(inner) for inner in (walk(op) if len(op.regions) else ())):
            return history
        if op.name == "scf.for" and not self._loses_track(op):
            return self._loop(op, history)
        if op.name == "scf.if":
            return self._branch(op, history)
        for region in op.regions:
            for block in region.blocks:
                self._block(block, [])
        return []

    def _loses_track(self, loop: Any) -> bool:
        """Whether something in a loop may commit groups that cannot be followed."""
        for op in walk(loop):
            if op.name in CALL_OPS and self.queue.scope == "thread":
                return True
            followed = len(op.regions) == 0 or op.name in ("scf.for", "scf.if")
            if not followed and any(self._matters(inner) for inner in walk(op)):
                return True
        return False

    def _is_mine(self, op: Any) -> bool:
        return queue_of(op, self.target) == self.queue

    def _matters(self, op: Any) -> bool:
        row = row_of(op)
        if op.name in CALL_OPS:
            return True
        return row is not None and (row.commits is not None or is_count_wait(op))

    def _commit(self, op: Any) -> Any:
        """The token of a commit, which takes its token form if it has none yet."""
        if len(op.results):
            return op.results[0]
        name = TOKEN_FORMS.get(op.name)
        if name is None:
            return None
        attributes = {NO_COPIES: ir.UnitAttr.get(op.context)}
        made = create(name, (), [_token(op)], attributes, ip=before(op), loc=op.location)
        op.erase()
        return made.results[0]

    def _wait(self, op: Any, history: History) -> None:
        count = integer_attribute(op, _count(op)) or 0
        if count >= len(history):
            self.session.diagnostics.remark(
                f"the wait retires no group on every path: fewer than {count + 1} are known here",
                code="no-group",
                at=op,
            )
            return
        name = TOKEN_FORMS[op.name]
        made = create(
            name,
            [history[count]],
            (),
            _attributes(op) if name == op.name else None,
            ip=before(op),
            loc=op.location,
        )
        rule = wait_rule(made)
        kind = ir.IntegerType.get_signless(rule.count_bits, op.context)
        made.attributes[rule.count] = ir.IntegerAttr.get(kind, count)
        op.erase()

    def _loop(self, op: Any, history: History) -> History:
        """Carry the history through a loop: iter_args in, yields round, results out."""
        carried = len(history)
        made = create(
            op.name,
            [*op.operands, *history],
            [*(result.type for result in op.results), *[_token(op)] * carried],
            _attributes(op),
            regions=1,
            ip=before(op),
            loc=op.location,
        )
        old = op.regions[0].blocks[0]
        types = [argument.type for argument in old.arguments]
        types += [_token(op)] * carried
        block = made.regions[0].blocks.append(*types, arg_locs=[op.location] * len(types))
        for inner in operations(old):
            block.append(inner)
        arguments = list(block.arguments)
        kept = len(types) - carried
        for argument, new in zip(old.arguments, arguments[:kept], strict=True):
            argument.replace_all_uses_with(new)
        behind = self._block(block, arguments[kept:])
        # Nothing in the body loses track, so the history behind it is no shorter.
        _yield_more(terminator(block), behind[:carried])
        return _replace(op, made)

    def _branch(self, op: Any, history: History) -> History:
        """Follow both sides; the groups known on both of them become results."""
        sides = []
        for region in op.regions:
            blocks = list(region.blocks)
            sides.append(self._block(blocks[0], history) if blocks else history)
        known = min(len(side) for side in sides)
        made = create(
            op.name,
            list(op.operands),
            [*(result.type for result in op.results), *[_token(op)] * known],
            _attributes(op),
            regions=2,
            ip=before(op),
            loc=op.location,
        )
        for region, new, side in zip(op.regions, made.regions, sides, strict=True):
            block = new.blocks.append()
            blocks = list(region.blocks)
            for inner in operations(blocks[0]) if blocks else ():
                block.append(inner)
            if not blocks:
                create("scf.yield", ip=ir.InsertionPoint(block), loc=op.location)
            _yield_more(terminator(block), side[:known])
        return _replace(op, made)


def _token(op: Any) -> Any:
    return ir.Type.parse(TOKEN_TYPE, op.context)


def _attributes(op: Any) -> dict[str, Any]:
    names = [getattr(entry, "name", entry) for entry in op.attributes]
    return {name: op.attributes[name] for name in names}


def _yield_more(op: Any, values: History) -> None:
    """Hand on more values at the end of a block."""
    create(op.name, [*op.operands, *values], ip=before(op), loc=op.location)
    op.erase()


def _replace(old: Any, new: Any) -> History:
    """Replace an op by one with more results; the additional ones are the history behind it."""
    results = list(new.results)
    for result, replacement in zip(old.results, results, strict=False):
        result.replace_all_uses_with(replacement)
    history = results[len(old.results) :]
    old.erase()
    return history
