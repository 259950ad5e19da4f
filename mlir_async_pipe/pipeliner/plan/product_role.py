"""Whether a warp of its own may issue the products of tensor memory, and how many versions sums get.

    scf.for %tile {                                   copies:    their nest, as of any producer
      scf.for %k { copy; wait; products; wait }       products:  wait for a tile, products, commit
      fence; load; store                        -->   the input: wait for all products; load; store
    }

Products of one tile of the loop around may add up while the sums of the one before are loaded, if
they have columns of their own: then two versions, where tensor memory has room for both.

Where threads load or store tensor memory between the products of an iteration, they run the loop too (`PartedLoop`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from itertools import pairwise
from typing import NoReturn

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    captured,
    constant_value,
    defining_op,
    operations,
    parent,
    source_op,
    users,
    walk,
)
from mlir_async_pipe.facts.loops.annotations import static_trip_count
from mlir_async_pipe.facts.loops.statements import Body
from mlir_async_pipe.facts.loops.transactions import Completion, only_computes, operand
from mlir_async_pipe.facts.values.domains import predicate_of
from mlir_async_pipe.facts.values.memory_roots import Columns, columns_after, root_of
from mlir_async_pipe.pipeliner.plan.product_order import Branch, ProductOrder, products_in
from mlir_async_pipe.pipeliner.plan.ring_plan import (
    Issued,
    IssueOrder,
    IssueSlice,
    PartedLoop,
    ProductRole,
    RingPlan,
    SumVersions,
    slice_of,
)
from mlir_async_pipe.pipeliner.plan.role_block import refuse
from mlir_async_pipe.pipeliner.plan.thread_groups import share_out
from mlir_async_pipe.pipeliner.plan.units import SchedulePlace
from mlir_async_pipe.vocabulary import accesses, groups_of, is_barrier, tensor_use, use_of
from mlir_async_pipe.vocabulary.launch_ids import LaunchId, Size, launch_id
from mlir_async_pipe.vocabulary.tensor_memory import COLUMNS, tensor_product, waits_for


def plan_products(
    plan: RingPlan, moved: tuple[Operation, ...], size: Size | None
) -> ProductRole | PartedLoop:
    """Raises PipelineError (roles-unsupported, roles-values, roles-block, memory-order)."""
    body, loop, completions = plan.body, plan.loop, plan.products.completions
    branches = tuple(_branch(plan, completion) for completion in completions)
    _check_branches(loop, branches, in_tensor=bool(plan.products.hindered))
    kept = _slice(body, [*(t.wait for t in plan.transactions), *branches])
    if plan.products.hindered:
        return _parted(plan, kept, branches, moved, size)
    if len(completions) > 1:
        refuse("an iteration has two commits", completions[1].commit, loop)
    (completion,) = completions
    known = {*plan.issue.ops, *kept.ops, completion.wait, *plan.dropped, body.terminator}
    for op in body.ops:
        if op not in known and not (only_computes(op) or (plan.ordered and is_barrier(op))):
            refuse(f"'{op.name}' is neither a copy nor a product", op, loop)
    for result in loop.results:
        user = _user_of(result, (*plan.outer, loop))
        if user is not None:
            why = f"'{user.name}' uses a result of the loop, which other threads run"
            refuse(why, user, loop, code="roles-values")
    _check_memory(loop, kept, moved)
    loads, last = _loads(loop, moved)
    _check_order(plan)
    issued = [op for op in walk(branches[0]) if tensor_use(op) == "product"]
    sums = _sum_versions(plan, issued, loads)
    return ProductRole(kept, branches[0], completion, loads, last, sums)


# The loop ---------------------------------------------------------------------------------


def _check_order(plan: RingPlan) -> None:
    """No barrier of the loop, at which nobody meets any more, is needed outside of it."""
    if plan.ordered:
        barrier = next(op for op in plan.body.synchronisation if is_barrier(op))
        why = "what stands before the loop and after it may need this barrier, at which nobody would meet"
        refuse(why, barrier, plan.loop, advice=f"write another '{barrier.name}' after the loop")


def _branch(plan: RingPlan, completion: Completion) -> Operation:
    """The branch of thread 0 in which the products and their commit stand."""
    branch, loop = parent(completion.commit), plan.loop
    if (
        branch is None
        or branch.name != "scf.if"
        or parent(branch) != loop
        or branch.operands[0] != plan.issue.leader
        or len(branch.results)
        or completion.commit.block not in branch.regions[0].blocks
    ):
        why = "products and their commit do not stand in one branch of thread 0"
        advice = "let the condition of the copies be that of the products, in the loop's body"
        refuse(why, completion.commit, loop, advice=advice)
    return branch


def _check_branches(loop: Operation, branches: tuple[Operation, ...], *, in_tensor: bool) -> None:
    """All products stand there, and nothing beside them; left operands may be in tensor memory if threads may store it."""
    inside = {op for branch in branches for op in walk(branch)}
    for op in walk(loop):
        is_product = tensor_use(op) == "product"
        if is_product and op not in inside:
            refuse("not all products stand in branches with a commit", op, loop)
        if is_product and not in_tensor and tensor_product(op).left is not None:
            refuse("A is a sum itself", op, loop)
        known = op in branches or only_computes(op) or is_product
        if op in inside and not (known or use_of(op) == "commit" or op.name == "scf.yield"):
            refuse(f"'{op.name}' stands beside the products", op, loop)


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


def _check_memory(loop: Operation, kept: IssueSlice, moved: tuple[Operation, ...]) -> None:
    """What products may read, nobody writes after the roles part."""
    named = [v for op in kept.ops for v in captured(op) if str(v.type).startswith("memref<")]
    read = {root_of(value).identity for value in named}
    for op in (op for top in moved for op in walk(top)):
        for access in accesses(op):
            if not access.writes or root_of(access.memory).identity not in read:
                continue
            if loop not in (op, *ancestors(op)):
                why = f"'{op.name}' writes what products may read, and other threads issue them"
                refuse(why, op, loop)


# Work in tensor memory between the products ----------------------------------------------------
#
#     copy; wait                                  products: wait full; S = Q K^T; commit scored
#     S = Q K^T; commit; wait                               wait ready; O += P V; commit summed, which frees the slot
#     load S; softmax; store P        -->         the input: wait scored; load S; softmax; store P
#     barrier                                                arrive at ready, once a warp
#     O += P V; commit; wait; barrier                        wait summed
#
# What a thread does in tensor memory before a barrier, the products after it may rely on: after that the threads arrive
# (`product_order`). Barriers with nothing of that before them kept the slot, or the order of what no thread does any more.


def _parted(
    plan: RingPlan,
    kept: IssueSlice,
    branches: tuple[Operation, ...],
    moved: tuple[Operation, ...],
    size: Size | None,
) -> PartedLoop:
    body, completions = plan.body, plan.products.completions
    if len(set(branches)) < len(branches):
        refuse("a branch has two commits", completions[-1].commit, body.loop)
    barriers = tuple(op for op in body.ops if is_barrier(op) and not len(op.operands))
    waits = (each.wait for each in completions)
    known = {*plan.issue.ops, *kept.ops, *waits, *barriers}
    for op in body.ops:
        moves = tensor_use(op) in ("load", "store", "wait", "fence")
        if not (op in known or moves or only_computes(op)):
            why = "neither a copy, a product, nor work in registers and tensor memory"
            refuse(f"'{op.name}' is {why}", op, body.loop)
    inside = {op for branch in branches for op in walk(branch)}
    for op in (op for top in moved for op in walk(top)):
        if tensor_use(op) in ("product", "copy", "shift") and op not in inside:
            refuse(f"'{op.name}' touches tensor memory, too", op, body.loop)
    _check_order(plan)
    issued = {
        branch: Issued(products_in(branch), completion)
        for branch, completion in sorted(
            zip(branches, completions, strict=True), key=lambda one: body.table.number[one[0]]
        )
    }
    groups = share_out(plan, issued, moved, size) if plan.asked == "grouped" else None
    return PartedLoop(kept, issued, barriers, groups)


def issue_order(plan: RingPlan, role: PartedLoop) -> IssueOrder:
    """Raises PipelineError (roles-unsupported, dependence-violated)."""
    order = ProductOrder(plan.body, role.issued, _places(plan, tuple(role.issued)), role.groups)
    order.run()
    last = max(order.branches, key=lambda one: one.place[:2])
    return IssueOrder(
        _step(plan, order.branches),
        last.completion,
        tuple(order.arrivals),
        tuple(order.awaited),
        tuple(order.late),
        tuple(order.left_out),
    )


def _places(plan: RingPlan, branches: tuple[Operation, ...]) -> list[SchedulePlace]:
    """Where a step issues the products: as is asked for, else in the order of the text."""
    if plan.stages is None:
        return [SchedulePlace(0, plan.body.table.number[branch]) for branch in branches]
    places = [plan.stages.order.index(branch) for branch in branches]
    return [SchedulePlace(plan.stages.stages[place], place) for place in places]


def _step(plan: RingPlan, branches: list[Branch]) -> tuple[tuple[Operation, int], ...]:
    """The branches, each after the waits for tiles that it is the first to need."""
    found: list[tuple[Operation, int]] = []
    first: dict[Operation, list[tuple[Operation, int]]] = defaultdict(list)
    for wait in (each.wait for each in plan.transactions):
        number = plan.body.table.number[wait]
        following = [one for one in branches if one.number > number] or branches
        one = min(following, key=lambda one: one.place.stage)
        first[one.op].append((wait, one.place.stage))
    for one in branches:
        found += [*first[one.op], (one.op, one.place.stage)]
    return tuple(found)


# The sums ---------------------------------------------------------------------------------


def _loads(
    loop: Operation, moved: tuple[Operation, ...]
) -> tuple[tuple[Operation, ...], Operation | None]:
    """The loads of the sums, and the op of the loop's block after which they are over."""
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
                refuse(f"'{op.name}' does not come after the loop, in its block", op, loop)
            last = top if last is None or place[top] > place[last] else last
            loads += [op] if use == "load" else []
        elif use != "product" or top != loop:
            refuse(f"'{op.name}' touches tensor memory, too", op, loop)
    return tuple(loads), last


# Columns of tensor memory --------------------------------------------------------------------
#
#     nvvm.tcgen05.alloc %place, 128           256: the sums of a tile of the loop around begin in column
#     %base = memref.load %place      -->      0 or 128, alternately
#     scf.for %tile { products; loads }
#
# Versions are distinguished by the first product of a tile, which must take the sums for 0, and by the
# addresses of all that touches them, which must be made of the one number that `alloc` wrote.


# Comparisons that hold for no number above the one beside them, and what that may be more.
_LESS = {"eq": 0, "slt": 1, "ult": 1}
MOST_VERSIONS = 2


def takes_columns(op: Operation, threads: int) -> bool:
    """Whether an op takes columns, or says that no more are taken, in some of the first threads alone."""
    if tensor_use(op) not in ("alloc", "permit"):
        return False
    inside = [op, *ancestors(op)]
    return any(
        above.name == "scf.if"
        and below.block in above.regions[0].blocks
        and _some_of(above.operands[0], threads)
        for below, above in pairwise(inside)
    )


def _some_of(condition: Value, threads: int) -> bool:
    op = defining_op(condition)
    predicate = predicate_of(op)
    if op is None or predicate is None or launch_id(op.operands[0]) != LaunchId("thread", 0):
        return False
    number = constant_value(op.operands[1])
    if number is None:
        return False
    return predicate in _LESS and number < threads + _LESS[predicate]


def address_loads(kernel: Operation) -> frozenset[Operation]:
    """The loads of what `alloc` wrote, where nobody else writes."""
    ops = list(walk(kernel))
    written = {root_of(op.operands[0]).identity for op in ops if tensor_use(op) == "alloc"}
    if not written:
        return frozenset()
    found: dict[object, list[Operation]] = {identity: [] for identity in written}
    for op in ops:
        for access in accesses(op):
            identity = root_of(access.memory).identity
            if identity in found and access.kind == "read":
                found[identity].append(op)
            elif access.kind != "read" and tensor_use(op) != "alloc":
                found.pop(identity, None)
    return frozenset(op for loads in found.values() for op in loads)


def _sum_versions(
    plan: RingPlan, products: list[Operation], loads: Iterable[Operation]
) -> SumVersions:
    """As many as are proven to be distinct, and have room: two, or one."""
    sized = tuple(op for op in walk(plan.kernel) if tensor_use(op) in ("alloc", "dealloc"))
    counts = {constant_value(op.operands[1]) for op in sized}
    taken = sum(tensor_use(op) == "alloc" for op in sized)
    columns = counts.pop() if len(counts) == taken == 1 else None
    seen: dict[Value, Columns] = {}
    bases = {columns_after(op.operands[0], seen)[0] for op in (*products, *loads)}
    base = bases.pop() if len(bases) == 1 else None
    known = (
        columns is not None
        and columns * MOST_VERSIONS <= COLUMNS
        and any(op.name == "scf.for" for op in plan.outer)
        and base is not None
        and defining_op(base) in address_loads(plan.kernel)
        and _runs_alike(plan.loop, plan.outer)
        and _cleared(plan.loop, products)
    )
    return SumVersions(MOST_VERSIONS if known else 1, columns or 0, sized)


def _runs_alike(loop: Operation, outer: tuple[Operation, ...]) -> bool:
    """Each execution has a product, or none has: else sums that a tile before made are loaded."""
    if static_trip_count(loop):
        return True
    open_ends = [value for value in list(loop.operands)[:3] if constant_value(value) is None]
    around = set(outer)
    return not any(
        op in around
        for value in open_ends
        for op in (source_op(value), *ancestors(source_op(value)))
    )


def _cleared(loop: Operation, products: list[Operation]) -> bool:
    """The first product into each of the sums takes them for 0 in the first iteration."""
    first: dict[int, Operation] = {}
    seen: dict[Value, Columns] = {}
    for op in products:
        first.setdefault(columns_after(op.operands[0], seen)[1], op)
    return all(_begins(loop, op) for op in first.values())


def _begins(loop: Operation, product: Operation) -> bool:
    adds = product.operands[groups_of(product)["adds"][0]]
    if constant_value(adds) == 0:
        return True
    op = defining_op(adds)
    predicate = predicate_of(op)
    if op is None or predicate is None:
        return False
    variable, lower = loop.regions[0].blocks[0].arguments[0], loop.operands[0]
    begins = {lower} if constant_value(lower) is None else {constant_value(lower)}
    other = op.operands[1]
    number = constant_value(other)
    same = op.operands[0] == variable and (other if number is None else number) in begins
    return same and predicate in ("ne", "sgt", "ugt")
