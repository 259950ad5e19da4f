"""Affine maps by their text: affine_map<(d0, d1)[s0] -> (d0 * 4 + s0, d1 floordiv 2)>."""

from __future__ import annotations

import re
from collections.abc import Callable

from helpers.second_machine.syntax import NotJudged

_TOKEN = re.compile(r"\s*(floordiv|ceildiv|mod|-?\d+|[ds]\d+|[-+*()])")


def read_map(text: str) -> list[Callable[[list[int]], int]]:
    """One function of all operands (dimensions, then symbols) for each result."""
    found = re.fullmatch(r"affine_map<\(([^)]*)\)(?:\[([^\]]*)\])? -> \((.*)\)>", text.strip())
    if found is None:
        raise NotJudged(text)
    names = [n.strip() for part in (found[1], found[2] or "") for n in part.split(",") if n.strip()]
    places = {name: number for number, name in enumerate(names)}
    return [_expression(part, places) for part in _parts(found[3])]


def _parts(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char == "(") - (char == ")")
        if char == "," and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    return [*parts, text[start:]] if text[start:].strip() else parts


def _expression(text: str, places: dict[str, int]) -> Callable[[list[int]], int]:
    spaced = text.replace("-", "- ").replace("- ", " - ")
    tokens = _TOKEN.findall(spaced)
    if "".join(tokens) != re.sub(r"\s", "", text):
        raise NotJudged(text)
    at = 0

    def peek() -> str:
        return tokens[at] if at < len(tokens) else ""

    def take() -> str:
        nonlocal at
        at += 1
        return tokens[at - 1]

    def atom() -> Callable[[list[int]], int]:
        word = take()
        if word == "(":
            inner = total()
            take()
            return inner
        if word == "-":
            inner = atom()
            return lambda v: -inner(v)
        if word in places:
            place = places[word]
            return lambda v: v[place]
        number = int(word)
        return lambda v: number

    def product() -> Callable[[list[int]], int]:
        left = atom()
        while peek() in ("*", "floordiv", "ceildiv", "mod"):
            left = _combine(take(), left, atom())
        return left

    def total() -> Callable[[list[int]], int]:
        left = product()
        while peek() in ("+", "-"):
            left = _combine(take(), left, product())
        return left

    return total()


def _combine(
    word: str, a: Callable[[list[int]], int], b: Callable[[list[int]], int]
) -> Callable[[list[int]], int]:
    return {
        "*": lambda v: a(v) * b(v),
        "floordiv": lambda v: a(v) // b(v),
        "ceildiv": lambda v: -(-a(v) // b(v)),
        "mod": lambda v: a(v) % b(v),
        "+": lambda v: a(v) + b(v),
        "-": lambda v: a(v) - b(v),
    }[word]
