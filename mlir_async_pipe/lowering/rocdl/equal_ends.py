"""Loops of 64-bit counters end where the counter is equal to its end, not where it is less no more.

    scf.for %k = %from to %to step %c32 {      -->  %end = %from + 32 * (iterations)
      body                                          scf.while (%k = %from) {
    }                                                 condition(%k != %end) %k
                                                    } do { body; yield %k + 32 }

AMD's scalar units compare 64-bit numbers for equality only: "less" is an instruction of the vector
unit, a second one that brings its result back, and the end in vector registers.

The iterations of an scf.for are (%to - %from) / step, rounded up, where %from < %to. %from must be
proven not to be negative: then the difference and the step are below 2^63, and %end - %from is
below 2^64, so that no counter before the last one is equal to %end modulo 2^64.

LLVM knows how often such a loop runs, too, and unrolls short ones by two. That is of use where slots
are carried: two that alternate become constants. Other loops, as those for few iterations beside a
pipeline, would only take more registers, and stay.
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    before,
    constant_value,
    create,
    walk,
)
from mlir_async_pipe.bindings.structured_ops import end_of
from mlir_async_pipe.facts.values.integer_ops import bits_of
from mlir_async_pipe.facts.values.integer_writer import IntegerWriter
from mlir_async_pipe.facts.values.linear import Arithmetic


def end_by_equality(root: Operation) -> None:
    """Rewrite the loops below `root` that carry slots, whose counter has 64 bits and whose length is
    not constant."""
    arithmetic = Arithmetic()
    loops = [op for op in walk(root) if op.name == "scf.for"]
    for loop in [loop for loop in loops if _is_counted(loop, arithmetic)]:
        _rewrite(loop)


def _is_counted(loop: Operation, arithmetic: Arithmetic) -> bool:
    """Whether it counts in 64 bits and signed, from 0 or more by a constant, and carries a slot."""
    lower, upper, step, *carried = loop.operands
    least, _ = arithmetic.value_range(lower)
    return (
        bits_of(lower.type) == 64
        and any(value.type == lower.type for value in carried)
        and "unsignedCmp" not in loop.attributes
        and (constant_value(step) or 0) > 0
        and None in (constant_value(lower), constant_value(upper))
        and least is not None
        and least >= 0
    )


def _rewrite(loop: Operation) -> None:
    build = IntegerWriter(before(loop), loop.location)
    lower, upper, step, *initial = loop.operands
    end = _end(lower, upper, step, build)
    carried = [lower, *initial]
    kinds = [value.type for value in carried]
    made = create("scf.while", carried, kinds, regions=2, ip=before(loop), loc=loop.location)
    test = made.regions[0].blocks.append(*kinds, arg_locs=[loop.location] * len(kinds))
    inner = IntegerWriter(ir.InsertionPoint(test), loop.location)
    goes_on = inner.compare("ne", test.arguments[0], end)
    create("scf.condition", [goes_on, *test.arguments], ip=inner.ip, loc=loop.location)
    body = loop.regions[0].blocks[0]
    last = end_of(loop.regions[0])
    following = IntegerWriter(before(last), last.location).add(body.arguments[0], step)
    create("scf.yield", [following, *last.operands], ip=before(last), loc=last.location)
    last.erase()
    body.append_to(made.regions[1])
    for old, new in zip(loop.results, list(made.results)[1:], strict=True):
        old.replace_all_uses_with(new)
    loop.erase()


def _end(lower: Value, upper: Value, step: Value, build: IntegerWriter) -> Value:
    """What the counter is after the last iteration."""
    whole = build.divide(build.subtract(build.subtract(upper, lower), 1), step)
    length = build.multiply(build.add(whole, 1), step)
    return build.select(build.compare("slt", lower, upper), build.add(lower, length), lower)
