"""What is proven for all trip counts holds for each: pipelines are proven, and what goes wrong late is not.

Covers: machine/induction.py, machine/counted_terms.py, machine/long_arrays.py
"""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

import mlir_async_pipe
from helpers.machine_programs import parse
from helpers.value_mutants import COPIES
from mlir_async_pipe.machine import Data, From

pytestmark = pytest.mark.slow

TARGET = "nvvm:sm_80"
# The sums of `value_mutants`, of arrays of any size.
SUMS = COPIES.replace("memref<38xf32>", "memref<?xf32>").replace("memref<40xf32>", "memref<?xf32>")
SUMS = SUMS.replace("arith.constant 38 : index", "memref.dim %from, %c0 : memref<?xf32>")
ANY_SIZE = [Data((From(4, 4),))] * 2
# More iterations than are asked about one by one.
MANY = [Data((840,))] * 2


@cache
def pipelined() -> str:
    module = parse(SUMS)
    mlir_async_pipe.pipeline(module, target=TARGET)
    return str(module)


def validated(after: str, arguments: list[Any]) -> Any:
    return mlir_async_pipe.validate(parse(SUMS), parse(after), None, arguments, target=TARGET)


def test_a_pipeline_is_proven_for_all_sizes():
    found = validated(pipelined(), ANY_SIZE)
    assert found.is_equal and not found.not_for_all, found.message
    assert found.up_to is not None and found.up_to > 1 << 40
    assert "by induction for size 0 of argument 0 = 4 to " in found.message


# What goes wrong in late iterations alone: old, new.
LATE = {
    "a slot": (
        "%31 = vector.load %arg2[%arg7,",
        "%q = arith.constant 112 : index\n%p = arith.cmpi slt, %arg3, %q : index\n"
        "%s = arith.select %p, %arg7, %c0 : index\n%31 = vector.load %arg2[%s,",
    ),
    "the smaller of a source and a number": (
        "device_async_copy %arg0[%26]",
        "%q = arith.constant 160 : index\n%s = arith.minsi %26, %q : index",
    ),
    "a source by a counter of 8 bits": (
        "device_async_copy %arg0[%26]",
        "%q = arith.index_cast %26 : index to i8\n%s = arith.index_castui %q : i8 to index",
    ),
    "a factor": (
        "%32 = arith.addf %arg4, %31",
        "%q = arith.constant 160 : index\n%p = arith.cmpi slt, %arg3, %q : index\n"
        "%two = arith.addf %31, %31 : vector<4xf32>\n"
        "%s = arith.select %p, %31, %two : vector<4xf32>\n%32 = arith.addf %arg4, %s",
    ),
    "the end of the loop": (
        "%17:5 = scf.for %arg3 = %c0 to %16 ",
        "%q = arith.constant 400 : index\n%s = arith.minsi %16, %q : index\n"
        "%17:5 = scf.for %arg3 = %c0 to %s ",
    ),
    "a place modulo 400": (
        "vector.store %32, %arg1[%arg3]",
        "%q = arith.constant 400 : index\n%s = arith.remui %arg3, %q : index\n"
        "vector.store %32, %arg1[%s]",
    ),
    "a place of the epilogue": (
        "vector.store %24, %arg1[%25]",
        "%q = arith.constant 400 : index\n%s = arith.minsi %25, %q : index\n"
        "vector.store %24, %arg1[%s]",
    ),
}


@pytest.mark.parametrize("name", LATE)
def test_what_goes_wrong_late_is_not_proven_for_all(name: str) -> None:
    """The first eight trip counts are equal, a late one is not: the answer is for the first ones, with a reason."""
    old, new = LATE[name]
    if old.startswith("device"):
        line = next(line for line in pipelined().splitlines() if old in line)
        new = f"{new}\n{line.replace('%arg0[%26]', '%arg0[%s]')}"
        old = line
    assert old in pipelined()
    broken = pipelined().replace(old, new)
    found = validated(broken, ANY_SIZE)
    assert found.is_equal and found.up_to is None
    reasons = ("iteration-dependent", "integer-wraps", "not-periodic")
    assert found.not_for_all in reasons, found.message
    assert "for all of 8 launches" in found.message and "not proven for all" in found.message
    assert validated(broken, MANY).verdict == "different"


PLAIN = """func.func @f(%a: memref<?xf32>, %b: memref<?xf32>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {{
    %x = memref.load %a[%i] : memref<?xf32>
    {body}
    memref.store %x, %b[%j] : memref<?xf32>
  }}
  return
}}"""


def of_bodies(before: str, after: str) -> Any:
    arguments = [Data((From(1),)), Data((From(1),)), From(0)]
    modules = (parse(PLAIN.format(body=body)) for body in (before, after))
    return mlir_async_pipe.validate(*modules, None, arguments)


SAME = "%j = arith.addi %i, %c0 : index"


def test_a_counter_of_32_bits_is_proven_up_to_where_it_wraps():
    narrow = "%k = arith.index_cast %i : index to i32\n%j = arith.index_cast %k : i32 to index"
    # i is n - 1 at most, and the size n + 1, of which the answer speaks.
    assert of_bodies(SAME, narrow).up_to == (1 << 31) + 1
    assert of_bodies(SAME, SAME).up_to > 1 << 40


REFUSED = {
    "integer-wraps": "%k = arith.index_cast %i : index to i16\n%j = arith.index_cast %k : i16 to index",
    "reads-what-it-writes": f"{SAME}\n%y = memref.load %b[%i] : memref<?xf32>",
    "several-loops": f"{SAME}\nscf.for %z = %c0 to %n step %c1 {{}}",
}


@pytest.mark.parametrize("code", REFUSED)
def test_what_is_not_followed_says_why(code: str) -> None:
    found = of_bodies(SAME, REFUSED[code])
    assert found.is_equal and found.not_for_all == code, found.message


def test_a_first_launch_that_differs_is_a_difference():
    found = of_bodies(SAME, "%j = arith.subi %i, %i : index")
    assert found.verdict == "different" and found.message.startswith("with argument 0 of shape")
