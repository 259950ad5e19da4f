"""The attributes that say how a loop is to be pipelined: their reading, and how they are written.

    scf.for … { … } {async_pipe.num_stages = 3 : i64}
    scf.for … { … } {async_pipe.stage = [0, 0, 1], async_pipe.order = [0, 1, 2],
                     async_pipe.async_stages = [0]}

Every name is listed in docs/annotations.md. A name under `async_pipe.` that is not known
where it stands is an error: a misspelt annotation must not be silently ignored.

    annotate(loop, num_stages=3)    scf.for … { }  -->  scf.for … { } {async_pipe.num_stages = 3}

all of them or none. `requested_loops` finds the loops that have some.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    ancestors,
    as_kind,
    attribute_names,
    attributes_of,
    before,
    constant_value,
    create,
    operations,
    plain_values,
    remembered,
    set_attributes,
    walk,
    walk_named,
)
from mlir_async_pipe.facts.values.memory_roots import touched
from mlir_async_pipe.session.arguments import did_you_mean, nearest, operation_of, whole_number
from mlir_async_pipe.session.called_from import called_by_users
from mlir_async_pipe.session.diagnostics import InputError, PipelineError, UsageError
from mlir_async_pipe.vocabulary.control_flow import scf_for_trips
from mlir_async_pipe.vocabulary.memory_names import INDEPENDENT as INDEPENDENT
from mlir_async_pipe.vocabulary.memory_names import is_set

PREFIX = "async_pipe."
STAGE = "async_pipe.stage"
ORDER = "async_pipe.order"
ASYNC = "async_pipe.async"
ASYNC_STAGES = "async_pipe.async_stages"
NUM_STAGES = "async_pipe.num_stages"
# "optimal": stages and orders are to be found from what the units of the chip take.
SCHEDULE = "async_pipe.schedule"
WAIT_AT = "async_pipe.wait_at"
PRIVATE = "async_pipe.private"
EPILOGUE = "async_pipe.epilogue"
SHORT_TRIP = "async_pipe.short_trip"
STAGE_THROUGH = "async_pipe.stage_through"
# On a scheduled loop of asynchronous copies that may go through registers instead: in how many stages.
ELSE_REGISTERS = "async_pipe.else_registers"
ISSUE = "async_pipe.issue"
FRAGMENTS = "async_pipe.fragments"
# Whether the tiles that a loop fills may be laid out anew.
SWIZZLE = "async_pipe.swizzle"
# Whether what follows the loop stores its sums by way of its buffers.
STORE_THROUGH = "async_pipe.store_through"
RESIDUALS = "async_pipe.residuals"
# Iterations whose products may still run while the next one's are issued.
IN_FLIGHT = "async_pipe.in_flight"
# Tensor stores that may still read their tiles when the next iterations write theirs.
STORES_IN_FLIGHT = "async_pipe.stores_in_flight"
# Whether all threads copy and compute, or warps of their own copy.
ROLES = "async_pipe.roles"
# On a statement that not all warps run once roles part: which ones do.
PARTITION = "async_pipe.partition"
# Cycles of an op: `latency` asks for a schedule by latencies, `cycles` only says what it costs.
LATENCY = "async_pipe.latency"
CYCLES = "async_pipe.cycles"
# On an inner loop that is pipelined itself: stage and order of its prologue, kernel and
# epilogue, which are one statement each of the loop around it.
PART_STAGES = "async_pipe.part_stages"
PART_ORDERS = "async_pipe.part_orders"
EMPTY = "async_pipe.empty"
# On a wait after a pipelined loop for what the loop left in flight.
DRAIN = "async_pipe.drain"
COPIES = "async_pipe.copies"
REASON = "async_pipe.reason"
DYNAMIC_SHARED_BYTES = "async_pipe.dynamic_shared_bytes"
# On a function: `async-pipe` inserts the barriers that it lacks.
BARRIERS = "async_pipe.barriers"

# Groups several ops into one statement; with `no_inline` it survives canonicalize.
GROUPING_OP = "scf.execute_region"

LOOP_NAMES = (
    STAGE,
    ORDER,
    ASYNC,
    ASYNC_STAGES,
    NUM_STAGES,
    SCHEDULE,
    WAIT_AT,
    INDEPENDENT,
    EPILOGUE,
    SHORT_TRIP,
    STAGE_THROUGH,
    ELSE_REGISTERS,
    ISSUE,
    FRAGMENTS,
    SWIZZLE,
    STORE_THROUGH,
    RESIDUALS,
    IN_FLIGHT,
    ROLES,
    LATENCY,
    CYCLES,
    PART_STAGES,
    PART_ORDERS,
)
# What may stand on a loop; a pipelined one keeps what is not in LOOP_NAMES.
KNOWN_NAMES = (*LOOP_NAMES, STORES_IN_FLIGHT)
OP_NAMES = (
    STAGE,
    ORDER,
    ASYNC,
    LATENCY,
    CYCLES,
    PRIVATE,
    INDEPENDENT,
    EMPTY,
    DRAIN,
    COPIES,
    REASON,
)
CHOICES = {
    SCHEDULE: ("optimal",),
    WAIT_AT: ("consumer", "iteration"),
    EPILOGUE: ("peel", "predicate"),
    SHORT_TRIP: ("version", "predicate", "assume"),
    STAGE_THROUGH: ("auto", "async", "registers"),
    ISSUE: ("auto", "first", "spread", "last"),
    FRAGMENTS: ("auto", "ahead", "in-place"),
    SWIZZLE: ("none", "auto"),
    STORE_THROUGH: ("auto", "tile", "direct"),
    RESIDUALS: ("direct", "async"),
    ROLES: ("auto", "together", "specialised", "grouped", "alternating", "ping-pong"),
}
Roles = Literal["auto", "together", "specialised", "grouped", "alternating", "ping-pong"]
# Roles that need warps of their own for the copies.
APART = ("specialised", "grouped", "alternating", "ping-pong")
# What turns a loop into one that is to be pipelined.
_REQUESTS = (STAGE, ORDER, ASYNC_STAGES, NUM_STAGES, SCHEDULE)


@dataclass(frozen=True)
class LoopAnnotations:
    """What stands on one loop; None where an attribute is absent."""

    stage: tuple[int, ...] | None
    order: tuple[int, ...] | None
    async_stages: tuple[int, ...] | None
    num_stages: int | None
    schedule: Literal["optimal"] | None
    wait_at: Literal["consumer", "iteration"] | None
    independent: bool
    epilogue: Literal["peel", "predicate"]
    short_trip: Literal["version", "predicate", "assume"]
    stage_through: Literal["auto", "async", "registers"]
    else_registers: int | None
    issue: Literal["auto", "first", "spread", "last"]
    fragments: Literal["auto", "ahead", "in-place"]
    swizzle: Literal["none", "auto"]
    store_through: Literal["auto", "tile", "direct"]
    residuals: Literal["direct", "async"]
    in_flight: int | None
    roles: Roles

    @property
    def in_loop_form(self) -> bool:
        """Whether stages are given on the loop (not yet on its ops)."""
        return any(
            given is not None
            for given in (self.stage, self.order, self.async_stages, self.num_stages, self.schedule)
        )


def is_requested(loop: Operation) -> bool:
    """Whether a loop asks to be pipelined, in the loop form or in the op form."""
    if any(name in loop.attributes and not _is_op_form(loop, name) for name in _REQUESTS):
        return True
    return in_op_form(loop) or in_latency_form(loop)


def is_pipelined_inside(loop: Operation) -> bool:
    """Whether an inner loop counts as three statements: it is pipelined into several stages,
    by arrays, a number of stages above 1, latencies, or the stages of its own ops."""
    stages = None if _is_op_form(loop, STAGE) else _integers(loop, STAGE)
    if stages is not None:
        return max(stages, default=0) > 0
    count = _integer(loop, NUM_STAGES)
    if count is not None:
        return count > 1
    inside = operations(loop.regions[0].blocks[0])
    if SCHEDULE in loop.attributes:
        return True
    if in_latency_form(loop) and not in_op_form(loop):
        return True
    return any(_is_op_form(op, STAGE) and (stage_of(op) or 0) > 0 for op in inside)


def in_latency_form(loop: Operation) -> bool:
    """Whether ops of the loop's body say how long they take, which asks for a schedule."""
    return any(LATENCY in op.attributes for op in operations(loop.regions[0].blocks[0]))


def is_inside_pipeline(loop: Operation) -> bool:
    """Whether a loop around this one is to be pipelined."""
    return any(op.name == "scf.for" and is_requested(op) for op in ancestors(loop))


def in_op_form(loop: Operation) -> bool:
    """Whether the ops of the loop's body carry their stages."""
    # On an inner loop an array is that loop's own annotation, a number its place in this one.
    return any(
        PART_STAGES in op.attributes
        or (STAGE in op.attributes and (op.name != "scf.for" or _is_op_form(op, STAGE)))
        for op in operations(loop.regions[0].blocks[0])
    )


def read_loop(loop: Operation) -> LoopAnnotations:
    """Read and validate what stands on one loop.

    Raises InputError: unknown-annotation, bad-annotation, num-stages-too-small,
    conflicting-annotations.
    """
    check_names(loop, KNOWN_NAMES)
    for op in operations(loop.regions[0].blocks[0]):
        check_names(op, KNOWN_NAMES if op.name == "scf.for" else OP_NAMES)
    annotations = LoopAnnotations(
        stage=None if _is_op_form(loop, STAGE) else _integers(loop, STAGE),
        order=None if _is_op_form(loop, ORDER) else _integers(loop, ORDER),
        async_stages=_integers(loop, ASYNC_STAGES),
        num_stages=_integer(loop, NUM_STAGES),
        independent=is_set(loop.attributes, INDEPENDENT),
        else_registers=_integer(loop, ELSE_REGISTERS),
        in_flight=_integer(loop, IN_FLIGHT),
        **{name.removeprefix(PREFIX): choice(loop, name) for name in CHOICES},
    )
    if annotations.in_flight is not None and annotations.in_flight < 0:
        raise _bad(loop, IN_FLIGHT, "0 or more")
    if annotations.num_stages is not None:
        check_num_stages(annotations.num_stages, loop)
    if annotations.num_stages is not None and annotations.stage is not None:
        why = f"'{NUM_STAGES}' and '{STAGE}' exclude each other"
        raise _conflict(
            loop, why, f"keep '{NUM_STAGES}' for the default schedule, or the arrays for your own"
        )
    others = [n for n in (NUM_STAGES, STAGE, ORDER, ASYNC_STAGES) if n in loop.attributes]
    if annotations.schedule is not None and others:
        why = f"'{SCHEDULE}' and '{others[0]}' exclude each other"
        raise _conflict(loop, why, f"'{SCHEDULE}' finds stages and orders itself")
    if annotations.in_loop_form and in_latency_form(loop):
        given = next(op for op in operations(loop.regions[0].blocks[0]) if LATENCY in op.attributes)
        why = f"'{LATENCY}' on ops asks for a schedule, and the loop gives one"
        advice = f"'{CYCLES}' says what an op costs and asks for nothing"
        raise _conflict(loop, why, advice, ((f"'{LATENCY}' here", given),))
    return annotations


def _conflict(
    loop: Operation, why: str, advice: str, notes: tuple[tuple[str, Operation], ...] = ()
) -> InputError:
    return InputError(why, code="conflicting-annotations", at=loop, notes=notes, advice=advice)


def check_num_stages(number: int, loop: Operation) -> None:
    """Raise InputError: num-stages-too-small below 1, bad-annotation for what no attribute holds."""
    if number >= 1 << 63:
        raise InputError(
            f"'{NUM_STAGES}' is {number}, expected a whole number of 64 bits",
            code="bad-annotation",
            at=loop,
        )
    if number < 1:
        raise InputError(
            f"'{NUM_STAGES}' is {number}, expected 1 or more", code="num-stages-too-small", at=loop
        )


def check_names(op: Operation, known: Sequence[str]) -> None:
    """Raise InputError (unknown-annotation) for an unknown `async_pipe.` attribute."""
    for name in attribute_names(op):
        if name.startswith(PREFIX) and name not in known and not op.name.startswith(PREFIX):
            raise InputError(
                f"unknown attribute '{name}' on '{op.name}'",
                code="unknown-annotation",
                at=op,
                advice=did_you_mean(name, known),
            )


def remove(op: Operation, names: Sequence[str]) -> None:
    for name in names:
        if name in op.attributes:
            del op.attributes[name]


def forget(loop: Operation) -> None:
    """Take the annotations off a loop that stays as it is, and off the ops of its body. Its own place in a loop
    around it stays, and so do the arrays of loops in it."""
    remove(loop, [n for n in LOOP_NAMES if n not in (LATENCY, CYCLES) and not _is_op_form(loop, n)])
    for op in operations(loop.regions[0].blocks[0]):
        is_place = op.name != "scf.for" or _is_op_form(op, STAGE) or _is_op_form(op, ORDER)
        remove(op, (STAGE, ORDER, ASYNC) if is_place else (ASYNC,))
        keep_cycles(op)


def keep_cycles(op: Operation) -> None:
    """Turn a latency that has been scheduled into cycles, which ask for nothing any more."""
    if LATENCY in op.attributes:
        op.attributes[CYCLES] = op.attributes[LATENCY]
        del op.attributes[LATENCY]


def _is_op_form(loop: Operation, name: str) -> bool:
    """`stage` and `order` on a loop may also be its own place in an enclosing loop."""
    return (
        name in (STAGE, ORDER)
        and name in loop.attributes
        and as_kind(ir.IntegerAttr, loop.attributes[name]) is not None
    )


def _integer(op: Operation, name: str) -> int | None:
    attributes = op.attributes
    if name not in attributes:
        return None
    number = as_kind(ir.IntegerAttr, attributes[name])
    if number is None:
        raise _bad(op, name, "a whole number")
    return _number(op, name, number)


def stage_of(op: Operation) -> int | None:
    """The stage in the op form; raises InputError (bad-annotation) if it is no integer."""
    return _integer(op, STAGE)


def order_of(op: Operation) -> int | None:
    """The order in the op form; raises InputError (bad-annotation) if it is no integer."""
    return _integer(op, ORDER)


def latency_of(op: Operation) -> int | None:
    """The latency in cycles; raises InputError (bad-annotation) if it is no integer."""
    return _integer(op, LATENCY)


def parts_of(loop: Operation) -> tuple[tuple[int, int], ...]:
    """(stage, order) of the three parts of a loop inside a pipelined one; () if it is in none."""
    stages, orders = _integers(loop, PART_STAGES), _integers(loop, PART_ORDERS)
    if stages is None or orders is None:
        return ()
    return tuple(zip(stages, orders, strict=True))


def _integers(op: Operation, name: str) -> tuple[int, ...] | None:
    if name not in op.attributes:
        return None
    attribute = op.attributes[name]
    for kind in (ir.DenseI64ArrayAttr, ir.DenseI32ArrayAttr):
        dense = as_kind(kind, attribute)
        if dense is not None:
            return tuple(map(int, dense))
    values = as_kind(ir.ArrayAttr, attribute)
    entries = [None] if values is None else [as_kind(ir.IntegerAttr, value) for value in values]
    numbers = tuple(_number(op, name, entry) for entry in entries if entry is not None)
    if len(numbers) < len(entries):
        raise _bad(op, name, "array<i64: …> or [ … ] of whole numbers")
    return numbers


def _number(op: Operation, name: str, attribute: Any) -> int:
    number = int(attribute.value)
    if not -(1 << 63) <= number < 1 << 63:
        raise _bad(op, name, "a whole number of 64 bits")
    return number


def choice(op: Operation, name: str) -> Any:
    """What is chosen, the first of the choices by default; None of what has no default."""
    if name not in op.attributes:
        return None if name in (SCHEDULE, WAIT_AT) else CHOICES[name][0]
    text = as_kind(ir.StringAttr, op.attributes[name])
    value = "" if text is None else str(text.value)
    if value not in CHOICES[name]:
        near = nearest(value, CHOICES[name])
        raise _bad(
            op,
            name,
            " or ".join(f'"{choice}"' for choice in CHOICES[name]),
            f'did you mean "{near}"?' if near else "",
        )
    return value


def _bad(op: Operation, name: str, expected: str, advice: str = "") -> InputError:
    return InputError(
        f"'{name}' is {op.attributes[name]}, expected {expected}",
        code="bad-annotation",
        at=op,
        advice=advice,
    )


@called_by_users
@plain_values()
def annotate(
    loop: Any,
    *,
    stage: Sequence[int] | None = None,
    order: Sequence[int] | None = None,
    async_stages: Sequence[int] | None = None,
    num_stages: int | None = None,
    **options: str | bool,
) -> None:
    """Write annotations on an scf.for, or `num_stages` on an affine.for.

    `loop`: the loop, as an op or a view of one.
    `stage`, `order`: one number a statement: how many steps of the kernel it runs after stage 0,
    and its place among the statements of a step.
    `async_stages`: the numbers of the stages that complete later.
    `num_stages`: the number of stages, instead of the above; copies then run num_stages - 1
    iterations ahead.
    `options`: `wait_at` ("consumer" or "iteration"), `epilogue` ("peel" or "predicate"),
    `short_trip` ("version", "predicate" or "assume"), `swizzle` ("auto" or "none"), `stage_through` ("auto", "async" or
    "registers"), `issue` ("auto", "first", "spread" or "last"), `roles` ("auto", "together",
    "specialised", "grouped", "alternating" or "ping-pong"), `independent` (True).

    Raises UsageError (not-a-module) for what is no op, InputError (not-a-loop, unknown-annotation, bad-annotation, num-stages-too-small,
    conflicting-annotations), UsageError (bad-argument) for what is no whole number; the loop is as it was then.
    """
    op = operation_of(loop)
    if op.name != "scf.for" and (op.name != "affine.for" or num_stages is None):
        raise InputError(
            f"only 'scf.for' can be annotated, and 'affine.for' with `num_stages`; this is '{op.name}'",
            code="not-a-loop",
            at=op,
        )
    earlier = attributes_of(op)
    try:
        _write(op, {STAGE: stage, ORDER: order, ASYNC_STAGES: async_stages}, num_stages, options)
        read_loop(op)
    except (InputError, UsageError):
        set_attributes(op, earlier)
        raise


def _passed(name: str, value: Any, least: int, loop: Operation) -> int:
    """A whole number; one that is too small has an error of its own, as an attribute has."""
    return value if type(value) is int else whole_number(name, value, least, at=loop)


def _write(
    op: Operation,
    arrays: dict[str, Sequence[int] | None],
    num_stages: int | None,
    options: dict[str, str | bool],
) -> None:
    context = op.context
    for name, values in arrays.items():
        if values is not None:
            numbers = [_passed(name.removeprefix(PREFIX), value, 0, op) for value in values]
            op.attributes[name] = ir.DenseI64ArrayAttr.get(numbers, context)
    if num_stages is not None:
        num_stages = _passed("num_stages", num_stages, 1, op)
        if abs(num_stages) >= 1 << 63:
            check_num_stages(num_stages, op)
        op.attributes[NUM_STAGES] = ir.IntegerAttr.get(
            ir.IntegerType.get_signless(64, context), num_stages
        )
    for option, value in options.items():
        name = PREFIX + option
        if name == INDEPENDENT and value is True:
            op.attributes[name] = ir.UnitAttr.get(context)
        elif name in CHOICES:
            op.attributes[name] = ir.StringAttr.get(str(value), context)
        else:
            raise InputError(
                f"unknown annotation '{option}'",
                code="unknown-annotation",
                at=op,
                advice=did_you_mean(option, [n.removeprefix(PREFIX) for n in LOOP_NAMES], "known"),
            )


def retyped(op: Operation, kind: Any) -> Value:
    """The first result of an op that is written again before itself, with that of type `kind`."""
    attributes = carried_attributes(op)
    _, *others = op.results
    kinds = [kind, *(other.type for other in others)]
    made = create(op.name, list(op.operands), kinds, attributes, ip=before(op), loc=op.location)
    memory, *same = made.results
    for old, new in zip(others, same, strict=True):
        old.replace_all_uses_with(new)
    return memory


def carried_attributes(op: Operation) -> dict[str, Any]:
    """The attributes that an op keeps when it is written again."""
    return {name: value for name, value in attributes_of(op).items() if name != PRIVATE}


def requested_loops(module: Any) -> list[Operation]:
    """All scf.for that are to be pipelined, outer before inner, in textual order."""
    return [
        loop for loop in walk_named(operation_of(module), "scf.for".__eq__) if is_requested(loop)
    ]


def counted_loops(module: Any) -> list[Operation]:
    """Those that are to be pipelined in a number of stages."""
    return [loop for loop in requested_loops(module) if NUM_STAGES in loop.attributes]


def scheduled_loops(module: Any) -> list[Operation]:
    """All loops whose ops carry stages, outer before inner, in textual order."""
    return [op for op in walk_named(module, "scf.for".__eq__) if in_op_form(op)]


def innermost(loops: list[Operation]) -> list[Operation]:
    """The loops that hold no other of them, in textual order."""
    holders = {above for loop in loops for above in ancestors(loop)}
    return [loop for loop in loops if loop not in holders]


def reads_global_memory(loop: Operation) -> bool:
    return any(("read", "global") in touched(op) for op in walk(loop))


@remembered
def static_trip_count(loop: Operation) -> int | None:
    """How often an scf.for runs, None if not constant; raises PipelineError (bad-step)."""
    step = constant_value(loop.operands[2])
    if step is not None and (step == 0 or (step < 0 and "unsignedCmp" not in loop.attributes)):
        raise PipelineError(
            f"cannot pipeline: the step is {step}, expected 1 or more", code="bad-step", at=loop
        )
    return scf_for_trips(loop)
