"""`input-race`: said exactly where two threads meet in one barrier interval of one iteration.

Covers: pipeliner/plan/barrier_pairs.py, pipeliner/dependence/distance.py
"""

from __future__ import annotations

import itertools
import random

import pytest

from mlir_async_pipe import bindings
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

ir = bindings.ir
THREADS = 8
ELEMENTS = 16

KERNEL = """
#wg = #gpu.address_space<workgroup>
gpu.module @kernels {{
  gpu.func @kernel(%A : memref<64xf32> {{llvm.noalias}}, %C : memref<64xf32> {{llvm.noalias}})
      workgroup(%tile : memref<{elements}xf32, #wg>) kernel
      attributes {{known_block_size = array<i32: {threads}, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c4 = arith.constant 4 : index
    %n = arith.constant {elements} : index
    %f1 = arith.constant {first[0]} : index
    %o1 = arith.constant {first[1]} : index
    %f2 = arith.constant {second[0]} : index
    %o2 = arith.constant {second[1]} : index
    %tid = gpu.thread_id x
    %p1 = arith.muli %tid, %f1 : index
    %q1 = arith.addi %p1, %o1 : index
    %write = arith.remui %q1, %n : index
    %p2 = arith.muli %tid, %f2 : index
    %q2 = arith.addi %p2, %o2 : index
    %read = arith.remui %q2, %n : index
    scf.for %i = %c0 to %c4 step %c1 {{
      %a = memref.load %A[%i] : memref<64xf32>
      memref.store %a, %tile[%write] : memref<{elements}xf32, #wg>
      {between}
      %b = memref.load %tile[%read] : memref<{elements}xf32, #wg>
      gpu.barrier
      memref.store %b, %C[%tid] : memref<64xf32>
    }} {{async_pipe.stage = {stages}, async_pipe.independent}}
    gpu.return
  }}
}}
"""


def remarks(
    first, second, *, between: str = "", statements: int = 4, threads: int = THREADS
) -> list[str]:
    """The codes of what expand says; element numbers are (factor * tid + offset) mod 16."""
    source = KERNEL.format(
        first=first,
        second=second,
        between=between,
        threads=threads,
        elements=ELEMENTS,
        stages=[0] * statements,
    )
    module = ir.Module.parse(source, bindings.new_context())
    session = Session()
    for name in ("async-pipe-normalise", "async-pipe-schedule", "async-pipe-expand"):
        found = passes.find(name)
        found.run(module.operation, found.options(), session)
    return [item.code for item in session.diagnostics.items]


def threads_meet(first, second) -> bool:
    """Whether some thread reads what another one wrote, by trying all pairs."""
    return any(
        t != u and (first[0] * t + first[1]) % ELEMENTS == (second[0] * u + second[1]) % ELEMENTS
        for t, u in itertools.product(range(THREADS), repeat=2)
    )


@pytest.mark.parametrize("seed", range(30))
def test_said_iff_two_threads_meet(seed):
    choice = random.Random(seed)
    first, second = ((choice.randrange(4), choice.randrange(ELEMENTS)) for _ in range(2))
    said = "input-race" in remarks(first, second)
    assert said == threads_meet(first, second), (first, second)


def test_not_said_after_a_barrier():
    assert "input-race" in remarks((1, 0), (1, 1))
    assert "input-race" not in remarks((1, 0), (1, 1), between="gpu.barrier")


def test_not_said_after_a_barrier_inside_of_a_statement():
    looped = "scf.for %j = %c0 to %c4 step %c1 { gpu.barrier }"
    assert remarks((1, 0), (1, 1), between=looped, statements=5) == []


def test_one_thread_meets_nobody():
    assert remarks((0, 0), (0, 0), threads=1) == []
