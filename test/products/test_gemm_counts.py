"""The pipelined GEMM has the counts of the closed form, in MLIR, in PTX and in machine code.

S stages: S versions of each buffer; the kernel waits first, leaving (S - 2) iterations' groups
in flight, then one barrier, then the compute, with the next copies among its products; the epilogue
counts down to 0. N = D K + j - q - 1 with D = S - 1, j = 0 and the youngest group q = K - 1 of the
iteration that is needed: (S - 2) K.

Covers: pipeliner/async_pipe_pass.py, lowering/nvvm/lower_nvvm.py, examples/generate_gemm.py
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import pytest

import mlir_async_pipe
from helpers.gemm_kernels import gemm_text, run_gemm
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import ancestors, integer_attribute, operations, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.nvvm.lower_nvvm import NvidiaKernel
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

pytestmark = pytest.mark.slow

TARGET = "nvvm:sm_80"
STAGES = range(2, 7)
SMALL_TILES = ("--tile-m=64", "--tile-n=64", "--tile-k=16")
WAIT, COPY, BARRIER = "nvgpu.device_async_wait", "nvgpu.device_async_copy", "gpu.barrier"
MMA = "nvgpu.mma.sync"

needs_cuda_tools = pytest.mark.skipif(
    find_tool("ptxas") is None or find_tool("nvdisasm") is None, reason="no CUDA tools"
)


@dataclass(frozen=True)
class Pipelined:
    """What the pipelined GEMM looks like in MLIR, and in code.

    `waits` are all counts in textual order; `kernel` the names of the ops that matter in the
    kernel loop in order, `kernel_waits` the counts there; `shapes` those of the buffers.
    """

    waits: tuple[int, ...]
    kernel: tuple[str, ...]
    kernel_waits: tuple[int, ...]
    shapes: tuple[tuple[int, ...], ...]
    code: NvidiaKernel


@cache
def pipelined(stages: int, groups: str = "one", short_trip: str = "version") -> Pipelined:
    with new_context():
        text = pipelined_text(stages, f"--groups={groups}", short_trip=short_trip)
        module = ir.Module.parse(text)
        ops = list(walk(module))
        loop = next(
            op
            for op in ops
            if op.name == "scf.for" and not any(a.name == "scf.for" for a in ancestors(op))
        )
        body = operations(loop.regions[0].blocks[0])
        function = next(op for op in ops if op.name == "gpu.func")
        buffers = list(function.regions[0].blocks[0].arguments)[3:]
        return Pipelined(
            tuple(count(op) for op in ops if op.name == WAIT),
            tuple(op.name for op in body if op.name in (WAIT, COPY, BARRIER, MMA)),
            tuple(count(op) for op in body if op.name == WAIT),
            tuple(tuple(ir.MemRefType(b.type).shape) for b in buffers),
            mlir_async_pipe.lower(module, target=TARGET, emit="cubin").kernels[0],
        )


@cache
def pipelined_text(stages: int, *options: str, short_trip: str = "version") -> str:
    text = gemm_text(f"--stages={stages}", *options).replace(
        "{async_pipe.num_stages", f'{{async_pipe.short_trip = "{short_trip}", async_pipe.num_stages'
    )
    module = ir.Module.parse(text)
    # The checker has tests of its own, and the machine runs these kernels below.
    found = passes.find("async-pipe")
    found.run(module.operation, found.options(check="none"), Session(target=Target.parse(TARGET)))
    return str(module)


def count(wait: Any) -> int:
    return integer_attribute(wait, "numGroups") or 0


def countdown(stages: int) -> tuple[int, ...]:
    return tuple(range(stages - 2, -1, -1))


@pytest.mark.parametrize("stages", STAGES)
def test_each_buffer_has_as_many_versions_as_stages(stages: int) -> None:
    assert pipelined(stages).shapes == ((stages, 128, 32), (stages, 128, 32))


@pytest.mark.parametrize("stages", STAGES)
def test_the_kernel_waits_then_meets_then_computes_with_copies_among_the_products(
    stages: int,
) -> None:
    """The last products of an iteration come first in the next one, and the copies among them."""
    found = pipelined(stages)
    assert found.kernel == (WAIT, BARRIER, MMA, COPY, *[*[MMA] * 4, COPY] * 7, *[MMA] * (3 + 32))
    assert found.kernel_waits == (stages - 2,)


@pytest.mark.parametrize("stages", STAGES)
def test_with_fragments_in_place_copies_follow_the_last_loads(stages: int) -> None:
    """Where the author vouches for the trip count, which one stage more would change."""
    found = pipelined(stages, short_trip="assume")
    spread = [*[MMA] * 33, COPY, *[*[MMA] * 4, COPY] * 7, *[MMA] * 3]
    first = [*[COPY] * 8, *[MMA] * 64]
    assert found.kernel == (WAIT, BARRIER, *(first if stages == 2 else spread))


@pytest.mark.parametrize("stages", STAGES)
def test_the_epilogue_waits_count_down_to_zero(stages: int) -> None:
    found = pipelined(stages, short_trip="assume")
    assert found.waits == (stages - 2, *countdown(stages))


@pytest.mark.parametrize("stages", STAGES)
def test_two_groups_an_iteration_double_the_counts(stages: int) -> None:
    found = pipelined(stages, groups="operand", short_trip="assume")
    assert found.waits == tuple(2 * n for n in (stages - 2, *countdown(stages)))


@pytest.mark.parametrize("groups", ["one", "operand"])
@pytest.mark.parametrize("stages", STAGES)
def test_ptx_has_the_counts_of_the_module_in_their_order(stages: int, groups: str) -> None:
    found = pipelined(stages, groups, short_trip="assume")
    assert found.code.ptx is not None
    assert found.code.ptx.waits == found.waits


@pytest.mark.parametrize("stages", STAGES)
def test_ptx_with_the_short_trip_copy_has_the_same_set_of_counts(stages: int) -> None:
    found = pipelined(stages)
    assert found.code.ptx is not None
    assert set(found.code.ptx.waits) == set(found.waits) == set(range(stages - 1))


@needs_cuda_tools
@pytest.mark.parametrize("groups", ["one", "operand"])
@pytest.mark.parametrize("stages", STAGES)
def test_machine_code_has_the_counts_of_the_module_in_their_order(stages: int, groups: str) -> None:
    found = pipelined(stages, groups, short_trip="assume")
    assert found.code.machine is not None
    assert found.code.machine.waits == found.waits


@needs_cuda_tools
@pytest.mark.parametrize("short_trip", ["assume", "version"])
@pytest.mark.parametrize("stages", STAGES)
def test_the_pipelined_loop_in_the_cubin_has_one_wait_and_one_barrier(
    stages: int, short_trip: str
) -> None:
    machine = pipelined(stages, short_trip=short_trip).code.machine
    assert machine is not None
    (loop,) = [found for found in machine.pipelined_loops if found.barriers == 1]
    assert loop.waits == (stages - 2,)
    assert (loop.copies, loop.multiplications) == (8, 64)


@needs_cuda_tools
@pytest.mark.parametrize("stages", STAGES)
def test_nothing_spills(stages: int) -> None:
    resources = pipelined(stages).code.resources
    assert resources is not None
    assert (resources.spill_store_bytes, resources.stack_frame_bytes) == (0, 0)


@pytest.mark.parametrize("stages", STAGES)
def test_shared_memory_is_dynamic_above_48_kib(stages: int) -> None:
    size = stages * 2 * 128 * 32 * 2
    code = pipelined(stages).code
    assert code.dynamic_shared_bytes == (size if size > 48 * 1024 else 0)
    if code.resources is not None:
        assert code.resources.static_shared_bytes == (0 if size > 48 * 1024 else size)


@pytest.mark.parametrize("iterations", range(9))
@pytest.mark.parametrize("stages", STAGES)
def test_every_multiplication_reads_what_was_copied_for_it(stages: int, iterations: int) -> None:
    """Copies arrive as late as the waits allow, and every tile of k has other numbers."""
    with new_context():
        module = ir.Module.parse(pipelined_text(stages, *SMALL_TILES))
        result, right = run_gemm(module, (64, 64, 16 * iterations))
    assert result.races == ()
    assert right


@pytest.mark.parametrize("stages", STAGES)
def test_a_wait_that_leaves_one_group_more_is_wrong(stages: int) -> None:
    with new_context():
        module = ir.Module.parse(pipelined_text(stages, *SMALL_TILES))
        loop = next(op for op in walk(module) if op.name == "scf.for")
        wait = next(op for op in walk(loop) if op.name == WAIT)
        wait.attributes["numGroups"] = ir.IntegerAttr.get(
            ir.IntegerType.get_signless(32), count(wait) + 1
        )
        result, right = run_gemm(module, (64, 64, 16 * 8))
    assert not right
    assert result.races
