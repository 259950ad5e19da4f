"""Writes annotations on a loop, all of them or none.

annotate(loop, num_stages=3)    scf.for … { }  -->  scf.for … { } {async_pipe.num_stages = 3}
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.plain_values import plain_values
from mlir_async_pipe.bindings.raw_ops import Operation, Value, attributes_of, before, create
from mlir_async_pipe.facts.loops import annotations as names
from mlir_async_pipe.session.diagnostics import InputError


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
    `short_trip` ("version", "predicate" or "assume"), `stage_through` ("auto", "async" or
    "registers"), `issue` ("auto", "first", "spread" or "last"), `roles` ("auto", "together",
    "specialised" or "ping-pong"), `independent` (True).

    Raises InputError (not-a-loop, unknown-annotation, bad-annotation, num-stages-too-small,
    conflicting-annotations); the loop is as it was then.
    """
    op = loop.operation
    if op.name != "scf.for" and (op.name != "affine.for" or num_stages is None):
        raise InputError(
            f"only 'scf.for' can be annotated, and 'affine.for' with `num_stages`; this is '{op.name}'",
            code="not-a-loop",
            at=op,
        )
    earlier = attributes_of(op)
    try:
        _write(
            op,
            {names.STAGE: stage, names.ORDER: order, names.ASYNC_STAGES: async_stages},
            num_stages,
            options,
        )
        names.read_loop(op)
    except InputError:
        for name in attributes_of(op).keys() - earlier.keys():
            del op.attributes[name]
        for name, value in earlier.items():
            op.attributes[name] = value
        raise


def _write(
    op: Operation,
    arrays: dict[str, Sequence[int] | None],
    num_stages: int | None,
    options: dict[str, str | bool],
) -> None:
    context = op.context
    for name, values in arrays.items():
        if values is not None:
            op.attributes[name] = ir.DenseI64ArrayAttr.get(list(values), context)
    if num_stages is not None:
        if abs(num_stages) >= 1 << 63:
            names.check_num_stages(num_stages, op)
        op.attributes[names.NUM_STAGES] = ir.IntegerAttr.get(
            ir.IntegerType.get_signless(64, context), num_stages
        )
    for option, value in options.items():
        name = names.PREFIX + option
        if name == names.INDEPENDENT and value is True:
            op.attributes[name] = ir.UnitAttr.get(context)
        elif name in names.CHOICES:
            op.attributes[name] = ir.StringAttr.get(str(value), context)
        else:
            raise InputError(
                f"unknown annotation '{option}'",
                code="unknown-annotation",
                at=op,
                advice=f"known: {', '.join(n.removeprefix(names.PREFIX) for n in names.LOOP_NAMES)}",
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
    return {name: value for name, value in attributes_of(op).items() if name != names.PRIVATE}
