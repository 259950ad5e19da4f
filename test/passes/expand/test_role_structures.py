"""Loops whose copies the same warps issue, in branches, at other depths, by turns on two rings: each role goes
through the same structure, which the checker proves and the machine runs in all orders.

Covers: pipeliner/expand/write/carried_ring.py, pipeliner/plan/role_plan.py
"""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from helpers.machine_programs import parse
from helpers.role_orders import ORDERS
from helpers.tensor_loops import Box, TensorLoop
from mlir_async_pipe import check, machine, pipeline

LOADS = TensorLoop((Box(2, 32),), stages=2, trips=5, roles="specialised")
TEXT = LOADS.text()
START = TEXT.index("%r:3 = scf.for")
END = TEXT.index("\n", TEXT.index("async_pipe.num_stages")) + 1
NUMBERS = "".join(f"%n{n} = arith.constant {n} : index\n" for n in range(5))
IS_ODD = "%half = arith.remui %e, %i2 : index\n%odd = arith.cmpi eq, %half, %i1 : index\n"
OTHER = {"%full": "%other", "%b0": "%own0"}


def loop(number: int, execution: str, phase: str, names: dict[str, str] | None = None) -> str:
    """Loop `number`, which uses the tiles and writes the rows of an execution."""
    text = TEXT[START:END].replace("%r:3", f"%r{number}:3")
    text = text.replace("%phase = %false", f"%phase = {phase}")
    text = text.replace("%tile = arith.addi %i0", f"%tile = arith.addi %row{number}")
    for old, new in (names or {}).items():
        text = text.replace(old, new)
    return f"%row{number} = arith.muli {execution}, %i5 : index\n{text}"


def around(count: int, body: str, first: str, last: str) -> str:
    return (
        f"%end = scf.for %e = %i0 to %n{count} step %i1 iter_args(%p = {first}) -> (i1) {{\n"
        f"{IS_ODD}{body}scf.yield {last} : i1\n}}\n"
    )


def either(then: str, one: str, otherwise: str, other: str) -> str:
    kinds = ", ".join(["i1"] * (one.count(",") + 1))
    return (
        f"%b:{one.count(',') + 1} = scf.if %odd -> ({kinds}) {{\n{then}scf.yield {one} : {kinds}\n"
        f"}} else {{\n{otherwise}scf.yield {other} : {kinds}\n}}\n"
    )


NEXT = "%later = arith.addi %e, %i1 : index\n"
PAIR = "%twice = arith.muli %e, %i2 : index\n%after = arith.addi %twice, %i1 : index\n"
# How many executions write rows, which of them does not run, and the loops.
STRUCTURES = {
    "either": (
        4,
        (),
        around(
            4, either(loop(1, "%e", "%p"), "%r1#1", loop(2, "%e", "%p"), "%r2#1"), "%false", "%b#0"
        ),
    ),
    "either, on rings of their own": (
        4,
        (),
        "%end:2 = scf.for %e = %i0 to %n4 step %i1 iter_args(%p = %false, %q = %false) -> (i1, i1) {\n"
        + IS_ODD
        + either(loop(1, "%e", "%p"), "%r1#1, %q", loop(2, "%e", "%q", OTHER), "%p, %r2#1")
        + "scf.yield %b#0, %b#1 : i1, i1\n}\n",
    ),
    "one in a loop, then one after it": (
        3,
        (),
        around(2, loop(1, "%e", "%p"), "%false", "%r1#1") + loop(2, "%n2", "%end"),
    ),
    "one, then one in a loop": (
        3,
        (),
        loop(1, "%n0", "%false") + around(2, NEXT + loop(2, "%later", "%p"), "%r1#1", "%r2#1"),
    ),
    "two rings by turns": (
        3,
        (),
        loop(1, "%n0", "%false") + loop(2, "%n1", "%false", OTHER) + loop(3, "%n2", "%r1#1"),
    ),
    "one, and another one in a branch": (
        4,
        (1,),
        around(
            2,
            PAIR
            + loop(1, "%twice", "%p")
            + either(loop(2, "%after", "%r1#1"), "%r2#1", "", "%r1#1"),
            "%false",
            "%b#0",
        ),
    ),
}


@pytest.mark.parametrize("name", STRUCTURES)
def test_each_role_goes_through_the_same_structure(name):
    executions, left_out, body = STRUCTURES[name]
    lines = TEXT[:START].split("\n")
    if "%other" in body:
        own = [line for line in lines if re.search("%full|%b0 =", line)]
        for line in own:
            second = line.replace("%full", "%other").replace("%b0", "%own0")
            lines.insert(lines.index(line), second)
    whole = replace(LOADS, executions=executions)
    expected = whole.expected(whole.arguments())
    for execution in left_out:
        expected[5 * execution : 5 * execution + 5] = 0
    module = parse("\n".join(lines) + NUMBERS + body + TEXT[END:])
    pipeline(module, check="none")
    for completion, schedule in ORDERS:
        result = machine.run(
            module, None, whole.arguments(), threads=96, completion=completion, schedule=schedule
        )
        assert not result.race_codes
        assert np.array_equal(result.arrays[1].reshape(expected.shape), expected)
    assert all(not one.unsafe and not one.unknown for one in check(module).of("checks"))
