"""Breaks a correct kernel in one place: each mutant is the text of a module.

weaker-wait        count + 1
no-wait            the wait is gone
late-wait          the wait stands after the first read after it
wait-after-barrier the wait stands after the barrier that published its data
fewer-versions     slots are counted modulo V - 1
shifted-slot       a copy or read in the loop uses the next slot
no-barrier         a barrier is gone
no-commit          a commit is gone: its copies join the next group
late-commit        a commit stands after the next wait
reordered-groups   two groups of one iteration change places in the kernel or the prologue
exchanged-copies   the copies of two groups fill each other's slots
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import (
    constant_value,
    create,
    defining_op,
    integer_attribute,
    operations,
    parent,
    set_integer,
    walk,
)
from mlir_async_pipe.vocabulary import accesses, row_of


@dataclass(frozen=True)
class Mutant:
    """One broken kernel: what was done to which kernel, and its text."""

    kind: str
    kernel: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.kind} {self.number} of {self.kernel}"


def mutants(kernel: str, text: str) -> Iterator[Mutant]:
    """All mutants of a kernel. Places that a kind cannot break give none."""
    for kind, mutate in KINDS.items():
        for number, broken in mutated(text, mutate):
            yield Mutant(kind, kernel, number, broken)


def mutated(text: str, mutate: Callable[[Any, int], bool | None]) -> Iterator[tuple[int, str]]:
    """The places that a kind can break, and the text with each of them broken."""
    with new_context() as context, ir.Location.unknown(context):
        right = ir.Module.parse(text)
        for number in itertools.count():
            broken = _broken(right, mutate, number)
            if broken is None:
                return
            if broken:
                yield number, broken


def _broken(right: Any, mutate: Callable[[Any, int], bool | None], number: int) -> str | None:
    """The text with place `number` broken; "" if that place cannot be, None after the last."""
    module = right.operation.clone()
    done = mutate(module, number)
    if done is None:
        return None
    try:
        return str(module) if done and module.verify() else ""
    except ir.MLIRError:
        return ""


def _pick(found: list[Any], number: int) -> Any:
    return found[number] if number < len(found) else None


def waits(module: Any) -> list[Any]:
    """Waits with a count."""
    return [op for op in walk(module) if (row := row_of(op)) and row.wait is not None]


def copies(module: Any) -> list[Any]:
    """Async copies."""
    return [
        op for op in walk(module) if (row := row_of(op)) and row.accesses and row.asynchronous(op)
    ]


def commits(module: Any) -> list[Any]:
    """Ops that close a group."""
    return [op for op in walk(module) if (row := row_of(op)) and row.commits == "group"]


def barriers(module: Any) -> list[Any]:
    """Barriers."""
    return [op for op in walk(module) if (row := row_of(op)) and row.barrier is not None]


def _behind(op: Any, wanted: Callable[[Any], bool]) -> Any:
    siblings = operations(op.block)
    later = siblings[siblings.index(op) + 1 : -1]
    return next((other for other in later if wanted(other)), None)


def _reads_workgroup(op: Any) -> bool:
    if any(_reads_workgroup(inner) for inner in walk(op) if inner != op):
        return True
    row = row_of(op)
    if row is None or row.asynchronous(op):
        return False
    return any(not a.writes and "workgroup" in str(a.memory.type) for a in accesses(op))


def _has(op: Any, check: Callable[[Any], bool]) -> bool:
    row = row_of(op)
    return row is not None and check(row)


def weaker_wait(module: Any, number: int) -> bool | None:
    wait = _pick(waits(module), number)
    if wait is None:
        return None
    rule = row_of(wait).wait
    count = integer_attribute(wait, rule.count)
    if count is None:
        return False
    set_integer(wait, rule.count, count + 1, rule.count_bits)
    return True


def no_wait(module: Any, number: int) -> bool | None:
    wait = _pick(waits(module), number)
    if wait is None:
        return None
    wait.erase()
    return True


def late_wait(module: Any, number: int) -> bool | None:
    wait = _pick(waits(module), number)
    if wait is None:
        return None
    return _move_behind(wait, _behind(wait, _reads_workgroup))


def wait_after_barrier(module: Any, number: int) -> bool | None:
    wait = _pick(waits(module), number)
    if wait is None:
        return None
    return _move_behind(wait, _behind(wait, lambda op: _has(op, lambda r: r.barrier is not None)))


def no_barrier(module: Any, number: int) -> bool | None:
    barrier = _pick(barriers(module), number)
    if barrier is None:
        return None
    barrier.erase()
    return True


def no_commit(module: Any, number: int) -> bool | None:
    commit = _pick(commits(module), number)
    if commit is None:
        return None
    if not _drop_token(commit):
        return False
    commit.erase()
    return True


def _drop_token(commit: Any) -> bool:
    """Let users of a commit's token name another group that dominates it."""
    for result in commit.results:
        users = list(result.uses)
        if not users:
            continue
        siblings = operations(commit.block)
        before = siblings[: siblings.index(commit)]
        others = [
            r for op in before if _has(op, lambda row: row.commits == "group") for r in op.results
        ]
        holder = parent(commit)
        if not others and holder is not None and holder.name == "scf.for":
            others = [a for a in commit.block.arguments if a.type == result.type]
        if not others:
            return False
        result.replace_all_uses_with(others[-1])
    return True


def late_commit(module: Any, number: int) -> bool | None:
    commit = _pick(commits(module), number)
    if commit is None:
        return None
    target = _behind(commit, lambda op: _has(op, lambda r: r.wait is not None))
    if any(list(result.uses) for result in commit.results) and target is not None:
        siblings = operations(commit.block)
        between = siblings[siblings.index(commit) : siblings.index(target) + 1]
        used = {use.owner.operation for result in commit.results for use in result.uses}
        if any(op in used for op in between):
            return False
    return _move_behind(commit, target)


def _move_behind(op: Any, target: Any) -> bool:
    if target is None:
        return False
    op.move_after(target)
    return True


def fewer_versions(module: Any, number: int) -> bool | None:
    """Every slot computation of one ring runs modulo V - 1."""
    if number > 0:
        return None
    versions = _versions(module)
    changed = False
    for op in list(walk(module)):
        wraps = op.name in ("arith.remui", "arith.cmpi") and not _is_thread_id(op.operands[0])
        if wraps and constant_value(op.operands[1]) == versions and versions > 1:
            op.operands[1] = _constant(op, versions - 1)
            changed = True
        if op.name == "scf.for" and wraps is False:
            for position in range(3, len(op.operands)):
                start = op.operands[position]
                if str(start.type) == "index" and constant_value(start) == versions - 1:
                    op.operands[position] = _constant(op, 0)
                    changed = True
    return changed


def _is_thread_id(value: Any) -> bool:
    made = defining_op(value)
    return made is not None and made.name == "gpu.thread_id"


def _versions(module: Any) -> int:
    for op in copies(module):
        for access in accesses(op):
            if access.writes and "workgroup" in str(access.memory.type):
                return int(ir.MemRefType(access.memory.type).shape[0])
    return 0


def _constant(op: Any, value: int) -> Any:
    index = ir.IndexType.get(op.context)
    return create(
        "arith.constant",
        results=[index],
        attributes={"value": ir.IntegerAttr.get(index, value)},
        ip=ir.InsertionPoint(op),
        loc=op.location,
    ).results[0]


def shifted_slot(module: Any, number: int) -> bool | None:
    """Slot s of one access to a ring becomes (s + 1) mod V."""
    found = []
    for op in walk(module):
        for access in accesses(op):
            if "workgroup" in str(access.memory.type) and len(access.indices) > 1:
                found.append(access)
    access = _pick(found, number)
    if access is None:
        return None
    op = access.op
    versions = int(ir.MemRefType(access.memory.type).shape[0])
    index = ir.IndexType.get(op.context)
    one, all_of = _constant(op, 1), _constant(op, versions)
    ip = ir.InsertionPoint(op)
    slot = op.operands[access.index_operands[0]]
    up = create("arith.addi", [slot, one], [index], ip=ip, loc=op.location).results[0]
    wrapped = create("arith.remui", [up, all_of], [index], ip=ip, loc=op.location).results[0]
    op.operands[access.index_operands[0]] = wrapped
    return True


def reordered_groups(module: Any, number: int) -> bool | None:
    """Two copies of different groups and different buffers of one block change places."""
    return _exchange(module, number, same_buffer=False)


def exchanged_copies(module: Any, number: int) -> bool | None:
    """Two copies of different groups and one buffer of one block change places."""
    return _exchange(module, number, same_buffer=True)


def _exchange(module: Any, number: int, *, same_buffer: bool) -> bool | None:
    pairs = []
    for first in copies(module):
        siblings = operations(first.block)
        committed = False
        for other in siblings[siblings.index(first) + 1 :]:
            committed = committed or _has(other, lambda row: row.commits == "group")
            row = row_of(other)
            if row is None or not row.accesses or not row.asynchronous(other):
                continue
            if len(other.operands) != len(first.operands):
                continue
            if committed and (_destination(first) == _destination(other)) is same_buffer:
                pairs.append((first, other))
                break
    pair = _pick(pairs, number)
    if pair is None:
        return None
    first, other = pair
    if any(_is_behind(operand, first) for operand in other.operands):
        return False
    for position in range(len(first.operands)):
        a, b = first.operands[position], other.operands[position]
        first.operands[position], other.operands[position] = b, a
    return True


def _destination(copy: Any) -> Any:
    return next(a.memory for a in accesses(copy) if a.writes)


def _is_behind(value: Any, op: Any) -> bool:
    made = defining_op(value)
    if made is None or made.block != op.block:
        return False
    siblings = operations(op.block)
    return siblings.index(made) > siblings.index(op)


KINDS: dict[str, Callable[[Any, int], bool | None]] = {
    "weaker-wait": weaker_wait,
    "no-wait": no_wait,
    "late-wait": late_wait,
    "wait-after-barrier": wait_after_barrier,
    "fewer-versions": fewer_versions,
    "shifted-slot": shifted_slot,
    "no-barrier": no_barrier,
    "no-commit": no_commit,
    "late-commit": late_commit,
    "reordered-groups": reordered_groups,
    "exchanged-copies": exchanged_copies,
}
