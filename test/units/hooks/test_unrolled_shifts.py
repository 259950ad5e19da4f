"""Loops that hand values from register to register are unrolled until these come round, and do the same.

Covers: hooks/pipelined_kernel.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import operations, terminator, walk
from mlir_async_pipe.hooks.pipelined_kernel import unroll_shifts

DELAYED = """
func.func @f(%x: memref<32xf32>, %y: memref<32xf32>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %n step %c1 iter_args({arguments}) -> ({types}) {{
    memref.store %a{last}, %y[%i] : memref<32xf32>
    %v = memref.load %x[%i] : memref<32xf32>
    scf.yield {yielded} : {types}
  }}
  return
}}
"""


def delayed(length: int) -> str:
    """y[i] = x[i - length - 1], by as many values behind each other."""
    names = [f"%a{number}" for number in range(length + 1)]
    return DELAYED.format(
        arguments=", ".join(f"{name} = %zero" for name in names),
        types=", ".join(["f32"] * len(names)),
        yielded=", ".join(["%v", *names[:-1]]),
        last=length,
    )


@pytest.mark.parametrize("length", [1, 2, 3])
@pytest.mark.parametrize("n", [0, 1, 5, 12])
def test_values_stay_where_they_are(length: int, n: int) -> None:
    with new_context():
        module = ir.Module.parse(delayed(length))
        assert unroll_shifts(module) == 1
        assert module.operation.verify()
        assert "transform" not in str(module)
        x = np.arange(1, 33, dtype=np.float32)
        done = machine.run(module, "f", [x, np.zeros(32, np.float32), n])
        expected = np.zeros(32, np.float32)
        expected[length + 1 : n] = x[: max(0, n - length - 1)]
        assert np.array_equal(done.arrays[1], expected)
        loop = next(op for op in walk(module) if op.name == "scf.for")
        body = loop.regions[0].blocks[0]
        carried = list(body.arguments)[1:]
        handed = list(terminator(body).operands)
        assert not any(value in carried for value in handed)
        assert sum(op.name == "memref.load" for op in operations(body)) == length + 1


@pytest.mark.parametrize("yielded", ["%a0, %a1", "%a1, %a0", "%v, %a1"])
def test_loops_that_shift_nothing_stay(yielded: str) -> None:
    text = delayed(1).replace("scf.yield %v, %a0", f"scf.yield {yielded}")
    with new_context():
        module = ir.Module.parse(text)
        before = str(module)
        assert unroll_shifts(module) == 0
        assert str(module) == before
