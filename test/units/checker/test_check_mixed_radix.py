"""Subscripts with dynamic factors: (block * trips + i) * 64 + t is a number in a mixed radix.

Right kernels are proven; each that is a little wrong is not, and the machine sees it race.

Covers: checker/two_ends.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_text
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

THREADS, BLOCKS, TRIPS = 8, 3, 3
TEXT = """
gpu.module @m {{
  gpu.func @k(%A: memref<?xf32> {{llvm.noalias}}, %trips: index, %columns: index) kernel attributes
      {{known_block_size = array<i32: 8, 1, 1>, known_grid_size = array<i32: 3, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c2 = arith.constant 2 : index
    %c3 = arith.constant 3 : index
    %c7 = arith.constant 7 : index
    %c8 = arith.constant 8 : index
    %c9 = arith.constant 9 : index
    %c15 = arith.constant 15 : index
    %c16 = arith.constant 16 : index
    %c23 = arith.constant 23 : index
    %c24 = arith.constant 24 : index
    %zero = arith.constant 0.0 : f32
    %t = gpu.thread_id x
    %b = gpu.block_id x
    {body}
    gpu.return
  }}
}}
"""
STORE = "memref.store %zero, %A[%p] : memref<?xf32>\n"


def let(name: str, op: str, *operands: str) -> str:
    return f"{name} = arith.{op} {', '.join(operands)} : index\n"


def loop(variable: str, upper: str, body: str) -> str:
    return f"scf.for {variable} = %c0 to {upper} step %c1 {{\n{body}}}\n"


def rows(block: str, upper: str, width: str, add: str = "%t") -> str:
    """A[(block * trips + i) * width + add] for i < upper"""
    return (
        let("%up", "addi", "%trips", "%c1") + let("%bt", "muli", block, "%trips")
        + loop("%i", upper, let("%r", "addi", "%bt", "%i") + let("%s", "muli", "%r", width)
               + let("%p", "addi", "%s", add) + STORE)
    )  # fmt: skip


def levels(outer: str, factor: str) -> str:
    """A[(block * factor * trips + j * trips + i) * 8 + t] for j < outer and i < trips"""
    inner = (
        let("%q", "addi", "%bt", "%jt") + let("%r", "addi", "%q", "%i")
        + let("%s", "muli", "%r", "%c8") + let("%p", "addi", "%s", "%t") + STORE
    )  # fmt: skip
    return (
        let("%ft", "muli", factor, "%trips") + let("%bt", "muli", "%b", "%ft")
        + loop("%j", outer, let("%jt", "muli", "%j", "%trips") + loop("%i", "%trips", inner))
    )  # fmt: skip


def one_of(first: str, second: str) -> str:
    """A store in launches with one trip, another in launches with two."""
    return (
        let("%b8", "muli", "%b", "%c8") + let("%b16", "addi", "%b8", "%b8")
        + let("%p1", "addi", "%b8", "%t") + let("%p2", "addi", "%b16", "%t")
        + let("%p3", "addi", "%p2", "%c8")
        + "%one = arith.cmpi eq, %trips, %c1 : index\nscf.if %one {\n"
        + STORE.replace("%p", first) + "}\n%two = arith.cmpi eq, %trips, %c2 : index\nscf.if %two {\n"
        + STORE.replace("%p", second) + "}\n"
    )  # fmt: skip


def over_the_grid(step: str, before: str) -> str:
    """A[8 block + t + step k] for k < count, the last iteration apart; count = (columns - start + before) / step, if
    that is more than 0."""
    last = let("%l", "muli", "%last", step) + let("%p", "addi", "%start", "%l") + STORE
    return (
        let("%b8", "muli", "%b", "%c8") + let("%start", "addi", "%b8", "%t")
        + let("%d", "subi", "%columns", "%start") + let("%up", "addi", "%d", before)
        + let("%q", "divui", "%up", step)
        + "%more = arith.cmpi sgt, %d, %c0 : index\n"
        + "%count = arith.select %more, %q, %c0 : index\n"
        + "%some = arith.cmpi sgt, %count, %c0 : index\nscf.if %some {\n"
        + let("%last", "subi", "%count", "%c1")
        + loop("%k", "%last", let("%j", "muli", "%k", step)
               + let("%p", "addi", "%start", "%j") + STORE)
        + last + "}\n"
    )  # fmt: skip


PADDED = let("%nine", "divui", "%t", "%c7") + let("%add", "addi", "%t", "%nine")
RIGHT = {
    "a row for each block and iteration": rows("%b", "%trips", "%c8"),
    "rows with room between": rows("%b", "%trips", "%c9"),
    "two loops": levels("%c2", "%c2"),
    "two loops with room between": levels("%c2", "%c3"),
    "one of two launches": one_of("%p1", "%p3"),
    "steps of the grid, the last apart": over_the_grid("%c24", "%c23"),
}
WRONG = {
    "an iteration too many": rows("%b", "%up", "%c8"),
    "a radix that is too small by one": rows("%b", "%trips", "%c7"),
    "without the block": rows("%c0", "%trips", "%c8"),
    "a digit that reaches the radix": PADDED + rows("%b", "%trips", "%c8", "%add"),
    "two loops, the outer too long": levels("%c3", "%c2"),
    "two loops, a factor too small": levels("%c2", "%c1"),
    "steps of less than the grid": over_the_grid("%c16", "%c15"),
}


def text_of(body: str) -> str:
    return TEXT.format(body=body)


def races(text: str) -> set[str]:
    """What the machine finds with one to three trips."""
    found: set[str] = set()
    for trips in range(1, TRIPS + 1):
        with new_context():
            arguments = [np.zeros(1024, np.float32), trips, 24 * trips]
            module = ir.Module.parse(text)
            result = machine.run(module, "k", arguments, threads=THREADS, grid=(BLOCKS, 1, 1))
            found |= set(result.race_codes)
    return found


@pytest.mark.parametrize("name", RIGHT)
def test_places_with_a_digit_for_each_unknown_are_apart(name: str) -> None:
    text = text_of(RIGHT[name])
    checked = check_text(text)
    assert (checked.unsafe, checked.unknown) == (frozenset(), frozenset())
    assert not races(text)


@pytest.mark.parametrize("name", WRONG)
def test_digits_that_overlap_are_not_passed(name: str) -> None:
    text = text_of(WRONG[name])
    checked = check_text(text)
    assert races(text) <= {code for code, _ in checked.unsafe | checked.unknown}
    assert races(text)
