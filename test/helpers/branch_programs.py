"""Random programs of loops and branches, as front ends of Python write them: blocks, with every
variable in a small array of its own and an iterator in another one.

A program is a nested tuple: ("add", k), ("if", k, then, else), ("continue", k), ("break", k),
("for", start, stop, step, body), where k picks the condition. `run` is what Python makes of it,
`text` what a front end makes of it. All work on `total` and `last`, which hold the sum and the
innermost loop's variable.
"""

from __future__ import annotations

import random
from typing import Any

Program = tuple[Any, ...]
MASK = 2**64 - 1


def draw(
    choose: random.Random, depth: int, jumps: tuple[str, ...] = (), inside: bool = False
) -> Program:
    """A body of one to three statements; `jumps` are the ways to leave an iteration early."""
    return tuple(_statement(choose, depth, jumps, inside) for _ in range(choose.randint(1, 3)))


def _statement(choose: random.Random, depth: int, jumps: tuple[str, ...], inside: bool) -> Program:
    kinds = ["add", "add"]
    if depth:
        kinds += ["if", "for", "for"]
    if inside:
        kinds += jumps
    kind = choose.choice(kinds)
    number = choose.randint(1, 7)
    if kind == "if":
        otherwise = draw(choose, depth - 1, jumps, inside) if choose.random() < 0.5 else ()
        return ("if", number, draw(choose, depth - 1, jumps, inside), otherwise)
    if kind == "for":
        start, stop = choose.randint(-3, 3), choose.choice([0, 1, 4, 9, "n"])
        step = choose.choice([1, 1, 2, 3, -1, "s"])
        return ("for", start, stop, step, draw(choose, depth - 1, jumps, True))
    return (kind, number)


class _Continue(Exception):
    pass


class _Break(Exception):
    pass


def run(program: Program, n: int, s: int) -> tuple[int, int]:
    """`total` and `last` after the program; `n` and `s` are its arguments."""
    state = {"total": 1, "last": 0}

    def holds(number: int) -> bool:
        return (state["total"] + state["last"]) % 8 < number

    def body(statements: Program) -> None:
        for kind, number, *rest in statements:
            if kind == "add":
                state["total"] = (state["total"] * 3 + state["last"] + number) & MASK
            elif kind == "if":
                body(rest[0] if holds(number) else rest[1])
            elif kind == "for":
                stop, step, inner = rest
                stop, step = n if stop == "n" else stop, s if step == "s" else step
                for value in range(number, stop, step):
                    state["last"] = value & MASK
                    try:
                        body(inner)
                    except _Continue:
                        continue
                    except _Break:
                        break
            elif holds(number):
                raise _Continue if kind == "continue" else _Break

    body(program)
    return state["total"], state["last"]


class _Writer:
    """Writes blocks; `line` adds an op to the current one, `value` names its result."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0

    def line(self, text: str) -> None:
        self.lines.append(f"  {text}")

    def value(self, text: str) -> str:
        self.count += 1
        self.line(f"%v{self.count} = {text}")
        return f"%v{self.count}"

    def constant(self, number: int) -> str:
        return self.value(f"arith.constant {number} : i64")

    def label(self) -> str:
        self.count += 1
        return f"^b{self.count}"

    def load(self, array: str, size: int = 1, place: int = 0) -> str:
        at = self.value(f"arith.constant {place} : index")
        return self.value(f"memref.load {array}[{at}] : memref<{size}xi64>")

    def store(self, value: str, array: str, size: int = 1, place: int = 0) -> None:
        at = self.value(f"arith.constant {place} : index")
        self.line(f"memref.store {value}, {array}[{at}] : memref<{size}xi64>")

    def binary(self, name: str, left: str, right: str) -> str:
        return self.value(f"arith.{name} {left}, {right} : i64")

    def compare(self, predicate: str, left: str, right: str) -> str:
        return self.value(f"arith.cmpi {predicate}, {left}, {right} : i64")

    def select(self, condition: str, yes: str, no: str) -> str:
        return self.value(f"arith.select {condition}, {yes}, {no} : i64")

    def start(self, label: str) -> None:
        self.lines.append(f"{label}:")

    def go(self, label: str) -> None:
        self.line(f"cf.br {label}")


def text(program: Program) -> str:
    """A module with a function `f` of an array for `total` and `last`, `n` and `s`."""
    out = _Writer()
    total, last = (out.value("memref.alloca() : memref<1xi64>") for _ in range(2))
    out.store(out.constant(1), total)
    out.store(out.constant(0), last)
    _write(program, out, total, last, None)
    for place, array in enumerate((total, last)):
        out.store(out.load(array), "%out", 2, place)
    lines = "\n".join(out.lines)
    return f"func.func @f(%out: memref<2xi64>, %n: i64, %s: i64) {{\n{lines}\n  return\n}}\n"


def _write(
    program: Program, out: _Writer, total: str, last: str, loop: tuple[str, str] | None
) -> None:
    for kind, number, *rest in program:
        if kind == "add":
            grown = out.binary("muli", out.load(total), out.constant(3))
            grown = out.binary("addi", grown, out.load(last))
            out.store(out.binary("addi", grown, out.constant(number)), total)
            continue
        if kind == "for":
            _write_for(number, *rest, out, total, last)
            continue
        sum_ = out.binary("addi", out.load(total), out.load(last))
        low = out.binary("andi", sum_, out.constant(7))
        condition = out.compare("slt", low, out.constant(number))
        yes, no, join = out.label(), out.label(), out.label()
        if kind == "if":
            out.line(f"cf.cond_br {condition}, {yes}, {no}")
            for label, arm in zip((yes, no), rest, strict=True):
                out.start(label)
                _write(arm, out, total, last, loop)
                out.go(join)
            out.start(join)
        else:
            assert loop is not None
            out.line(f"cf.cond_br {condition}, {loop[kind == 'break']}, {no}")
            out.start(no)


def _write_for(
    start: int, stop: int | str, step: int | str, body: Program, out: _Writer, total: str, last: str
) -> None:
    state = out.value("memref.alloca() : memref<2xi64>")
    first = out.constant(start)
    end = "%n" if stop == "n" else out.constant(int(stop))
    by = "%s" if step == "s" else out.constant(int(step))
    zero, one = out.constant(0), out.constant(1)
    # (stop - start + step - 1) / step where that is above 0, and the same the other way round.
    span = out.binary("subi", end, first)
    up, down = out.compare("sgt", by, zero), out.binary("subi", zero, by)
    size, way = out.select(up, by, down), out.select(up, span, out.binary("subi", zero, span))
    rounded = out.binary("addi", way, out.binary("subi", size, one))
    trips = out.binary("divui", rounded, size)
    some = out.compare("sgt", way, zero)
    out.store(out.select(some, trips, zero), state, 2, 0)
    out.store(first, state, 2, 1)
    header, inside, after = out.label(), out.label(), out.label()
    out.go(header)
    out.start(header)
    left, value = out.load(state, 2, 0), out.load(state, 2, 1)
    more = out.compare("sgt", left, zero)
    out.store(out.select(more, out.binary("subi", left, one), left), state, 2, 0)
    out.store(out.select(more, out.binary("addi", value, by), value), state, 2, 1)
    out.line(f"cf.cond_br {more}, {inside}, {after}")
    out.start(inside)
    out.store(value, last)
    _write(body, out, total, last, (header, after))
    out.go(header)
    out.start(after)
