"""Breaks a kernel where threads meet: barriers, conditions, subscripts, slots, blocks.

barrier-up, barrier-down       a barrier changes places with the next op that has to do with memory
barrier-out-of-branch          a barrier of a branch stands after it
barrier-into-branch            a barrier under a condition that only some threads fulfil
wait-into-branch, wait-into-thread-branch, commit-into-branch
                               under a condition of the arguments, or of the thread
thread-condition               a branch of all threads becomes one of the thread
shifted-subscript              one subscript + 1
next-thread                    thread t works at t + 1
swapped-subscripts             two subscripts of one access change places
swapped-slots                  two carried values of a loop change places in its yield
other-sign                     a comparison becomes signed or unsigned
weaker-fence                   a barrier orders global memory only
smaller-block, larger-block, flat-block, unknown-block
                               the block has other threads than was known
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import create, operations, walk
from mlir_async_pipe.vocabulary import accesses, row_of

Mutate = Callable[[Any, int], "bool | None"]


def _pick(found: list[Any], number: int) -> Any:
    return found[number] if number < len(found) else None


def _ops(module: Any, wanted: Callable[[Any], bool]) -> list[Any]:
    return [op for op in walk(module) if (row := row_of(op)) is not None and wanted(row)]


def _barriers(module: Any) -> list[Any]:
    return _ops(module, lambda row: row.barrier is not None)


def _matters(op: Any) -> bool:
    rows = map(row_of, (op, *walk(op)))
    return any(row is not None and row.opaque is None for row in rows)


def barrier_up(module: Any, number: int) -> bool | None:
    barrier = _pick(_barriers(module), number)
    if barrier is None:
        return None
    siblings = operations(barrier.block)
    before = [op for op in siblings[: siblings.index(barrier)] if _matters(op)]
    if not before:
        return False
    barrier.move_before(before[-1])
    return True


def barrier_down(module: Any, number: int) -> bool | None:
    barrier = _pick(_barriers(module), number)
    if barrier is None:
        return None
    siblings = operations(barrier.block)
    after = [op for op in siblings[siblings.index(barrier) + 1 : -1] if _matters(op)]
    if not after:
        return False
    barrier.move_after(after[0])
    return True


def barrier_out_of_branch(module: Any, number: int) -> bool | None:
    inside = [b for b in _barriers(module) if b.parent.name == "scf.if"]
    barrier = _pick(inside, number)
    if barrier is None:
        return None
    barrier.move_after(barrier.parent)
    return True


def _kernel_of(op: Any) -> Any:
    while not op.name.endswith((".func", ".launch")):
        op = op.parent.operation if hasattr(op.parent, "operation") else op.parent
    return op


def _thread_condition(op: Any, ip: Any) -> Any:
    """tid.x < 1"""
    index, loc = ir.IndexType.get(op.context), op.location
    dimension = ir.Attribute.parse("#gpu<dim x>", op.context)
    thread = create("gpu.thread_id", [], [index], {"dimension": dimension}, ip=ip, loc=loc)
    return _compare(thread.results[0], 1, 6, ip, loc)


def _compare(value: Any, constant: int, predicate: int, ip: Any, loc: Any) -> Any:
    kinds = ir.IntegerType.get_signless
    with loc.context:
        number = ir.IntegerAttr.get(value.type, constant)
        limit = create("arith.constant", [], [value.type], {"value": number}, ip=ip, loc=loc)
        which = {"predicate": ir.IntegerAttr.get(kinds(64), predicate)}
        operands = [value, limit.results[0]]
        return create("arith.cmpi", operands, [kinds(1)], which, ip=ip, loc=loc).results[0]


def _common_condition(op: Any, ip: Any) -> Any:
    """An i1 argument of the kernel, or n < 2 for an index argument; None without either."""
    arguments = list(_kernel_of(op).regions[0].blocks[0].arguments)
    for argument in arguments:
        if str(argument.type) == "i1":
            return argument
    for argument in arguments:
        if str(argument.type) == "index":
            return _compare(argument, 2, 2, ip, op.location)
    return None


def _wrap(op: Any, condition_of: Callable[[Any, Any], Any]) -> bool:
    """op   -->   scf.if %condition { op }"""
    if any(list(result.uses) for result in op.results):
        return False
    ip = ir.InsertionPoint(op)
    condition = condition_of(op, ip)
    if condition is None:
        return False
    branch = create("scf.if", [condition], regions=2, ip=ip, loc=op.location)
    block = branch.regions[0].blocks.append()
    leave = create("scf.yield", ip=ir.InsertionPoint(block), loc=op.location)
    op.move_before(leave)
    return True


def _into_branch(wanted: Callable[[Any], bool], condition_of: Callable[[Any, Any], Any]) -> Mutate:
    def mutate(module: Any, number: int) -> bool | None:
        op = _pick(_ops(module, wanted), number)
        return None if op is None else _wrap(op, condition_of)

    return mutate


def thread_condition(module: Any, number: int) -> bool | None:
    branch = _pick([op for op in walk(module) if op.name in ("scf.if", "cf.cond_br")], number)
    if branch is None:
        return None
    branch.operands[0] = _thread_condition(branch, ir.InsertionPoint(branch))
    return True


def _subscripts(module: Any) -> list[tuple[Any, int]]:
    found = []
    for op in walk(module):
        for access in accesses(op):
            found += [(op, number) for number in access.index_operands]
    return found


def _add_one(op: Any, number: int) -> None:
    value, ip = op.operands[number], ir.InsertionPoint(op)
    one = ir.IntegerAttr.get(value.type, 1)
    loc = op.location
    step = create("arith.constant", [], [value.type], {"value": one}, ip=ip, loc=loc)
    more = create("arith.addi", [value, step.results[0]], [value.type], ip=ip, loc=loc)
    op.operands[number] = more.results[0]


def shifted_subscript(module: Any, number: int) -> bool | None:
    found = _pick(_subscripts(module), number)
    if found is None:
        return None
    _add_one(*found)
    return True


def next_thread(module: Any, number: int) -> bool | None:
    uses = [
        (use.owner, use.operand_number)
        for op in walk(module)
        if op.name == "gpu.thread_id"
        for use in op.results[0].uses
    ]
    found = _pick(uses, number)
    if found is None:
        return None
    _add_one(found[0].operation, found[1])
    return True


def swapped_subscripts(module: Any, number: int) -> bool | None:
    pairs = [
        (op, numbers[i], numbers[i + 1])
        for op in walk(module)
        for numbers in ([list(access.index_operands) for access in accesses(op)])
        for i in range(len(numbers) - 1)
    ]
    found = _pick(pairs, number)
    if found is None:
        return None
    op, first, second = found
    op.operands[first], op.operands[second] = op.operands[second], op.operands[first]
    return True


def swapped_slots(module: Any, number: int) -> bool | None:
    pairs = []
    for op in walk(module):
        if op.name != "scf.yield" or op.parent.name != "scf.for":
            continue
        kinds = [str(value.type) for value in op.operands]
        for i, kind in enumerate(kinds):
            pairs += [(op, i, j) for j in range(i + 1, len(kinds)) if kind == kinds[j] == "index"]
    found = _pick(pairs, number)
    if found is None:
        return None
    op, first, second = found
    op.operands[first], op.operands[second] = op.operands[second], op.operands[first]
    return True


# slt, sle, sgt, sge are 2 to 5, their unsigned twins 6 to 9.
_SIGNED = range(2, 6)


def other_sign(module: Any, number: int) -> bool | None:
    ordered = [op for op in walk(module) if op.name == "scf.for" or _is_ordered(op)]
    op = _pick(ordered, number)
    if op is None:
        return None
    if op.name == "scf.for":
        if "unsignedCmp" in op.attributes:
            del op.attributes["unsignedCmp"]
        else:
            op.attributes["unsignedCmp"] = ir.UnitAttr.get(op.context)
        return True
    old = ir.IntegerAttr(op.attributes["predicate"])
    change = 4 if old.value in _SIGNED else -4
    op.attributes["predicate"] = ir.IntegerAttr.get(old.type, old.value + change)
    return True


def _is_ordered(op: Any) -> bool:
    return op.name == "arith.cmpi" and ir.IntegerAttr(op.attributes["predicate"]).value >= 2


def weaker_fence(module: Any, number: int) -> bool | None:
    barrier = _pick([b for b in _barriers(module) if b.name == "gpu.barrier"], number)
    if barrier is None:
        return None
    barrier.attributes["address_spaces"] = ir.Attribute.parse(
        "[#gpu.address_space<global>]", barrier.context
    )
    return True


BLOCKS = ("known_block_size", "gpu.known_block_size")


def _other_block(change: Callable[[int, int, int], tuple[int, int, int] | None]) -> Mutate:
    def mutate(module: Any, number: int) -> bool | None:
        kernels = [(op, name) for op in walk(module) for name in BLOCKS if name in op.attributes]
        found = _pick(kernels, number)
        if found is None:
            return None
        op, name = found
        x, y, z = ir.DenseI32ArrayAttr(op.attributes[name])
        size = change(x, y, z)
        if size is None:
            del op.attributes[name]
        elif size == (x, y, z) or 0 in size:
            return False
        else:
            op.attributes[name] = ir.DenseI32ArrayAttr.get(list(size), op.context)
        return True

    return mutate


def _is_wait(row: Any) -> bool:
    return row.wait is not None


KINDS: dict[str, Mutate] = {
    "barrier-up": barrier_up,
    "barrier-down": barrier_down,
    "barrier-out-of-branch": barrier_out_of_branch,
    "barrier-into-branch": _into_branch(lambda row: row.barrier is not None, _thread_condition),
    "wait-into-branch": _into_branch(_is_wait, _common_condition),
    "wait-into-thread-branch": _into_branch(_is_wait, _thread_condition),
    "commit-into-branch": _into_branch(lambda row: row.commits == "group", _common_condition),
    "thread-condition": thread_condition,
    "shifted-subscript": shifted_subscript,
    "next-thread": next_thread,
    "swapped-subscripts": swapped_subscripts,
    "swapped-slots": swapped_slots,
    "other-sign": other_sign,
    "weaker-fence": weaker_fence,
    "smaller-block": _other_block(lambda x, y, z: (x // 2, y, z)),
    "larger-block": _other_block(lambda x, y, z: (2 * x, y, z)),
    "flat-block": _other_block(lambda x, y, z: (x // 2, 2 * y, z)),
    "unknown-block": _other_block(lambda x, y, z: None),
}
