"""Numbers in attributes and types may be as large as they can be: the answer comes at once.

Covers: pipeliner/plan/make_plan.py, pipeliner/plan/memory_limit.py, pipeliner/dependence/distance.py, vocabulary/launch_ids.py
"""

from __future__ import annotations

import pytest

import mlir_async_pipe
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.pipeliner.plan.make_plan import MOST_STAGES
from mlir_async_pipe.pipeliner.plan.version_rules import BufferUse, asynchronous_versions, fits
from mlir_async_pipe.session.diagnostics import PipelineError
from mlir_async_pipe.session.passes import find
from mlir_async_pipe.session.report import Session

LARGEST = 2**63 - 1


def kernel(attributes: str, *, elements: int = 64, upper: int = LARGEST, threads: int = 1) -> str:
    """C[i] = A[i], by way of the first element of a buffer."""
    return f"""
func.func @f(%A: memref<?xf32> {{llvm.noalias}}, %C: memref<?xf32> {{llvm.noalias}}, %n: index)
    attributes {{gpu.known_block_size = array<i32: {threads}, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %upper = arith.constant {upper} : index
  %b = memref.alloc() : memref<{elements}xf32, 3>
  scf.for %i = %c0 to %upper step %c1 {{
    %t = nvgpu.device_async_copy %A[%i], %b[%c0], 4 : memref<?xf32> to memref<{elements}xf32, 3>
    %g = nvgpu.device_async_create_group %t
    nvgpu.device_async_wait %g
    %v = memref.load %b[%c0] : memref<{elements}xf32, 3>
    memref.store %v, %C[%i] : memref<?xf32>
  }} {{{attributes}}}
  return
}}"""


def planned(text: str) -> str:
    """The function after stages and orders are given and the loop is expanded."""
    with new_context():
        module = ir.Module.parse(text)
        for name in ("async-pipe-normalise", "async-pipe-schedule", "async-pipe-expand"):
            found = find(name)
            found.run(module.operation, found.options(), Session())
        return str(module)


TOO_MANY = {
    "num_stages": f"async_pipe.num_stages = {LARGEST} : i64",
    "stage": f"async_pipe.stage = [0, {LARGEST}, {LARGEST}], async_pipe.async_stages = [0]",
    "just too many": f"async_pipe.num_stages = {MOST_STAGES + 1} : i64",
}


@pytest.mark.parametrize("attributes", TOO_MANY.values(), ids=TOO_MANY)
def test_more_stages_than_any_memory_has_room_for_are_refused(attributes):
    with pytest.raises(PipelineError) as refused:
        planned(kernel(attributes))
    assert refused.value.code == "too-many-stages"


def test_versions_that_do_not_fit_are_refused_with_what_would():
    text = kernel("async_pipe.num_stages = 1000 : i64", elements=512)
    with (
        new_context(),
        pytest.raises(PipelineError, match="113 versions of every buffer would fit"),
    ):
        mlir_async_pipe.pipeline(ir.Module.parse(text), target="nvvm:sm_90")


ORDINARY = "async_pipe.stage = [0, 1, 1], async_pipe.async_stages = [0]"


@pytest.mark.parametrize("elements", [64, 2**40])
@pytest.mark.parametrize("upper", [100, LARGEST])
def test_large_trip_counts_and_buffers_change_nothing(elements, upper):
    if elements == 64:
        assert f"memref<2x{elements}xf32, 3>" in planned(kernel(ORDINARY, upper=upper))
        return
    # Nobody marks so many elements.
    with pytest.raises(PipelineError) as refused:
        planned(kernel(ORDINARY, elements=elements, upper=upper))
    assert refused.value.code == "not-privatisable"


@pytest.mark.parametrize("threads", [1025, 2**31 - 1, 0, -1])
def test_a_block_that_no_gpu_runs_says_nothing(threads):
    without = kernel(ORDINARY).replace("gpu.known_block_size = array<i32: 1, 1, 1>", "")
    known = kernel(ORDINARY, threads=threads)
    assert planned(known).count("device_async_copy") == planned(without).count("device_async_copy")


def test_versions_of_far_stages_are_found_as_ranges():
    far = 100_000
    uses = [BufferUse(0, 0, True, access=0), BufferUse(far, 1, False, access=1)]
    assert asynchronous_versions(uses, []) == far + 1
    assert fits(far + 1, frozenset({(1, far), (-far, -1)}))
    assert not fits(far, frozenset({(1, far)})) and not fits(7, frozenset({(-8, -6)}))
