"""What of a loop completes on mbarriers or runs on into the next iteration: tensor copies, products.

Transactions are copies that complete on an mbarrier, with what announces them and what waits for them.

    nvgpu.mbarrier.arrive.expect_tx %full[%c0], %bytes, predicate = %leader     the commit
    nvgpu.tma.async.load %map[%k], %full[%c0] to %tile, predicate = %leader     the copies
    nvgpu.mbarrier.try_wait.parity %full[%c0], %phase, %ticks                   the wait

Each iteration has one of each for an mbarrier, which is named by a group and a constant number.

An op on an mbarrier names a group and a number, or a pointer made of them.

nvgpu.mbarrier.try_wait.parity %full[%c0], …                      a group and a number
%at = nvgpu.mbarrier.get %full[%c0]                               a pointer to one of a group
%to = llvm.inttoptr %at
nvvm.tcgen05.commit %to

Products of tensor memory of an iteration, and the mbarrier that says when they are over.

    scf.if %leader {
      nvvm.tcgen05.mma %sums, %a, %b, …
      %at = nvgpu.mbarrier.get %done[%c0]
      %to = llvm.inttoptr %at
      nvvm.tcgen05.commit %to                                    one arrival, when all are over
    }
    nvgpu.mbarrier.try_wait.parity %done[%c0], %phase, %ticks    the wait

What a count of groups is to products of warpgroups, a phase is to these: where p iterations may be in
flight, the wait of iteration t is for the commit of t - p.

Products of a warpgroup that may still run while the next iteration issues its own.

    %next = nvgpu.warpgroup.mma %a, %b, %sum {waitGroup = 0}     waits for itself
    scf.yield %next                                              waitGroup = 1: for the one before

That is so where what they sum up is given to products only, in the loop: each has then an iteration's
time to run. With p iterations in flight and g groups an iteration a wait leaves p g.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    OpWriter,
    Value,
    ancestors,
    attribute,
    constant_value,
    defining_op,
    operations,
    remembered,
    users,
    walk,
    walk_named,
)
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter
from mlir_async_pipe.session.diagnostics import InputError, PipelineError
from mlir_async_pipe.vocabulary import (
    VIEW_OPS,
    groups_of,
    is_pure,
    named_row,
    row_of,
    tensor_use,
    use_of,
)
from mlir_async_pipe.vocabulary.mbarrier_ops import TENSOR_LOADS
from mlir_async_pipe.vocabulary.memory_layout import element_bytes
from mlir_async_pipe.vocabulary.memory_names import POINTER_OF_ADDRESS
from mlir_async_pipe.vocabulary.products import PRODUCTS_LEFT, WARPGROUP_MMA
from mlir_async_pipe.vocabulary.rows import WGMMA, PhaseUse
from mlir_async_pipe.vocabulary.tensor_boxes import box_bytes, moves_no_box

# How long a try_wait sleeps at most before it looks again, in nanoseconds.
TICKS = 10_000_000


def only_computes(op: Operation) -> bool:
    """Whether all that an op does is to give values, views or handles of mbarriers, without regions."""
    named = is_pure(op) or op.name in VIEW_OPS or use_of(op) == "handle"
    return named and not len(op.regions)


def operand(op: Operation, name: str) -> Value | None:
    """The operand of an mbarrier op that goes by `name`, None where the op has none."""
    number = named(op).get(name)
    return None if number is None else op.operands[number]


def operand_constant(op: Operation, name: str) -> int | None:
    """The number that such an operand is, None where it is no constant, or the op has none."""
    value = operand(op, name)
    return None if value is None else constant_value(value)


def operand_number(op: Operation, name: str) -> int:
    return named(op)[name]


def handle_of(op: Operation) -> Operation | None:
    """The op that takes one mbarrier of a group, to which the pointer leads that `op` names it by."""
    pointer = None if "index" in named(op) else operand(op, "barrier")
    made = None if pointer is None else defining_op(pointer)
    if made is None or made.name != POINTER_OF_ADDRESS:
        return None
    handle = defining_op(made.operands[0])
    return handle if handle is not None and use_of(handle) == "handle" else None


def mbarrier_named(op: Operation) -> tuple[Value, int] | None:
    """The group and the number of the mbarrier that an op names, None where that is not known."""
    handle = handle_of(op) or op
    barriers, number = operand(handle, "barrier"), operand_constant(handle, "index")
    return None if barriers is None or number is None else (barriers, number)


def mbarrier_pointer(write: IntegerWriter, group: Value, number: Value, kind: Any) -> Value:
    """A pointer of type `kind` to one mbarrier of a group."""
    i64 = ir.IntegerType.get_signless(64, write.context)
    name = "nvgpu.mbarrier.get"
    return write.cast(POINTER_OF_ADDRESS, write.make(name, [group, number], i64), kind)


def write_mbarrier_wait(
    write: IntegerWriter, group: Value, number: Value, parity: Value
) -> Operation:
    """Wait until the phase of a parity is over."""
    operands = [group, parity, write.constant(TICKS), number]
    return write.op("nvgpu.mbarrier.try_wait.parity", operands)


def write_mbarrier_fences(write: OpWriter) -> None:
    """Let the others, and the copies, see mbarriers that were initialised."""
    write.op("nvvm.fence.mbarrier.init")
    kinds = {
        "kind": attribute("#nvvm.proxy_kind<async.shared>", write.location.context),
        "space": attribute("#nvvm.shared_space<cta>", write.location.context),
    }
    write.op("nvvm.fence.proxy", (), (), kinds)


def named(op: Operation) -> dict[str, int]:
    """The places of the operands that an mbarrier op has, by name."""
    return {name: group[0] for name, group in groups_of(op).items() if len(group)}


@dataclass(frozen=True)
class Completion:
    """What completes one phase of mbarrier `number` of the group `barriers` in each iteration:
    `commit`, whose address `get` names, for all products of its thread."""

    barriers: Value
    number: int
    commit: Operation
    get: Operation
    wait: Operation

    @property
    def ops(self) -> tuple[Operation, ...]:
        return (self.get, self.commit, self.wait)


def completions_of(loop: Operation) -> tuple[Completion, ...]:
    """The commits of a loop; raises PipelineError (commit-incomplete)."""
    commits = [op for op in walk(loop) if use_of(op) == "commit"]
    made = tuple(_completion(op, loop) for op in commits)
    keys = [(c.barriers, c.number) for c in made]
    for number, completion in enumerate(made):
        if keys.index(keys[number]) != number:
            raise _incomplete_commit(
                completion.commit, "another commit of the iteration arrives there too"
            )
    return made


def hindrance(loop: Operation) -> Operation | None:
    """The op in a loop that touches tensor memory and is no product, None if there is none."""
    kinds = ("load", "store", "copy", "shift", "alloc", "dealloc")
    return next((op for op in walk(loop) if tensor_use(op) in kinds), None)


def _completion(commit: Operation, loop: Operation) -> Completion:
    top = operations(loop.regions[0].blocks[0])
    if len(commit.operands) > 1:
        raise _incomplete_commit(commit, "it arrives in other blocks of a cluster")
    get, found = handle_of(commit), mbarrier_named(commit)
    if get is None or found is None:
        raise _incomplete_commit(commit, "its mbarrier is not a group's with a constant number")
    pointer = commit.operands[0]
    if len(users(pointer)) > 1 or len(users(get.results[0])) > 1:
        raise _incomplete_commit(commit, "the address of its mbarrier goes elsewhere too")
    above = [op for op in (commit, *ancestors(commit)) if op in top]
    between = [op for op in ancestors(commit) if op != loop and loop in ancestors(op)]
    if any(op.name != "scf.if" for op in between):
        raise _incomplete_commit(commit, "it may arrive more than once in an iteration")
    waits = [op for op in top if use_of(op) == "wait" and mbarrier_named(op) == found]
    if len(waits) != 1 or top.index(waits[0]) < top.index(above[0]):
        raise _incomplete_commit(
            commit, "the iteration has no single try_wait.parity for it after it"
        )
    return Completion(*found, commit, get, waits[0])


def _incomplete_commit(op: Operation, why: str) -> PipelineError:
    return PipelineError(
        f"cannot pipeline: '{op.name}' completes products in a way that cannot be moved: {why}",
        code="commit-incomplete",
        at=op,
        advice="write each iteration as if it were alone: products and one commit by one thread, on "
        "nvgpu.mbarrier.get of an mbarrier of their own, then try_wait.parity by all "
        "(docs/blackwell.md)",
    )


@dataclass(frozen=True)
class Transaction:
    """What completes one phase of mbarrier `number` of the group `barriers` in each iteration."""

    barriers: Value
    number: int
    expect: Operation
    copies: tuple[Operation, ...]
    wait: Operation

    @property
    def ops(self) -> tuple[Operation, ...]:
        return (self.expect, *self.copies, self.wait)


@remembered
def has_transactions(loop: Operation) -> bool:
    """Whether a loop copies by ops that complete on mbarriers."""
    return bool(walk_named(loop, lambda name: named_row(name).completion == "mbarrier"))


# What announces or waits for a phase, or names an mbarrier: of a transaction, its commit and its wait.
ANNOUNCED = ("expect", "wait", "handle")


def transactions_of(loop: Operation) -> tuple[Transaction, ...]:
    """The transactions of a loop, in the order of their waits.

    Raises PipelineError: async-op-unsupported, transaction-incomplete, transaction-bytes,
    commit-incomplete.
    """
    for op in walk(loop):
        if row_of(op).completion == "mbarrier":
            _check_form(op)
    top = operations(loop.regions[0].blocks[0])
    of_products = {op for completion in completions_of(loop) for op in completion.ops}
    for op in walk(loop):
        if use_of(op) is not None and op not in top and op not in of_products:
            raise _incomplete(op, "it stands in a region of the body, not in the body itself")
    found: dict[tuple[Value, int], dict[str, list[Operation]]] = {}
    for op in top:
        use = use_of(op)
        if use is None or use == "handle" or op in of_products:
            continue
        issued_by_all = use in ("expect", "copy") and "predicate" not in named(op)
        if use not in ("expect", "copy", "wait") or issued_by_all:
            raise _incomplete(op, _unfit(use))
        parts = found.setdefault(_mbarrier(op), {"expect": [], "copy": [], "wait": []})
        parts[use].append(op)
    made = [_complete(*key, parts) for key, parts in found.items()]
    for transaction in made:
        _check_bytes(transaction)
    places = {op: place for place, op in enumerate(top)}
    return tuple(sorted(made, key=lambda transaction: places[transaction.wait]))


def _check_form(op: Operation) -> None:
    """Whether copies of this form can run ahead; raises PipelineError (async-op-unsupported)."""
    why = ""
    if op.name not in TENSOR_LOADS:
        why = "it has no predicate, which ends the copies"
    elif "im2col" in named(op) or moves_no_box(op):
        why = "in im2col or gather mode the box is not what the tile's type says"
    if why:
        raise PipelineError(
            f"cannot pipeline: '{op.name}' completes on an mbarrier, and is not made to run ahead: "
            f"{why}",
            code="async-op-unsupported",
            at=op,
            advice=f"write it as '{TENSOR_LOADS[0]}' of a tiled map into this block, or as "
            "nvgpu.device_async_copy",
        )


def _unfit(use: PhaseUse) -> str:
    if use in ("expect", "copy"):
        return "every thread issues it, and a phase has one arrival; give it a predicate"
    return "it is no part of copying a tile: only arrive.expect_tx, copies and a try_wait are"


def _mbarrier(op: Operation) -> tuple[Value, int]:
    found = mbarrier_named(op)
    if found is None:
        raise _incomplete(op, "its mbarrier is not a group's with a constant number")
    return found


def _complete(barriers: Value, number: int, parts: dict[str, list[Operation]]) -> Transaction:
    first = next(op for ops in (parts["copy"], parts["expect"], parts["wait"]) for op in ops)
    for use, what in (("expect", "arrive.expect_tx"), ("wait", "try_wait.parity")):
        if len(parts[use]) != 1:
            some = "no" if not parts[use] else "more than one"
            raise _incomplete(first, f"the iteration has {some} {what} for its mbarrier")
    (expect,), (wait,), copies = parts["expect"], parts["wait"], parts["copy"]
    if not copies:
        raise _incomplete(expect, "no copy of the iteration completes on its mbarrier")
    block = list(operations(expect.block))
    if any(block.index(op) > block.index(wait) for op in (expect, *copies)):
        raise _incomplete(wait, "it waits before the copies of its iteration are issued")
    return Transaction(barriers, number, expect, tuple(copies), wait)


def _check_bytes(transaction: Transaction) -> None:
    """The bytes that are announced are those of whole boxes, zeros outside of the tensor too."""
    if any("multicast" in named(copy) for copy in transaction.copies):
        # What other blocks bring counts too (`cluster_plan`).
        return
    given = operand_constant(transaction.expect, "bytes")
    sizes = [bytes_of(copy) for copy in transaction.copies]
    # What the maps of nvvm's form describe is often not to be seen.
    known = [size for size in sizes if size is not None]
    whole = sum(known)
    if len(known) == len(sizes) and given is not None and given != whole:
        raise PipelineError(
            f"cannot pipeline: {given} bytes are announced, and the copies of the phase bring "
            f"{whole}",
            code="transaction-bytes",
            at=transaction.expect,
            notes=tuple(("a copy of the phase", copy) for copy in transaction.copies),
            advice="announce the bytes of the whole boxes; what is out of bounds counts as zeros",
        )


def bytes_of(copy: Operation) -> int | None:
    """The bytes that a tensor copy brings to a block, None if that is not to be seen."""
    kind = copy.operands[operand_number(copy, "destination")].type
    if str(kind).startswith("memref<"):
        return prod(kind.shape) * element_bytes(kind)
    return box_bytes(copy)


def _incomplete(op: Operation, why: str) -> PipelineError:
    return PipelineError(
        f"cannot pipeline: '{op.name}' is not part of a transaction that can be moved: {why}",
        code="transaction-incomplete",
        at=op,
        advice="write each iteration as if it were alone: arrive.expect_tx and its copies by one "
        "thread, then try_wait.parity by all (docs/hopper.md)",
    )


# No wait counts products of tensor memory: slots and their mbarriers are the limit.
_ANY = 1 << 10


@dataclass(frozen=True)
class Products:
    """The products of a loop body: `waits` are the ops that wait for groups of them, `groups` is
    their number in an iteration. `hindered` says why none may be left in flight, "" if they may;
    `at` is the op that it is about. `completions` are the commits of products of tensor memory."""

    waits: tuple[Operation, ...]
    groups: int
    hindered: str = ""
    at: Operation | None = None
    completions: tuple[Completion, ...] = ()

    def at_most(self) -> int:
        """Iterations whose products may be in flight, by what a wait can count."""
        if self.completions and not self.hindered:
            return _ANY
        if self.hindered or not self.groups:
            return 0
        return (WGMMA.largest_count or 0) // self.groups


def products_of(loop: Operation) -> Products:
    top = operations(loop.regions[0].blocks[0])
    found = [op for op in walk(loop) if row_of(op).queue == WGMMA]
    waits = tuple(op for op in found if wait_attribute(op) is not None)
    groups = sum(row_of(op).commits is not None for op in found)
    completions = completions_of(loop)
    if completions:
        other = next(iter(found), None) or hindrance(loop)
        why = f"'{other.name}' stands beside products of tensor memory" if other else ""
        return Products(waits, groups, why, other, completions)
    inside = next((op for op in found if op not in top), None)
    if inside is not None:
        return Products(waits, groups, "it stands in a region of the body", inside)
    products = [op for op in found if len(op.results)]
    summed = [result for op in products for result in op.results]
    arguments = list(loop.regions[0].blocks[0].arguments)[1:]
    carried = zip(arguments, top[-1].operands, strict=True)
    for value in summed + [argument for argument, next_ in carried if next_ in summed]:
        for user in users(value):
            if user not in products and user != top[-1]:
                why = f"'{user.name}' uses in the loop what they sum up"
                return Products(waits, groups, why, user)
    return Products(waits, groups)


def in_flight(products: Products, asked: int | None, loop: Operation) -> int:
    """Iterations whose products stay in flight: what is asked, else 1 where that is possible.

    Raises InputError (products-in-use)."""
    most = products.at_most()
    if asked is None:
        return min(1, most)
    if asked > most:
        why = products.hindered or (
            f"a wait counts up to {WGMMA.largest_count} groups, and an iteration has {products.groups}"
            if products.groups
            else "the loop has none"
        )
        raise InputError(
            f"cannot leave the products of {asked} iterations in flight: {why}",
            code="products-in-use",
            at=products.at or loop,
            advice=f"async_pipe.in_flight = {most}",
        )
    return asked


def wait_attribute(op: Operation) -> str | None:
    """The attribute that says how many groups of products a wait leaves in flight; None if it waits for none."""
    if op.name == WARPGROUP_MMA:
        return PRODUCTS_LEFT
    row = row_of(op)
    return row.wait.count if row.queue == WGMMA and row.wait else None
