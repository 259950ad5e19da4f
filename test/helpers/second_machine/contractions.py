"""`vector.contract`: sums of products over the iteration space of its maps."""

from __future__ import annotations

import itertools
import re
from typing import Any

from helpers.second_machine import affine_text, memory
from helpers.second_machine import numbers_of_types as types
from helpers.second_machine.control_flow import Writer
from helpers.second_machine.syntax import NotJudged, Operation

_MAP = re.compile(r"affine_map<.*?\)>")
_DIMENSION = re.compile(r"\bd\d+\b")


def contract(w: Writer, op: Operation) -> None:
    """total[map(d)] += left[map(d)] * right[map(d)] for all d, the last dimension fastest."""
    if "<add>" not in op.attributes.get("kind", "<add>") or len(op.operands) != 3:
        raise NotJudged("vector.contract of another kind")
    texts = _MAP.findall(op.attributes["indexing_maps"])
    kinds = [types.value(text) for text in op.operand_types]
    if len({kind.element for kind in kinds}) != 1:
        raise NotJudged("vector.contract of several types")
    settle = kinds[0].element.settle
    maps = [affine_text.read_map(text) for text in texts]
    space = itertools.product(*(range(size) for size in _sizes(texts, kinds)))
    places = [tuple(map(_place, maps, kinds, [point] * 3)) for point in space]
    left, right, total = w.registers(op.operands)
    (target,) = w.registers(op.results)
    is_vector = op.result_types[0].startswith("vector")

    def run(t: Any, r: list) -> None:
        sums = list(r[total]) if is_vector else [r[total]]
        a, b = ([value] if not kind.shape else value
                for value, kind in zip((r[left], r[right]), kinds, strict=False))  # fmt: skip
        for i, j, k in places:
            sums[k] = settle(sums[k] + settle(a[i] * b[j]))
        r[target] = tuple(sums) if is_vector else sums[0]

    w.emit(run)


def _sizes(texts: list[str], kinds: list[types.Value]) -> list[int]:
    """The length of each dimension, which some operand has in the same place of its map."""
    found: dict[str, int] = {}
    for text, kind in zip(texts, kinds, strict=True):
        results = text.partition("->")[2]
        for name, size in zip(_DIMENSION.findall(results), kind.shape, strict=True):
            found[name] = size
    return [found[name] for name in _DIMENSION.findall(texts[0].partition("->")[0])]


def _place(results: Any, kind: types.Value, point: tuple[int, ...]) -> int:
    steps = memory.row_major(kind.shape)
    return sum(f(list(point)) * s for f, s in zip(results, steps, strict=True))
