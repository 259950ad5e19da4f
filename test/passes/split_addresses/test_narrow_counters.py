"""Loops carry the same numbers after their counters are narrowed, and only small ones are.

Covers: lowering/split_addresses.py
"""

from __future__ import annotations

import random

import pytest

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import operations
from mlir_async_pipe.lowering.split_addresses import narrow_counters

FUNCTION = """
llvm.func @f(%n: i64) -> i64 {{
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %prime = llvm.mlir.constant(1099511628211 : i64) : i64
{constants}
  llvm.br ^loop(%zero, %zero, {starts} : i64, i64, i64, i64)
^loop(%i: i64, %sum: i64, %a: i64, %b: i64):
{body}
  %mixed = llvm.mul %sum, %prime : i64
  %with_a = llvm.xor %mixed, %a : i64
  %again = llvm.mul %with_a, %prime : i64
  %total = llvm.xor %again, %b : i64
  %next = llvm.add %i, %one : i64
  %more = llvm.icmp "slt" %next, %n : i64
  llvm.cond_br %more, ^loop(%next, %total, {nexts} : i64, i64, i64, i64), ^exit
^exit:
  llvm.return %total : i64
}}
"""


def program(seed: int) -> str:
    """Two slots; each next one is made of one of them: wrapped, masked, or anything."""
    draw = random.Random(seed)
    constants: list[str] = []
    body: list[str] = []

    def constant(number: int) -> str:
        constants.append(f"  %c{len(constants)} = llvm.mlir.constant({number} : i64) : i64\n")
        return f"%c{len(constants) - 1}"

    def value(text: str) -> str:
        body.append(f"  %v{len(body)} = {text}\n")
        return f"%v{len(body) - 1}"

    def following(slot: str) -> str:
        size = draw.choice((1, 2, 3, 4, 5, 8, 2**31 - 1, 2**31, 2**32 + 3))
        step = constant(draw.choice((0, 1, 1, 2, -1, 2**31 - 3)))
        more = value(f"llvm.{draw.choice(('add', 'add', 'sub', 'xor'))} {slot}, {step} : i64")
        match draw.choice(("wrap", "wrap", "mask", "rem", "other", "least", "none")):
            case "wrap":
                bit = value(
                    f'llvm.icmp "{draw.choice(("eq", "uge", "sge"))}" {more}, {constant(size)} : i64'
                )
                return value(f"llvm.select {bit}, {constant(0)}, {more} : i1, i64")
            case "mask":
                return value(f"llvm.and {more}, {constant(size - 1)} : i64")
            case "rem":
                return value(f"llvm.urem {more}, {constant(size)} : i64")
            case "least":
                return value(f"llvm.intr.umin({more}, {constant(size)}) : (i64, i64) -> i64")
            case "other":
                return draw.choice(("%a", "%b"))
        return more

    nexts = [following(draw.choice(("%a", "%b"))) for _ in range(2)]
    starts = [constant(draw.choice((0, 0, 1, 2, 2**31, -1))) for _ in range(2)]
    return FUNCTION.format(
        constants="".join(constants), body="".join(body),
        starts=", ".join(starts), nexts=", ".join(nexts),
    )  # fmt: skip


def narrowed(module: ir.Module) -> list[bool]:
    """Narrow; which of the loop's arguments have 32 bits now."""
    (function,) = operations(module.body)
    narrow_counters(function)
    assert module.operation.verify()
    return [str(argument.type) == "i32" for argument in function.regions[0].blocks[1].arguments]


def run(module: ir.Module, trips: int) -> int:
    return int(machine.run(module, "f", [trips]).results[0])


def test_loops_carry_the_same_numbers() -> None:
    """Law: what a loop adds up of its slots does not change, for any number of iterations."""
    kept = 0
    for seed in range(60):
        with new_context():
            module = ir.Module.parse(program(seed))
            before = [run(module, trips) for trips in (1, 2, 7, 40)]
            kept += any(narrowed(module))
            assert [run(module, trips) for trips in (1, 2, 7, 40)] == before, seed
    assert kept > 20


SLOT = FUNCTION.format(
    constants="""
  %start = llvm.mlir.constant(START : i64) : i64
  %size = llvm.mlir.constant(SIZE : i64) : i64""",
    starts="%start, %start",
    body="""
  %after = llvm.add %a, STEP : i64
  %wraps = llvm.icmp "PREDICATE" %after, %size : i64
  %wrapped = llvm.select %wraps, %zero, %after : i1, i64""",
    nexts="%wrapped, %a",
)


@pytest.mark.parametrize(
    ("start", "size", "step", "predicate", "is_narrow"),
    [
        (0, 3, "%one", "eq", True),
        (2, 64, "%one", "eq", True),
        (2, 65, "%one", "eq", False),  # more numbers than are counted
        (3, 3, "%one", "eq", False),  # begins beyond the end, and never wraps
        (3, 3, "%one", "uge", True),
        (-1, 3, "%one", "eq", False),  # below 0
        (0, 2**33, "%prime", "uge", True),  # its sum needs 64 bits, the slot is always 0
        (2**31, 2, "%one", "uge", False),  # begins too large
        (0, 3, "%n", "eq", False),  # made of an argument
        (0, 3, "%b", "eq", False),  # made of two
    ],
)
def test_what_is_narrowed(
    start: int, size: int, step: str, predicate: str, *, is_narrow: bool
) -> None:
    text = SLOT.replace("START", str(start)).replace("SIZE", str(size))
    with new_context():
        module = ir.Module.parse(text.replace("STEP", step).replace("PREDICATE", predicate))
        before = [run(module, trips) for trips in (1, 5, 70)]
        assert narrowed(module) == [False, False, is_narrow, is_narrow]
        assert [run(module, trips) for trips in (1, 5, 70)] == before
