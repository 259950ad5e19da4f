"""Loops that hand loaded values from register to register are unrolled until these come round, and do the
same; waits of what LLVM makes of them leave the younger loads in flight.

Covers: lowering/rocdl/unrolled_shifts.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import operations, terminator, walk
from mlir_async_pipe.lowering.rocdl import isa
from mlir_async_pipe.lowering.rocdl.unrolled_shifts import unroll_shifts

ROOT = Path(__file__).resolve().parents[3]
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
        assert unroll_shifts(module.operation) == 1
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


@pytest.mark.parametrize(
    ("text", "new"),
    [
        ("scf.yield %v, %a0", "scf.yield %a0, %a1"),
        ("scf.yield %v, %a0", "scf.yield %a1, %a0"),
        ("scf.yield %v, %a0", "scf.yield %v, %a1"),
        # What is computed, or read from LDS, is there at once.
        ("scf.yield %v, %a0", "%s = arith.addf %v, %v : f32\n    scf.yield %s, %a0"),
        ("%x: memref<32xf32>", "%x: memref<32xf32, #gpu.address_space<workgroup>>"),
    ],
)
def test_loops_that_shift_no_load_stay(text: str, new: str) -> None:
    changed = delayed(1).replace(text, new)
    if "workgroup" in new:
        changed = changed.replace("%x[%i] : memref<32xf32>", f"%x[%i] : {new.split(': ')[1]}")
    with new_context():
        module = ir.Module.parse(changed)
        before = str(module)
        assert unroll_shifts(module.operation) == 0
        assert str(module) == before


def test_a_load_under_a_condition_is_followed() -> None:
    text = delayed(1).replace(
        "%v = memref.load %x[%i] : memref<32xf32>",
        """%more = arith.cmpi slt, %i, %n : index
    %v = scf.if %more -> (f32) {
      %read = memref.load %x[%i] : memref<32xf32>
      scf.yield %read : f32
    } else {
      scf.yield %zero : f32
    }""",
    )
    with new_context():
        assert unroll_shifts(ir.Module.parse(text).operation) == 1


def test_loads_three_iterations_ahead_are_waited_for_one_by_one() -> None:
    """examples/one_loop.mlir on gfx942: three loads are in flight, and the wait before the store of the
    oldest one leaves two. A loop that moved them would wait for all (vmcnt(0))."""
    with new_context():
        module = ir.Module.parse((ROOT / "examples" / "one_loop.mlir").read_text())
        mlir_async_pipe.pipeline(module, target="rocdl:gfx942")
        lowered = mlir_async_pipe.lower(module, target="rocdl:gfx942", emit="isa")
    loops = isa.loop_bodies(lowered.text)["sum"]
    unrolled = max(loops, key=len)
    assert sum(line.startswith("global_load") for line in unrolled) == 4
    waits = [line for line in unrolled if "vmcnt" in line]
    assert waits and all("vmcnt(2)" in line for line in waits)
