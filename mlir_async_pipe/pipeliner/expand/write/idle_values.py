"""Takes out of loops what nobody needs: values that a loop carries for nobody, and in a copy of a nest
the statements of other partitions with all that only they need.

%r:2 = scf.for … iter_args(%sum = %zero, %phase = %false) {     %r = scf.for … iter_args(%sum …) {
  %flip = arith.xori %phase, %true                        -->
  scf.yield %next, %flip                                          scf.yield %next
}                            %r#1 is not used                   }
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    again,
    ancestors,
    attributes_of,
    before,
    captured,
    create,
    integer_attribute,
    is_used,
    operations,
    terminator,
    walk,
)
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.facts.loops.statements import needed_values
from mlir_async_pipe.vocabulary import is_pure


def drop_idle_values(loop: Operation) -> Operation:
    """The loop without idle values; itself if it carries none. Its handle is dead otherwise."""
    block = loop.regions[0].blocks[0]
    arguments = list(block.arguments)[1:]
    ops = operations(block)[:-1]
    kept = {op for op in ops if not is_pure(op) or len(op.regions)}
    used = [value for op in kept for value in captured(op)]
    used += [a for a, r in zip(arguments, loop.results, strict=True) if is_used(r)]
    needed = needed_values(used, {loop, *ops})
    if needed.issuperset(arguments):
        return loop
    return _keep_in_loop(loop, kept, set(), needed)


def keep_partition(ops: list[Operation], partition: int) -> None:
    """Of ops that stand together, keep the statements of a partition, the loops and branches around them,
    and what all these need."""
    for op in (op for top in ops for op in walk(top) if op.name == "scf.for"):
        names.remove(op, names.KNOWN_NAMES)
    inside = {op for top in ops for op in walk(top)}
    kept = {op for op in inside if integer_attribute(op, names.PARTITION) == partition}
    around = {above for op in kept for above in ancestors(op) if above in inside}
    used = [value for op in kept for value in captured(op)]
    for op in around:
        used += list(op.operands)[: 3 if op.name == "scf.for" else 1]
    _keep(ops, kept, around, needed_values(used, inside))
    for op in kept:
        names.remove(op, (names.PARTITION,))


def _keep(
    ops: list[Operation], kept: set[Operation], around: set[Operation], needed: set[Value]
) -> None:
    """Erase all ops but those that are kept, or stand `around` these, or make what is needed."""
    for op in reversed(ops):
        if op in around:
            write = _keep_in_loop if op.name == "scf.for" else _keep_in_branch
            write(op, kept, around, needed)
        elif op not in kept and not needed.intersection(op.results):
            op.erase()


def _keep_in_loop(
    loop: Operation, kept: set[Operation], around: set[Operation], needed: set[Value]
) -> Operation:
    """The loop written again with what is needed of its body, and of its values."""
    block, initial, results = loop.regions[0].blocks[0], list(loop.operands), list(loop.results)
    arguments = list(block.arguments)[1:]
    numbers = [number for number, argument in enumerate(arguments) if argument in needed]
    _yield_only(block, numbers)
    _keep(operations(block)[:-1], kept, around, needed)
    made = create(
        loop.name,
        initial[:3] + [initial[3 + number] for number in numbers],
        [results[number].type for number in numbers],
        attributes_of(loop),
        regions=1,
        ip=before(loop),
        loc=loop.location,
    )
    block.append_to(made.regions[0])
    block = made.regions[0].blocks[0]
    for number in reversed(range(len(arguments))):
        if number not in numbers:
            block.erase_argument(number + 1)
    for number, new in zip(numbers, made.results, strict=True):
        results[number].replace_all_uses_with(new)
    loop.erase()
    return made


def _keep_in_branch(
    branch: Operation, kept: set[Operation], around: set[Operation], needed: set[Value]
) -> Operation:
    """A branch gives nothing that is needed."""
    for region in branch.regions:
        for block in region.blocks:
            _yield_only(block, [])
            _keep(operations(block)[:-1], kept, around, needed)
    return again(branch, list(branch.operands), [])


def _yield_only(block: ir.Block, numbers: list[int]) -> None:
    """The end of a block forwards those values alone."""
    end = terminator(block)
    create("scf.yield", [end.operands[n] for n in numbers], ip=before(end), loc=end.location)
    end.erase()
