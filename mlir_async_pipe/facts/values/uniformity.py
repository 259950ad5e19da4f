"""Whether a value is the same in every thread of a block, and which conditions one thread alone meets.

    %row = arith.divui %tid, %c4        differs: it comes from a thread id
    %slot = iter_args of an scf.for     same, if its start and its next value are

A value is the same in all threads if nothing that can reach it differs: its operands, the
starts and next values of loop-carried values, and the conditions that choose between them.
Loads count as different, since other threads may have written in between.

Conditions that hold in thread 0 along x and in no other are read from comparisons of its id:

    %first = arith.cmpi ult, %thread_id_x, %c1      compares %thread_id_x
    %both = arith.andi %first, %exists              a conjunction of %first and %exists
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    Value,
    ancestors,
    constant_value,
    defining_op,
    is_block_argument,
    is_function,
    is_kernel,
    passed_from,
    terminator,
)
from mlir_async_pipe.facts.flow.algorithms import post_order
from mlir_async_pipe.facts.flow.region_flow import first_taken, origins
from mlir_async_pipe.facts.values.domains import predicate_of
from mlir_async_pipe.facts.values.integer_ops import bits_of
from mlir_async_pipe.vocabulary import is_pure, named_row, row_of
from mlir_async_pipe.vocabulary.control_flow import BRANCH_ROWS, REGION_ROWS
from mlir_async_pipe.vocabulary.launch_ids import IDS, LaunchId, launch_id
from mlir_async_pipe.vocabulary.memory_names import SIZE_OPS, in_workgroup_memory
from mlir_async_pipe.vocabulary.operator_table import is_operator


class Uniformity:
    """Answers for the values of one module; remembers what it found the same."""

    def __init__(self) -> None:
        self._same: set[Value] = set()

    def difference(self, value: Value) -> Operation | None:
        """What makes `value` differ between threads (an op, or the op that holds a block
        argument); None if it is the same in all of them.
        """
        return next(self._differences(value), None)

    def _differences(self, value: Value) -> Iterator[Operation]:
        """All that makes it differ."""
        seen: set[Value] = set()
        pending, same = [value], True
        while pending:
            current = pending.pop()
            if current in seen or current in self._same:
                continue
            seen.add(current)
            reached, different = sources(current)
            if different is not None:
                same = False
                yield different
            pending.extend(reached)
        if same:
            self._same |= seen

    def divergent_control(self, op: Operation) -> Operation | None:
        """The op that lets only some threads reach `op`; None if all reach it together.

        A function that is no kernel may be called by some threads only, but then its caller
        holds the branch, and calls are not followed.
        """
        for above in ancestors(op):
            row = REGION_ROWS.get(above.name)
            jump = next(filter(None, map(self._divergent_jump, above.regions)), None)
            if jump is not None or is_function(above) or (row and row.flow == "isolated"):
                return jump
            # Of an op without a row nothing is known: its regions may run in any thread.
            if row is None or row.flow == "parallel":
                return above
            if any(self.difference(value) is not None for value in conditions(above)):
                return above
        return None

    def control_by_thread_id(self, op: Operation) -> Operation | None:
        """`op` or what stands around it, if a thread id certainly decides whether or how often its
        regions run. What comes from loads, calls and arguments may be the same in all threads."""
        for above in (op, *ancestors(op)):
            if is_function(above):
                return None
            begins = [self.difference(value) for value in conditions(above)]
            if any(begin is not None and _is_thread_id(begin) for begin in begins):
                return above
        return None

    def differs_by_thread(self, value: Value) -> bool:
        """Whether a thread id has a part in the value, whatever else may differ in it."""
        return any(map(_is_thread_id, self._differences(value)))

    def _divergent_jump(self, region: Any) -> Operation | None:
        """A branch of a region, on what differs or is not known: it may lead around the region's ops."""
        for last in _jumps(region):
            if last.name not in BRANCH_ROWS or self.difference(last.operands[0]) is not None:
                return last
        return None


def _is_thread_id(origin: Operation) -> bool:
    known = [launch_id(result) for result in origin.results]
    # The block arguments of a gpu.launch begin at the launch itself.
    return (
        origin.name == "gpu.launch"
        or named_row(origin.name).differs
        or any(k is not None and k.differs for k in known)
    )


def conditions(op: Operation) -> list[Value]:
    """The values that decide whether, and how often, the regions of `op` run."""
    row = REGION_ROWS.get(op.name)
    if row is None or row.flow in ("once", "isolated"):
        return []
    operands = list(op.operands)
    if row.flow == "branch":
        return operands if row.condition is None else [operands[row.condition]]
    if row.flow == "while":
        return [terminator(op.regions[0].blocks[0]).operands[0]]
    return operands[: row.entry(op).start] if row.flow == "for" else operands


def is_made_of_operands(name: str) -> bool:
    """Whether results of pure ops called `name` agree in all threads if all operands, their `sources`, do."""
    return named_row(name).agree == "operands" and name not in SIZE_OPS and name not in IDS


def sources(value: Value) -> tuple[Iterable[Value], Operation | None]:
    """The values that `value` is made of; and where it begins, if that may differ between
    threads: an id, a load, a call, an op that is not known, a function (its argument)."""
    known = launch_id(value)
    if known is not None and not known.differs:
        return (), None
    if is_block_argument(value):
        return _argument_sources(value)
    op = defining_op(value)
    assert op is not None
    if known is not None:
        return (), op
    threads = row_of(op).agree
    if threads != "operands":
        return (), None if threads == "same" else op
    if op.name == "memref.alloc" and in_workgroup_memory(value.type):
        # The block has one.
        return op.operands, None
    if op.name in SIZE_OPS:
        return (op.operands[1],), None
    if len(op.regions) > 0:
        return _forwarded(value, op)
    return (op.operands, None) if is_pure(op) else ((), op)


def _argument_sources(value: Value) -> tuple[Iterable[Value], Operation | None]:
    argument = ir.BlockArgument(value)
    block = argument.owner
    op = block.owner.operation
    if op.name in FUNCTION_OPS and block == op.regions[0].blocks[0]:
        return ((), None) if is_kernel(op) else ((), op)
    row = REGION_ROWS.get(op.name)
    if row is not None and row.flow == "for" and argument.arg_number < first_taken(op, row, block):
        return conditions(op), None
    return _forwarded(value, op)


def _forwarded(value: Value, op: Operation) -> tuple[Iterable[Value], Operation | None]:
    """What `op`, or branches in its regions, may forward as `value`, and all that decides which of it."""
    found = origins(value)
    if not found.complete:
        return (), op
    deciding = conditions(op)
    for jump in chain.from_iterable(map(_jumps, op.regions)):
        if jump.name not in BRANCH_ROWS:
            return (), jump
        deciding.append(jump.operands[0])
    return [*found.values, *deciding], None


def _jumps(region: Any) -> list[Operation]:
    """The ends of the blocks of a region with more than one successor."""
    blocks = list(region.blocks)
    ends = [terminator(block) for block in blocks] if len(blocks) > 1 else []
    return [end for end in ends if len(end.successors) > 1]


# A block has 1024 threads at most, numbered from 0: 10 bits and a sign.
THREAD_BITS = 11

# Comparisons of a thread's number that hold in thread 0 alone: the number beside it where it stands first, and
# where it stands second. It is no negative one: casts keep all of it.
_FIRST = {"eq": 0, "slt": 1, "sle": 0, "ult": 1, "ule": 0}
_SECOND = {"eq": 0, "sgt": 1, "sge": 0, "ugt": 1, "uge": 0}


def conjunction(condition: Value) -> list[Value]:
    """The conditions that all hold where this one does: those of an `and` of bits, or itself; each once."""

    def parts(value: Value) -> list[Value]:
        op = defining_op(value)
        return list(op.operands) if op is not None and is_operator(op.name, "and_") else []

    return [value for value in post_order([condition], parts) if not parts(value)]


def compared_thread(condition: Value) -> Value | None:
    """The thread id that a condition which holds in thread 0 alone compares; None of any other."""
    op = defining_op(condition)
    predicate = predicate_of(op)
    if op is None or predicate is None:
        return None
    first, second = op.operands
    for thread, number, rule in ((first, second, _FIRST), (second, first, _SECOND)):
        alone = predicate in rule and constant_value(number) == rule[predicate]
        if alone and launch_id(passed_from(thread, _keeps_threads)) == LaunchId("thread", 0):
            return thread
    return None


def _keeps_threads(op: Operation) -> bool:
    """Whether an op is a cast to an integer type which holds every thread's number."""
    return is_operator(op.name, "cast") and bits_of(op.results[0].type) >= THREAD_BITS
