"""The attention tile of the examples: two pipelined loops in a row over one buffer.

Covers: pipeliner/async_pipe_pass.py, examples/attention_tile.mlir
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from helpers.paths import ROOT
from helpers.row_programs import pipelined
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool

pytestmark = pytest.mark.slow

TEXT = (ROOT / "examples" / "attention_tile.mlir").read_text()


@pytest.fixture(autouse=True)
def _context() -> Iterator[None]:
    with new_context():
        yield


def deeper(first: int, second: int) -> str:
    head, middle, tail = TEXT.split("async_pipe.num_stages = 3 : i64")
    number = "async_pipe.num_stages = {} : i64"
    return head + number.format(first) + middle + number.format(second) + tail


def counts(module: ir.Module) -> list[int | None]:
    return [
        integer_attribute(op, "numGroups")
        for op in walk(module)
        if op.name == "nvgpu.device_async_wait"
    ]


@pytest.mark.parametrize("depths", [(3, 3), (2, 4), (4, 2)])
@pytest.mark.parametrize("completion", ["late", "random"])
def test_both_products_are_right(depths: tuple[int, int], completion: str) -> None:
    module, session = pipelined(deeper(*depths))
    random = np.random.default_rng(3)
    (summary,) = session.report().of("checks")
    assert (summary.unsafe, summary.unknown) == (0, 0)
    for depth in (8, 16, 40):
        q, k = (random.integers(-3, 4, (32, depth)).astype(np.float32) for _ in range(2))
        v = random.integers(-3, 4, (32, 32)).astype(np.float32)
        arguments = [q, k, np.ascontiguousarray(v.T), np.full((32, 32), -1, np.float32)]
        done = machine.run(module, "attention_tile", arguments, threads=128, completion=completion)
        assert done.races == ()
        assert np.array_equal(done.arrays[3], q @ k.T @ v)


def test_the_shared_buffer_is_as_deep_as_the_deeper_loop() -> None:
    module, session = pipelined(deeper(2, 4))
    first, second = session.report().of("loops")
    assert [b.versions for b in first.buffers] == [2, 2]
    assert next(b.versions for b in second.buffers) == 4
    assert "memref<2x32x8xf32" in str(module) and "memref<4x32x8xf32" in str(module)
    assert "memref<32x32xf32, #gpu.address_space<workgroup>>" in str(module)


def test_each_loop_has_its_own_counts() -> None:
    module, _ = pipelined(TEXT)
    # Kernel 1, epilogue 1, 0 and the version for short trips; then the second loop, which is
    # long enough for certain.
    assert counts(module) == [1, 1, 0, 0, 1, 1, 0]


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
def test_both_loops_keep_their_counts_in_the_cubin() -> None:
    module, _ = pipelined(TEXT, chip="sm_80")
    made = lower(module, target=Target.parse("nvvm:sm_80"), emit="cubin")
    (kernel,) = made.kernels
    assert kernel.resources is not None and kernel.machine is not None
    assert kernel.resources.spill_store_bytes == 0
    assert [loop.waits for loop in kernel.machine.pipelined_loops if 1 in loop.waits] == [
        (1,),
        (1,),
    ]
