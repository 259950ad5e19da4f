"""Pass `async-pipe-normalise-mbarriers`: takes the nvvm form of mbarriers that a loop waits at for that of nvgpu, which the plans read.

    nvvm.mbarrier.init %p, %c1                      nvgpu.mbarrier.init %group[%c0], %c1
    nvvm.mbarrier.arrive.expect_tx %p, %bytes       nvgpu.mbarrier.arrive.expect_tx %group[%c0], %bytes
    scf.while { not test.wait %p, %phase }    -->   nvgpu.mbarrier.try_wait.parity %group[%c0], %phase
    nvvm.cp.async.bulk… on %p                       nvvm.cp.async.bulk… on (nvgpu.mbarrier.get %group[%c0])
    … into shared::cta memory                       … into the same as shared::cluster memory

A pointer names mbarrier n of a group if it leads to byte 8 n of a buffer that nothing but mbarrier
ops use. Where anything else uses it, or the byte is not known, the form stays, and is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    OpWriter,
    Value,
    again,
    ancestors,
    attributes_of,
    before,
    create,
    defining_op,
    enclosing,
    grow_group,
    operations,
    outermost,
    parent,
    source_op,
    terminator,
    unchanged,
    users,
    walk,
    walk_named,
)
from mlir_async_pipe.facts.loops.annotations import NUM_STAGES, SCHEDULE, requested_loops
from mlir_async_pipe.facts.loops.transactions import (
    TICKS,
    has_transactions,
    mbarrier_pointer,
    operand,
    operand_number,
)
from mlir_async_pipe.facts.values.integer_ops import IntegerWriter, integer_constant
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import (
    Root,
    constant_bytes,
    is_pointer,
    root_of,
    static_bytes,
)
from mlir_async_pipe.session.passes import NoOptions, register
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary import is_pure, use_of
from mlir_async_pipe.vocabulary.mbarrier_ops import MBARRIER_BYTES, TENSOR_LOADS
from mlir_async_pipe.vocabulary.memory_names import names_memory
from mlir_async_pipe.vocabulary.operator_table import is_operator


@dataclass(frozen=True)
class MbarrierUse:
    """An mbarrier op on a pointer, and the number of the mbarrier. `asks`: the loop around a test."""

    op: Operation
    number: int
    asks: Operation | None = None


@register("async-pipe-normalise-mbarriers", "take mbarriers of nvvm for those of nvgpu")
def run(module: Any, options: NoOptions, session: Session) -> None:
    loops_of: dict[Operation, list[Operation]] = {}
    for loop in filter(has_transactions, requested_loops(module)):
        function = enclosing(loop, FUNCTION_OPS)
        if function is not None:
            loops_of.setdefault(function, []).append(loop)
    for function, inside in loops_of.items():
        name_numbers(function)
        ops = [op for loop in inside for op in walk(loop)]
        with unchanged():
            named = dict.fromkeys(root_of(p).identity for op in ops for p in _pointer_of(op))
            found = _uses(function, named) if named else []
        for root, uses in found:
            _rewrite(function, root, uses)
        for op in [op for loop in inside for op in walk(loop)]:
            if "isCTAOnly" in op.attributes and ir.BoolAttr(op.attributes["isCTAOnly"]).value:
                _into_cluster(op)


def name_numbers(function: Operation) -> None:
    """Casts between index and i64 that a conversion left are those of numbers."""
    for op in walk_named(function, "builtin.unrealized_conversion_cast".__eq__):
        kinds = [str(value.type) for value in (*op.operands, *op.results)]
        if kinds in (["index", "i64"], ["i64", "index"]):
            write, kind = IntegerWriter.before(op), op.results[0].type
            known = integer_constant(op.operands[0])
            number = (
                write.cast("arith.index_cast", op.operands[0], kind)
                if known is None
                else write.constant(known, kind)
            )
            op.results[0].replace_all_uses_with(number)
            op.erase()


def _into_cluster(op: Operation) -> None:
    """Address the own block's memory as part of the cluster's, whose copies take a predicate."""
    at = operand_number(op, "destination")
    write = IntegerWriter.before(op)
    kind = ir.Type.parse("!llvm.ptr<7>", op.context)
    op.operands[at] = write.cast("llvm.addrspacecast", op.operands[at], kind)
    op.attributes["isCTAOnly"] = ir.BoolAttr.get(False, op.context)


def _pointer_of(op: Operation) -> Iterator[Value]:
    """The mbarrier of an op that names it by a pointer."""
    barrier = None if use_of(op) is None else operand(op, "barrier")
    if barrier is not None and is_pointer(barrier):
        yield barrier


# Who uses the memory -----------------------------------------------------------------------


def _uses(function: Operation, named: Iterable[Any]) -> list[tuple[Root, list[MbarrierUse]]]:
    """All uses of those of the memories `named` in which there are mbarriers and nothing else."""
    arithmetic, found = Arithmetic(), dict[Any, tuple[Root, list[MbarrierUse]]]()
    refused = {
        root_of(op.results[0]).identity
        for op in walk(outermost(function))
        if names_memory(op) and enclosing(op, FUNCTION_OPS) != function
    }
    for op in walk(function):
        # An op that makes another name of the memory.
        leads_on = len(op.results) and is_pure(op) and not len(op.regions)
        for number, value in enumerate(() if leads_on else op.operands):
            is_memory = is_pointer(value) or str(value.type).startswith("memref<")
            root = root_of(value) if is_memory else None
            if root is None or root.identity not in named:
                continue
            use = _use(op, number, value, arithmetic)
            if use is None or not root.owned or not static_bytes(root):
                refused.add(root.identity)
            else:
                found.setdefault(root.identity, (root, []))[1].append(use)
    return [found[name] for name in named if name in found and name not in refused]


def _use(op: Operation, number: int, pointer: Value, arithmetic: Arithmetic) -> MbarrierUse | None:
    use = use_of(op)
    if use not in ("init", "expect", "wait", "test", "copy"):
        return None
    if number != operand_number(op, "barrier") or any(
        users(r) for r in op.results if use != "test"
    ):
        return None
    at = constant_bytes(pointer, arithmetic)
    asks = _asking_loop(op) if use == "test" else None
    if at is None or at % MBARRIER_BYTES or at < 0 or (use == "test" and asks is None):
        return None
    return MbarrierUse(op, at // MBARRIER_BYTES, asks)


def _asking_loop(test: Operation) -> Operation | None:
    """The loop that does nothing but ask until a phase is over: scf.while { not test }."""
    loop, phase = parent(test), operand(test, "phase")
    if loop is None or loop.name != "scf.while" or len(loop.operands) or len(loop.results):
        return None
    block = test.block
    rest = [op for op in operations(block) if op != test and op != terminator(block)]
    other = loop.regions[1].blocks[0]
    if block == other or len(operations(other)) != 1 or not all(map(is_pure, rest)):
        return None
    if phase is None or str(phase.type) != "i32" or loop in ancestors(source_op(phase)):
        return None
    again = defining_op(terminator(block).operands[0])
    if again is None or not is_operator(again.name, "xor"):
        return None
    numbers = {integer_constant(value) for value in again.operands}
    return loop if test.results[0] in again.operands and numbers & {1, -1} else None


# The other form ----------------------------------------------------------------------------


def _rewrite(function: Operation, root: Root, uses: list[MbarrierUse]) -> None:
    count = max(static_bytes(root) // MBARRIER_BYTES, *(use.number + 1 for use in uses))
    made = defining_op(root.value)
    block = function.regions[0].blocks[0]
    start = made if made is not None and root.kind == "allocation" else operations(block)[0]
    space = "#gpu.address_space<workgroup>"
    text = f"!nvgpu.mbarrier.group<memorySpace = {space}, num_barriers = {count}>"
    kind = ir.Type.parse(text, function.context)
    group = OpWriter.before(start).make("nvgpu.mbarrier.create", (), kind)
    for use in uses:
        _write_use(use, group)


def _write_use(use: MbarrierUse, group: Value) -> None:
    op, replaced = use.op, use.asks or use.op
    write = IntegerWriter(before(replaced), op.location)
    number = write.constant(use.number)

    def as_index(name: str) -> Value:
        given = operand(op, name)
        assert given is not None
        form = Arithmetic().linear(given)
        if form.is_constant:
            return write.constant(form.constant)
        return write.cast("arith.index_cast", given, write.index)

    match use_of(op):
        case "copy":
            at = operand_number(op, "barrier")
            op.operands[at] = mbarrier_pointer(write, group, number, op.operands[at].type)
            return
        case "init":
            name, operands = "nvgpu.mbarrier.init", [group, as_index("arrivals"), number]
        case "expect":
            name, operands = "nvgpu.mbarrier.arrive.expect_tx", [group, as_index("bytes"), number]
        case _:
            name = "nvgpu.mbarrier.try_wait.parity"
            ticks = as_index("ticks") if operand(op, "ticks") is not None else write.constant(TICKS)
            operands = [group, _parity(op, write), ticks, number]
    predicate = operand(op, "predicate")
    operands += [] if predicate is None else [predicate]
    create(name, operands, ip=before(replaced), loc=op.location)
    replaced.erase()


def _parity(op: Operation, write: IntegerWriter) -> Value:
    """The parity of a wait as an i1."""
    phase = operand(op, "phase")
    assert phase is not None
    made = defining_op(phase)
    if made is not None and is_operator(made.name, "cast") and str(made.operands[0].type) == "i1":
        return made.operands[0]
    return write.cast("arith.trunci", phase, ir.IntegerType.get_signless(1, op.context))


def predicate_transactions(loop: Operation) -> None:
    """Dissolve each branch of the loop's body that only issues transactions."""
    for branch in operations(loop.regions[0].blocks[0]):
        if branch.name != "scf.if" or not _only_issues(branch):
            continue
        for op in operations(branch.regions[0].blocks[0])[:-1]:
            op.move_before(branch)
            if use_of(op) not in (None, "handle"):
                _add_predicate(op, branch.operands[0])
        branch.erase()


def _only_issues(branch: Operation) -> bool:
    """Whether a branch announces and copies, with pure ops, and has nothing else on either side."""
    if len(branch.results) or len(list(branch.regions[1].blocks)):
        return False
    *ops, _ = operations(branch.regions[0].blocks[0])
    issuing = [op for op in ops if use_of(op) == "expect" or op.name in TENSOR_LOADS]
    return bool(issuing) and all(
        op in issuing or use_of(op) == "handle" or (is_pure(op) and not len(op.regions))
        for op in ops
    )


def _add_predicate(op: Operation, condition: Value) -> None:
    given = operand(op, "predicate")
    if given is not None:
        both = OpWriter.before(op).make("arith.andi", [condition, given], given.type)
        op.operands[operand_number(op, "predicate")] = both
        return
    attributes = attributes_of(op)
    # The predicate is the last group.
    grow_group(attributes, -1, 1)
    again(op, [*op.operands, condition], attributes=attributes)


@register(
    "async-pipe-normalise-predicates",
    "give tensor copies the condition of their branch as predicate",
)
def run_predicates(module: Any, options: NoOptions, session: Session) -> None:
    """Takes the issue of tensor copies out of the branch that one thread takes.

        scf.if %leader {                        expect_tx %full[%c0], %bytes, predicate = %leader
          expect_tx %full[%c0], %bytes    -->   load %map[%k], %full[%c0] to %tile, predicate = %leader
          load %map[%k], %full[%c0] to %tile
        }

    An op that already has a predicate gets both.
    """
    for loop in requested_loops(module):
        # Arrays and stages on ops are about the statements that there are.
        if NUM_STAGES in loop.attributes or SCHEDULE in loop.attributes:
            predicate_transactions(loop)
