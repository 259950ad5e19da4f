"""Loops that end by equality run as often as they did, with the same numbers.

Covers: lowering/rocdl/rocdl_code.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.lowering.rocdl.rocdl_code import end_by_equality

LARGEST, SMALLEST = 2**63 - 1, -(2**63)


def counting(step: int, *, end: str = "%to", extra: str = "", kind: str = "index") -> str:
    """A kernel that counts iterations and adds up the counter, from %from on, less its sign."""
    return f"""
func.func @f(%C: memref<2xindex>, %from: {kind}, %to: {kind}) attributes {{gpu.kernel}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %seven = arith.constant 7 : {kind}
  %step = arith.constant {step} : {kind}
  %mask = arith.constant {LARGEST if kind == "index" else 7} : {kind}
  %start = arith.andi %from, %mask : {kind}
  %r:2 = scf.for {extra} %i = %start to {end} step %step iter_args(%n = %c0, %sum = %c0)
      -> (index, index) {"" if kind == "index" else f": {kind}"} {{
    %m = arith.addi %n, %c1 : index
    %next = arith.addi %sum, %{"i" if kind == "index" else "n"} : index
    scf.yield %m, %next : index, index
  }}
  memref.store %r#0, %C[%c0] : memref<2xindex>
  memref.store %r#1, %C[%c1] : memref<2xindex>
  return
}}"""


def counted(module, start: int, end: int) -> list[int]:
    result = machine.run(module, "f", [np.zeros(2, np.int64), start, end])
    return [int(n) for n in result.arrays[0]]


def names(module) -> list[str]:
    return [op.name for op in walk(module) if op.name in ("scf.for", "scf.while")]


SHORT = ((0, 0), (0, 1), (0, 96), (0, 97), (5, 5), (7, 3), (0, -2), (LARGEST - 100, LARGEST))
LONG = ((0, LARGEST), (1, LARGEST), (LARGEST, SMALLEST))


@pytest.mark.parametrize(
    ("step", "start", "end"),
    [
        *((step, *ends) for step in (1, 3, 32, 2**62, LARGEST) for ends in SHORT),
        *((step, *ends) for step in (2**61 + 1, 2**62, LARGEST) for ends in LONG),
    ],
)
def test_a_loop_runs_as_often_as_before(step, start, end) -> None:
    """Law: (end - start) / step, rounded up, iterations, none where start >= end."""
    iterations = max(0, -(-(end - start) // step))
    total = sum(range(start, start + iterations * step, step))
    with new_context(), np.errstate(over="ignore"):
        module = ir.Module.parse(counting(step))
        end_by_equality(module.operation)
        assert module.operation.verify()
        assert names(module) == ["scf.while"]
        found = counted(module, start, end)
    assert found == [iterations, (total + 2**63) % 2**64 - 2**63]


def test_an_inner_loop_is_rewritten_in_its_place() -> None:
    text = counting(1).replace(
        "%m = arith.addi %n, %c1",
        "%inner = scf.for %j = %c0 to %i step %c1 iter_args(%x = %n) -> (index) {\n"
        "  %y = arith.addi %x, %c1 : index\n  scf.yield %y : index\n}\n"
        "%m = arith.addi %inner, %c0",
    )
    with new_context():
        module = ir.Module.parse(text)
        end_by_equality(module.operation)
        assert module.operation.verify()
        assert names(module) == ["scf.while", "scf.while"]
        assert counted(module, 0, 5) == [0 + 1 + 2 + 3 + 4, 10]


NO_SLOT = """
func.func @f(%C: memref<?xf32>, %n: index) attributes {gpu.kernel} {
  %c0 = arith.constant 0 : index
  %c32 = arith.constant 32 : index
  %zero = arith.constant 0.0 : f32
  %r = scf.for %i = %c0 to %n step %c32 iter_args(%sum = %zero) -> (f32) {
    %v = memref.load %C[%i] : memref<?xf32>
    %w = arith.addf %sum, %v : f32
    scf.yield %w : f32
  }
  memref.store %r, %C[%c0] : memref<?xf32>
  return
}"""


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(
            counting(32, end="%seven").replace("%i = %start", "%i = %seven"), id="two constants"
        ),
        pytest.param(counting(32).replace("step %step", "step %from"), id="a step that is unknown"),
        pytest.param(
            counting(32).replace("arith.andi", "arith.subi"), id="a start that may be below 0"
        ),
        pytest.param(counting(32, extra="unsigned"), id="an unsigned loop"),
        pytest.param(NO_SLOT, id="a loop that carries no slot"),
        pytest.param(counting(32, kind="i32"), id="32 bits"),
    ],
)
def test_other_loops_stay(text) -> None:
    with new_context():
        module = ir.Module.parse(text)
        end_by_equality(module.operation)
        assert names(module) == ["scf.for"]
