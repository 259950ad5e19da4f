"""Property: whatever xor swizzle, width and block, the chip's copies fill LDS as the threads say.

Covers: lowering/rocdl/rocdl_copies.py, lowering/rocdl/wave_layout.py
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from helpers.rocdl_kernels import COPYING, copy_kernel, lowered, parse, run_copy
from mlir_async_pipe.chips.target import CHIPS


def swizzle(chunks: int, elements: int, step: int) -> str:
    """Thread t copies chunk t % chunks of row t / chunks; rows turn every `step` rows."""
    return f"""
    %p = arith.constant {chunks} : index
    %e = arith.constant {elements} : index
    %d = arith.constant {step} : index
    %row = arith.divui %x, %p : index
    %chunk = arith.remui %x, %p : index
    %column = arith.muli %chunk, %e : index
    %to_row = arith.addi %row, %c0 : index
    %turns = arith.divui %row, %d : index
    %turn = arith.remui %turns, %p : index
    %place = arith.xori %chunk, %turn : index
    %to_column = arith.muli %place, %e : index
"""


@pytest.mark.parametrize("chip", COPYING)
@settings(max_examples=12, deadline=None, derandomize=True)
@given(
    chunks=st.sampled_from([1, 2, 4, 8]),
    elements=st.sampled_from([2, 4, 8]),
    step=st.sampled_from([1, 2, 4]),
    threads=st.sampled_from([64, 128]),
)
def test_the_chips_copies_fill_lds_as_the_threads_say(chip, chunks, elements, step, threads):
    """Law: for every xor swizzle whose turns repeat within a wave, the lowered kernel leaves in
    LDS what the per-thread copies leave there, without a race."""
    lanes = CHIPS[chip].lanes
    if chunks * chunks * step > lanes:
        return
    shape, block = (threads // chunks, chunks * elements), (threads, 1, 1)
    text = copy_kernel(swizzle(chunks, elements, step), elements=elements, shape=shape, block=block)
    _, _, expected = run_copy(parse(text), lanes=lanes, shape=shape, block=block)
    module = parse(text)
    lowered(module, chip)
    result, _, found = run_copy(module, lanes=lanes, shape=shape, block=block)
    assert not result.races
    assert (found > 0).all()
    assert np.array_equal(found, expected)
