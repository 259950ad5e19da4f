"""The numbers that a note names are numbers with which the fault is met.

Covers: checker/phases/followed_kernel.py, checker/hazards.py
"""

from __future__ import annotations

import itertools
import re

import pytest

from helpers.check_harness import check_module, verdict
from helpers.machine_programs import parse
from helpers.tensor_kernels import Ring
from helpers.tensor_loops import Box, TensorLoop
from helpers.tensor_mutants import APART, EVERYWHERE, TOGETHER, changed
from mlir_async_pipe import machine, pipeline

RING = Ring(slots=2, ahead=2, counted=False, executions=1)
ROLES = Ring(slots=2, ahead=2, counted=False, specialised=True)


def examples(text: str) -> list[str]:
    """What is said of the numbers of each certain fault."""
    errors = [d for d in check_module(parse(text)).report.diagnostics if d.severity == "error"]
    return [note for d in errors for note in re.findall(r"for example.*", str(d))]


def races(ring: Ring, tiles: int) -> bool:
    """Whether the machine finds something with so many tiles."""
    arguments = [*ring.arguments()[:-1], tiles]
    return any(
        machine.run(
            parse(ring.text()),
            None,
            arguments,
            threads=ring.threads,
            completion=completion,
            schedule=schedule,
        ).races
        for completion, schedule in itertools.product(
            ("late", "eager"), ("lockstep", "forward", "backward")
        )
    )


@pytest.mark.parametrize(
    ("ring", "change"),
    [
        *((RING, EVERYWHERE[name]) for name in ("phase never flips", "wrong parity", "no wait")),
        (RING, TOGETHER["no barrier"]),
        *((ROLES, APART[name]) for name in ("no wait for empty", "never given back")),
        (ROLES, EVERYWHERE["too many bytes"]),
    ],
)
def test_the_machine_meets_a_fault_with_the_numbers_that_are_named(ring, change) -> None:
    wrong = changed(ring, **change[0])
    found = examples(wrong.text())
    assert found
    for text in found:
        tiles = int(re.search(r"with %arg2 = (\d+)", text)[1])  # type: ignore[index]
        assert races(wrong, tiles)


def test_the_iteration_is_that_in_which_it_is_met() -> None:
    """Without a flip the first wait that passes too early is in the iteration after the last slot."""
    wrong = changed(RING, flip="%phase_ = arith.ori %phase, %phase : i1")
    (text,) = set(examples(wrong.text()))
    assert text == "for example with %arg2 = 3, in iteration 3 of this loop"
    counted = changed(Ring(slots=2, ahead=2, tiles=5, executions=1), **wrong.changes)
    assert set(examples(counted.text())) == {"for example in iteration 3 of this loop"}


def test_bounds_and_the_step_of_a_loop_are_named() -> None:
    text = TensorLoop((Box(8, 16),)).text().replace("%upper: index)", "%upper: index, %by: index)")
    module = parse(text.replace("to %upper step %i1", "to %upper step %by"))
    pipeline(module, check="none")
    wrong = re.sub(
        r"arith\.subi (%\d+), %c2_\d+ : index", r"arith.subi \1, %c3 : index", str(module)
    )
    assert examples(wrong) == ["for example with %arg2 = 3, %arg3 = 1, in iteration 3 of this loop"]


GROUP = "!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>, num_barriers = 1>"


@pytest.mark.parametrize(
    ("asked", "says", "reported"),
    [("%both", "unknown", []), ("%after", "unsafe", ["for example with %arg0 = 1"])],
)
def test_two_executions_of_one_loop_run_equally_often(
    asked: str, says: str, reported: list[str]
) -> None:
    """Their bits are related by residues only, of which no number of iterations is made: a fault that
    needs them to differ is met with no numbers, and is no error."""
    text = f"""
func.func @f(%n: index) attributes {{gpu.known_block_size = array<i32: 64, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c64 = arith.constant 64 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %b = nvgpu.mbarrier.create -> {GROUP}
  nvgpu.mbarrier.init %b[%c0], %c64, predicate = %leader : {GROUP}
  nvvm.fence.mbarrier.init
  gpu.barrier
  %after, %both = scf.for %e = %c0 to %c2 step %c1
      iter_args(%before = %false, %last = %false) -> (i1, i1) {{
    %now = scf.for %i = %c0 to %n step %c1 iter_args(%one = %false) -> (i1) {{
      %flip = arith.xori %one, %true : i1
      scf.yield %flip : i1
    }}
    %differ = arith.xori %now, %before : i1
    scf.yield %now, %differ : i1, i1
  }}
  scf.if {asked} {{
    nvgpu.mbarrier.try_wait.parity %b[%c0], %false, %c64 : {GROUP}
  }}
  return
}}"""
    assert verdict(check_module(parse(text)).report) == says
    assert examples(text) == reported
