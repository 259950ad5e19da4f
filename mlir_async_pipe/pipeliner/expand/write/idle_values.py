"""Takes values off a loop that it carries for nobody, with the ops that compute them.

%r:2 = scf.for … iter_args(%sum = %zero, %phase = %false) {     %r = scf.for … iter_args(%sum …) {
  %flip = arith.xori %phase, %true                        -->
  scf.yield %next, %flip                                          scf.yield %next
}                            %r#1 is not used                   }
"""

from __future__ import annotations

from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    attributes_of,
    before,
    captured,
    create,
    defining_op,
    is_used,
    operations,
    terminator,
)
from mlir_async_pipe.vocabulary import is_pure


def drop_idle_values(loop: Operation) -> Operation:
    """The loop without idle values; itself if it carries none. Its handle is dead otherwise."""
    block = loop.regions[0].blocks[0]
    arguments = list(block.arguments)[1:]
    needed = _needed(loop, arguments)
    kept = [number for number, argument in enumerate(arguments) if argument in needed]
    if len(kept) == len(arguments):
        return loop
    for op in reversed(operations(block)[:-1]):
        if is_pure(op) and not len(op.regions) and not needed.intersection(op.results):
            for result in op.results:
                _leave_to_nobody(result, terminator(block), arguments)
            op.erase()
    return _with(loop, kept)


def _needed(loop: Operation, arguments: list[Value]) -> set[Value]:
    """What the ops that do something use, and what they need for it."""
    *ops, end = operations(loop.regions[0].blocks[0])
    next_of = dict(zip(arguments, end.operands, strict=True))
    waiting = [v for op in ops if not is_pure(op) or len(op.regions) for v in captured(op)]
    waiting += [a for a, r in zip(arguments, loop.results, strict=True) if is_used(r)]
    needed: set[Value] = set()
    while waiting:
        value = waiting.pop()
        if value in needed:
            continue
        needed.add(value)
        if value in next_of:
            waiting.append(next_of[value])
        op = defining_op(value)
        if op is not None and op in ops:
            needed.update(op.results)
            waiting += captured(op)
    return needed


def _leave_to_nobody(result: Value, end: Operation, arguments: list[Value]) -> None:
    """Only the end of the body uses what nobody needs: it hands on the old value instead."""
    for number, value in enumerate(list(end.operands)):
        if value == result:
            end.operands[number] = arguments[number]


def _with(loop: Operation, kept: list[int]) -> Operation:
    """The loop written again with those of its values."""
    initial = list(loop.operands)
    operands = initial[:3] + [initial[3 + number] for number in kept]
    results = [loop.results[number] for number in kept]
    made = create(
        loop.name,
        operands,
        [result.type for result in results],
        attributes_of(loop),
        regions=1,
        ip=before(loop),
        loc=loop.location,
    )
    block = loop.regions[0].blocks[0]
    block.append_to(made.regions[0])
    block = made.regions[0].blocks[0]
    end = terminator(block)
    handed_on = [end.operands[number] for number in kept]
    create("scf.yield", handed_on, ip=before(end), loc=end.location)
    end.erase()
    for number in reversed(range(len(initial) - 3)):
        if number not in kept:
            block.erase_argument(number + 1)
    for old, new in zip(results, made.results, strict=True):
        old.replace_all_uses_with(new)
    loop.erase()
    return made
