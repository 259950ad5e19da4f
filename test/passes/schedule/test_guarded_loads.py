"""Loads under a condition that computes and stores too run ahead of it, into registers.

Covers: pipeliner/normalise/guarded_stores.py
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from helpers.row_programs import STAGES_3, counts, kernel, pipelined, proven, wrong_runs
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError

SIZES = [(n, m) for n in range(6) for m in range(6)]


@pytest.fixture(autouse=True)
def _context() -> Iterator[None]:
    with new_context():
        yield


def loop(body: str) -> str:
    """%n iterations; rows from %m on are not for %body."""
    return kernel(
        f"""
  %half = arith.constant 0.5 : f32
  scf.for %i = %c0 to %n step %c1 {{
    %inside = arith.cmpi ult, %i, %m : index
    {body}
  }} {{{STAGES_3}}}
"""
    )


TAKEN = {
    "a load, computed and stored": """scf.if %inside {
      %v = memref.load %A[%i, %t] : memref<32x4xf32>
      %w = arith.mulf %v, %half : f32
      memref.store %w, %O[%i, %t] : memref<32x4xf32>
    }""",
    "two loads, and places computed there": """scf.if %inside {
      %x = arith.addi %i, %c5 : index
      %v = memref.load %A[%i, %t] : memref<32x4xf32>
      %u = memref.load %A[%x, %other] : memref<32x4xf32>
      %w = arith.mulf %v, %u : f32
      memref.store %w, %O[%x, %t] : memref<32x4xf32>
    }""",
    "an else without loads": """scf.if %inside {
      %v = memref.load %A[%i, %t] : memref<32x4xf32>
      memref.store %v, %O[%i, %t] : memref<32x4xf32>
    } else {
      memref.store %half, %O[%i, %t] : memref<32x4xf32>
    }""",
    "a load for each thread": """%mine = arith.cmpi ult, %t, %m : index
    scf.if %mine {
      %v = memref.load %A[%i, %t] : memref<32x4xf32>
      memref.store %v, %O[%i, %t] : memref<32x4xf32>
    }""",
}


@pytest.mark.parametrize("name", TAKEN)
def test_the_loads_of_a_guard_run_ahead(name: str) -> None:
    text = loop(TAKEN[name])
    module, session = pipelined(text)
    assert len(session.report().of("loops")) == 1
    assert "through-registers" in {entry.code for entry in session.diagnostics.items}
    assert wrong_runs(text, module, SIZES) == []


STAY = {
    "a load of what the guard stores": """scf.if %inside {
      memref.store %half, %O[%i, %t] : memref<32x4xf32>
      %v = memref.load %O[%i, %t] : memref<32x4xf32>
      %w = arith.mulf %v, %half : f32
      memref.store %w, %O[%i, %t] : memref<32x4xf32>
    }""",
    "a division that the guard is for": """scf.if %inside {
      %x = arith.divui %c5, %m : index
      %v = memref.load %A[%x, %t] : memref<32x4xf32>
      memref.store %v, %O[%i, %t] : memref<32x4xf32>
    }""",
}


@pytest.mark.parametrize("name", STAY)
def test_what_could_read_something_else_stays(name: str) -> None:
    with pytest.raises(AsyncPipeError) as caught:
        pipelined(loop(STAY[name]))
    assert caught.value.code == "no-copies"


def test_a_guarded_copy_stays_in_one_piece() -> None:
    """It is predicated as a whole: its buffer gets versions."""
    text = loop(
        """%row = arith.minui %i, %c16 : index
    scf.if %inside {
      %v = memref.load %A[%row, %t] : memref<32x4xf32>
      memref.store %v, %B[%t] : memref<4xf32, #wg>
    } else {
      memref.store %half, %B[%t] : memref<4xf32, #wg>
    }
    gpu.barrier
    %w = memref.load %B[%other] : memref<4xf32, #wg>
    memref.store %w, %O[%i, %t] : memref<32x4xf32>
    gpu.barrier"""
    )
    module, session = pipelined(text)
    assert len(session.report().of("loops")) == 1
    assert wrong_runs(text, module, SIZES) == []


@pytest.mark.parametrize("guards", [("%inside",), ("%mine",), ("%inside", "%mine")])
def test_a_copy_that_leaves_what_was_there_goes_through_registers(guards: tuple[str, ...]) -> None:
    """Iterations may read what an earlier one wrote: one buffer, filled under the same conditions."""
    text = loop(
        f"""%mine = arith.cmpi ult, %t, %m : index
    {"".join(f"scf.if {guard} {{ " for guard in guards)}
      %v = memref.load %A[%i, %t] : memref<32x4xf32>
      memref.store %v, %B[%t] : memref<4xf32, #wg>
    {"}" * len(guards)}
    gpu.barrier
    %w = memref.load %B[%other] : memref<4xf32, #wg>
    memref.store %w, %O[%i, %t] : memref<32x4xf32>
    gpu.barrier"""
    ).replace("scf.for %i", "memref.store %half, %B[%t] : memref<4xf32, #wg>\n  scf.for %i")
    module, session = pipelined(text)
    (reported,) = [e.message for e in session.diagnostics.items if e.code == "through-registers"]
    assert "may read what its iteration did not write" in reported
    (made,) = session.report().of("loops")
    assert [buffer.versions for buffer in made.buffers if buffer.versions > 1] == []
    assert wrong_runs(text, module, SIZES) == []


def filled(
    condition: str, *, wait: str = "nvgpu.device_async_wait %g", read: str = "%other"
) -> str:
    """A row that is copied where it is inside, and zeros otherwise."""
    return kernel(
        f"""
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %n step %c1 {{
    %inside = {condition}
    scf.if %inside {{
      %tk = nvgpu.device_async_copy %A[%i, %t], %B[%t], 1 : memref<32x4xf32> to memref<4xf32, #wg>
    }} else {{
      memref.store %zero, %B[%t] : memref<4xf32, #wg>
    }}
    %g = nvgpu.device_async_create_group
    nvgpu.device_async_wait %g
    gpu.barrier
    %v = memref.load %B[%other] : memref<4xf32, #wg>
    memref.store %v, %O[%i, %t] : memref<32x4xf32>
    gpu.barrier
  }} {{{STAGES_3}}}
"""
    )


@pytest.mark.parametrize(
    "condition", ["arith.cmpi ult, %i, %m : index", "arith.cmpi ult, %t, %m : index"]
)
def test_guarded_asynchronous_copies_with_zeros_otherwise_run_ahead(condition: str) -> None:
    text = filled(condition)
    module, session = pipelined(text)
    assert "memref.store %cst" not in str(module) and "device_async_copy" in str(module)
    assert max(filter(None, counts(module)), default=0) == 1
    assert proven(session)
    assert wrong_runs(text, module, SIZES) == []
