"""Operations on values alone: numbers, vectors, ids."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from helpers.second_machine import affine_text, arithmetic, memory
from helpers.second_machine import numbers_of_types as types
from helpers.second_machine.contractions import contract
from helpers.second_machine.control_flow import Writer
from helpers.second_machine.syntax import NotJudged, Operation

DYNAMIC = -(2**63)
Build = Callable[[Writer, Operation], None]


def numbers(w: Writer, op: Operation) -> bool:
    """arith, index and math by their tables; False for anything else."""
    dialect, _, name = op.name.partition(".")
    if dialect not in ("arith", "index", "math"):
        return False
    if dialect == "index":
        name = arithmetic.INDEX_NAMES.get(name, name)
    if name == "constant":
        constant(w, op)
        return True
    if name == "select":
        _select(w, op)
        return True
    kind, source = types.value(op.result_types[0]), types.value(op.operand_types[0])
    compute: Callable | None = None
    if name == "cmpi":
        compute = arithmetic.compare_integers(op.integer("predicate"), source.element.bits)
    elif dialect == "index" and name == "cmp":
        predicate = arithmetic.INDEX_PREDICATES.index(op.word("pred"))
        compute = arithmetic.compare_integers(predicate, 64)
    elif name == "cmpf":
        compute = arithmetic.compare_floats(op.integer("predicate"))
    elif op.name == "math.fma":
        settle = kind.element.settle
        compute = lambda a, b, c: settle(a * b + c)  # noqa: E731
    elif name == "negf":
        compute = lambda a: -a  # noqa: E731
    elif len(op.operands) == 2:
        compute = arithmetic.binary(name, kind.element)
    elif len(op.operands) == 1:
        compute = arithmetic.cast(name, source.element, kind.element)
    if compute is None:
        raise NotJudged(op.name)
    elementwise(w, op, compute, bool(kind.shape))
    return True


def elementwise(w: Writer, op: Operation, compute: Callable, is_vector: bool) -> None:
    """The function of one operation, on numbers or on all elements of vectors."""
    operands, (target,) = w.registers(op.operands), w.registers(op.results)
    if is_vector:

        def each(t: Any, r: list) -> None:
            r[target] = tuple(map(compute, *(r[o] for o in operands)))

        w.emit(each)
    elif len(operands) == 2:
        a, b = operands

        def two(t: Any, r: list) -> None:
            r[target] = compute(r[a], r[b])

        w.emit(two)
    else:

        def some(t: Any, r: list) -> None:
            r[target] = compute(*(r[o] for o in operands))

        w.emit(some)


def put_result(w: Writer, op: Operation, compute: Callable[[Any, list], Any]) -> None:
    """Write an operation with one result."""
    (target,) = w.registers(op.results)

    def put(t: Any, r: list) -> None:
        r[target] = compute(t, r)

    w.emit(put)


def constant(w: Writer, op: Operation) -> None:
    """A number, or a vector of numbers."""
    kind, text = types.value(op.result_types[0]), op.attributes["value"]
    if text.startswith("dense<"):
        inside = text[len("dense<") : text.index(">")]
        listed = [_number(part, kind.element) for part in re.findall(r"[^\s,\[\]]+", inside)]
        value: Any = tuple(listed * kind.count if len(listed) == 1 else listed)
        if len(value) != kind.count:
            raise NotJudged(text)
        value = value if kind.shape else value[0]
    else:
        value = _number(text.split(" : ")[0], kind.element)
    put_result(w, op, lambda t, r: value)


def _number(text: str, kind: types.Element) -> int | float:
    if text in ("true", "false"):
        return int(text == "true")
    if kind.is_float:
        if text.startswith("0x"):
            raise NotJudged(text)
        return kind.settle(float(text))
    return kind.settle(int(text))


def _select(w: Writer, op: Operation) -> None:
    condition, yes, no = w.registers(op.operands)
    if op.operand_types[0] == "i1":
        put_result(w, op, lambda t, r: r[yes] if r[condition] else r[no])
        return
    elementwise(w, op, lambda c, a, b: a if c else b, True)


# Vectors ------------------------------------------------------------------------------------


def _broadcast(w: Writer, op: Operation) -> None:
    (source,), kind = w.registers(op.operands), types.value(op.result_types[0])
    given = types.value(op.operand_types[0])
    if given.shape and given.shape != kind.shape[-len(given.shape) :]:
        raise NotJudged("broadcast of unit dimensions")
    times = kind.count // given.count
    if given.shape:
        put_result(w, op, lambda t, r: r[source] * times)
    else:
        put_result(w, op, lambda t, r: (r[source],) * times)


def _position(op: Operation, kind: types.Value) -> tuple[int, int]:
    position = op.integers("static_position")
    if DYNAMIC in position:
        raise NotJudged("a dynamic vector position")
    steps = memory.row_major(kind.shape)
    start = sum(p * s for p, s in zip(position, steps, strict=False))
    count = steps[len(position) - 1] if position else kind.count
    return start, count


def _extract(w: Writer, op: Operation) -> None:
    source, kind = w.register(op.operands[0]), types.value(op.operand_types[0])
    start, count = _position(op, kind)
    if op.result_types[0].startswith("vector"):
        put_result(w, op, lambda t, r: r[source][start : start + count])
    else:
        put_result(w, op, lambda t, r: r[source][start])


def _insert(w: Writer, op: Operation) -> None:
    value, target = w.registers(op.operands[:2])
    start, count = _position(op, types.value(op.operand_types[1]))
    if op.operand_types[0].startswith("vector"):
        put_result(w, op, lambda t, r: (*r[target][:start], *r[value], *r[target][start + count :]))
    else:
        put_result(w, op, lambda t, r: (*r[target][:start], r[value], *r[target][start + 1 :]))


# Ids ----------------------------------------------------------------------------------------


def _axis(op: Operation) -> int:
    return "xyz".index(op.word("dimension"))


def _thread_id(w: Writer, op: Operation) -> None:
    axis = _axis(op)

    def compute(t: Any, r: list) -> int:
        x, y, _ = t.block.shape
        return (t.number % x, t.number // x % y, t.number // (x * y))[axis]

    put_result(w, op, compute)


def _of_block(field: str) -> Build:
    def build(w: Writer, op: Operation) -> None:
        axis = _axis(op)
        put_result(w, op, lambda t, r: getattr(t.block, field)[axis])

    return build


def _apply(w: Writer, op: Operation) -> None:
    (compute,), given = affine_text.read_map(op.attributes["map"]), w.registers(op.operands)
    put_result(w, op, lambda t, r: compute([r[g] for g in given]))


def _best(pick: Callable) -> Build:
    def build(w: Writer, op: Operation) -> None:
        results, given = affine_text.read_map(op.attributes["map"]), w.registers(op.operands)
        put_result(w, op, lambda t, r: pick(f([r[g] for g in given]) for f in results))

    return build


OPERATIONS: dict[str, Build] = {
    "vector.broadcast": _broadcast,
    "vector.contract": contract,
    "vector.splat": _broadcast,
    "vector.extract": _extract,
    "vector.insert": _insert,
    "gpu.thread_id": _thread_id,
    "gpu.block_dim": _of_block("shape"),
    "gpu.block_id": _of_block("index"),
    "gpu.grid_dim": _of_block("grid"),
    "affine.apply": _apply,
    "affine.min": _best(min),
    "affine.max": _best(max),
}
