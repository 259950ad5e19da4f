"""Whether a warp of its own may issue the products of tensor memory, and how many versions sums get.

    scf.for %tile {                                   copies:    their nest, as of any producer
      scf.for %k { copy; wait; products; wait }       products:  wait for a tile, products, commit
      fence; load; store                        -->   the input: wait for all products; load; store
    }

Products of one tile of the loop around may add up while the sums of the one before are loaded, if
they have columns of their own: then two versions, where tensor memory has room for both.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NoReturn

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    captured,
    operations,
    parent,
    users,
    walk,
)
from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.facts.loops.transactions import (
    Completion,
    Products,
    Transaction,
    only_computes,
    operand,
)
from mlir_async_pipe.facts.values.memory_roots import root_of
from mlir_async_pipe.pipeliner.plan.issue_slice import IssueSlice, slice_of
from mlir_async_pipe.pipeliner.plan.role_block import refuse
from mlir_async_pipe.pipeliner.plan.sum_versions import SumVersions, sum_versions
from mlir_async_pipe.vocabulary import accesses, groups_of, tensor_use, use_of
from mlir_async_pipe.vocabulary.tensor_memory import waits_for


@dataclass(frozen=True)
class ProductRole:
    """What the warp runs in the loop; `branch` holds the products and
    their commit. `loads` are those of the sums, over after `last` (None: there are none)."""

    slice: IssueSlice
    branch: Operation
    completion: Completion
    loads: tuple[Operation, ...]
    last: Operation | None
    sums: SumVersions


def plan_products(
    body: Body,
    transactions: tuple[Transaction, ...],
    outer: tuple[Operation, ...],
    issue: IssueSlice,
    products: Products,
    dropped: tuple[Operation, ...],
    moved: tuple[Operation, ...],
    kernel: Operation,
) -> ProductRole:
    """Raises PipelineError (roles-unsupported, roles-values)."""
    loop = body.loop
    if len(products.completions) > 1 or products.hindered:
        at = products.at or products.completions[1].commit
        refuse(
            products.hindered or "an iteration has two commits", at, loop, code="roles-unsupported"
        )
    (completion,) = products.completions
    branch = _branch(loop, completion, issue)
    kept = _slice(body, [*(t.wait for t in transactions), branch])
    _check_rest(body, issue, kept, completion, dropped)
    _check_results(body, outer)
    _check_memory(body, kept, moved)
    loads, last = _loads(body, moved)
    issued = [op for op in walk(branch) if tensor_use(op) == "product"]
    sums = sum_versions(loop, outer, kernel, issued, loads)
    return ProductRole(kept, branch, completion, loads, last, sums)


# The loop ---------------------------------------------------------------------------------


def _branch(loop: Operation, completion: Completion, issue: IssueSlice) -> Operation:
    """The branch of thread 0 in which the products and their commit stand."""
    branch = parent(completion.commit)
    stands = branch is not None and branch.name == "scf.if" and parent(branch) == loop
    if (
        branch is None
        or not stands
        or branch.operands[0] != issue.leader
        or len(branch.results)
        or completion.commit.block not in branch.regions[0].blocks
    ):
        refuse(
            "products and their commit do not stand in one branch of thread 0",
            completion.commit,
            loop,
            code="roles-unsupported",
            advice="let the condition of the copies be that of the products, in the loop's body",
        )
    inside = set(walk(branch))
    for op in walk(loop):
        if tensor_use(op) == "product" and (op not in inside or not _reads_tiles(op)):
            why = (
                "not all products stand in one branch" if op not in inside else "A is a sum itself"
            )
            refuse(why, op, loop, code="roles-unsupported")
        if op in inside and not (op == branch or only_computes(op) or _is_product(op)):
            refuse(f"'{op.name}' stands beside the products", op, loop, code="roles-unsupported")
    return branch


def _is_product(op: Operation) -> bool:
    return tensor_use(op) == "product" or use_of(op) == "commit" or op.name == "scf.yield"


def _reads_tiles(product: Operation) -> bool:
    """Whether A is a tile, not in tensor memory."""
    at = groups_of(product)["matrix_a"][0]
    return not str(product.operands[at].type).startswith("!llvm.ptr")


def _slice(body: Body, roots: list[Operation]) -> IssueSlice:
    """What the ops need of an iteration, but the phases that the input waits for."""
    used = [
        value
        for op in roots
        for value in captured(op)
        if use_of(op) != "wait" or value != operand(op, "phase")
    ]

    def refuse_op(op: Operation) -> NoReturn:
        refuse(f"products need what '{op.name}' gives", op, body.loop, code="roles-values")

    return slice_of(body, roots, used, None, refuse_op)


def _check_rest(
    body: Body,
    issue: IssueSlice,
    kept: IssueSlice,
    completion: Completion,
    dropped: tuple[Operation, ...],
) -> None:
    """Nothing is left of the loop for the threads of the input."""
    known = {*issue.ops, *kept.ops, completion.wait, *dropped}
    for op in body.ops:
        if op not in known and not only_computes(op) and op != body.terminator:
            refuse(
                f"'{op.name}' is neither a copy nor a product",
                op,
                body.loop,
                code="roles-unsupported",
            )


def _check_results(body: Body, outer: tuple[Operation, ...]) -> None:
    """The threads of the input need none of the loop's results but for phases that it waits for."""
    for result in body.loop.results:
        user = _user_of(result, (*outer, body.loop))
        if user is not None:
            refuse(
                f"'{user.name}' uses a result of the loop, which other threads run",
                user,
                body.loop,
                code="roles-values",
            )


def _user_of(value: Value, loops: tuple[Operation, ...]) -> Operation | None:
    """An op that uses a value for anything but a phase, None if there is none."""
    waiting, seen = [value], set[Value]()
    while waiting:
        value = waiting.pop()
        if value in seen:
            continue
        seen.add(value)
        for user in users(value):
            if use_of(user) == "wait" and operand(user, "phase") == value:
                continue
            if user.name == "arith.xori":
                waiting += list(user.results)
            elif user.name == "scf.yield" and (above := parent(user)) in loops and above:
                numbers = [n for n, yielded in enumerate(user.operands) if yielded == value]
                waiting += [above.results[number] for number in numbers]
                if above.name == "scf.for":
                    arguments = above.regions[0].blocks[0].arguments
                    waiting += [arguments[number + 1] for number in numbers]
            elif user.name == "scf.for" and user in loops and value not in list(user.operands)[:3]:
                arguments = user.regions[0].blocks[0].arguments
                for number, initial in enumerate(list(user.operands)[3:]):
                    if initial == value:
                        waiting += [user.results[number], arguments[number + 1]]
            else:
                return user
    return None


def _check_memory(body: Body, kept: IssueSlice, moved: tuple[Operation, ...]) -> None:
    """What products may read, nobody writes after the roles part."""
    loop = body.loop
    named = [v for op in kept.ops for v in captured(op) if str(v.type).startswith("memref<")]
    read = {root_of(value).identity for value in named}
    for op in (op for top in moved for op in walk(top)):
        for access in accesses(op):
            if not access.writes or root_of(access.memory).identity not in read:
                continue
            if loop not in (op, *ancestors(op)):
                refuse(
                    f"'{op.name}' writes what products may read, and other threads issue them",
                    op,
                    loop,
                    code="roles-unsupported",
                )


# The sums ---------------------------------------------------------------------------------


def _loads(
    body: Body, moved: tuple[Operation, ...]
) -> tuple[tuple[Operation, ...], Operation | None]:
    """The loads of the sums, and the op of the loop's block after which they are over."""
    loop = body.loop
    place = {op: number for number, op in enumerate(operations(loop.block))}
    loads: list[Operation] = []
    last: Operation | None = None
    for op in (op for top in moved for op in walk(top)):
        use = tensor_use(op)
        if use is None or use in ("permit", "dealloc", "fence"):
            continue
        top = next((one for one in (op, *ancestors(op)) if one in place), None)
        if use == "load" or waits_for(op) == "load":
            if top is None or place[top] <= place[loop]:
                refuse(
                    f"'{op.name}' does not come after the loop, in its block",
                    op,
                    loop,
                    code="roles-unsupported",
                )
            last = top if last is None or place[top] > place[last] else last
            loads += [op] if use == "load" else []
        elif use != "product" or top != loop:
            refuse(f"'{op.name}' touches tensor memory, too", op, loop, code="roles-unsupported")
    return tuple(loads), last
