"""Every barrier of the vocabulary: it orders the threads of a block if all of them meet there,
else nothing may count on it.

Covers: vocabulary/barriers.py, checker/effects.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_text
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import MachineError
from mlir_async_pipe.vocabulary import ROWS

KERNEL = """
gpu.module @m {{
  gpu.func @k(%some: i32) workgroup(%s: memref<64xf32, #gpu.address_space<workgroup>>)
      kernel attributes {{{size}}} {{
    %t = gpu.thread_id x
    %c1 = arith.constant 1 : i32
    %c32 = arith.constant 32 : i32
    %c64 = arith.constant 64 : i32
    %c63 = arith.constant 63 : index
    %zero = arith.constant 0.0 : f32
    %o = arith.subi %c63, %t : index
    memref.store %zero, %s[%t] : memref<64xf32, #gpu.address_space<workgroup>>
    {barrier}
    %v = memref.load %s[%o] : memref<64xf32, #gpu.address_space<workgroup>>
    gpu.return
  }}
}}
"""
SIZE = "known_block_size = array<i32: 64, 1, 1>"
WHOLE = {
    "gpu.barrier": ["gpu.barrier", "gpu.barrier memfence [#gpu.address_space<workgroup>]"],
    "nvvm.barrier0": ['"nvvm.barrier0"() : () -> ()'],
    "nvvm.barrier": [
        "nvvm.barrier",
        "nvvm.barrier id = %c1",
        "nvvm.barrier id = %c1 number_of_threads = %c64",
    ],
    "rocdl.barrier": ["rocdl.barrier"],
    "amdgpu.lds_barrier": ["amdgpu.lds_barrier"],
}
PARTIAL = {
    "nvvm.barrier": [
        "nvvm.barrier id = %c1 number_of_threads = %c32",
        "nvvm.barrier id = %c1 number_of_threads = %some",
        "nvvm.barrier id = %some",
    ],
    "nvvm.barrier.arrive": ["nvvm.barrier.arrive id = %c1 number_of_threads = %c64"],
    "nvvm.bar.warp.sync": ["nvvm.bar.warp.sync %c32 : i32"],
    "nvvm.cluster.arrive": ["nvvm.cluster.arrive {aligned}\nnvvm.cluster.wait {aligned}"],
    "nvvm.cluster.arrive.relaxed": ["nvvm.cluster.arrive.relaxed\nnvvm.cluster.wait"],
    "nvvm.cluster.wait": ["nvvm.cluster.wait"],
}
# They meet, but order no memory.
PLAIN = {
    "gpu.barrier": ["gpu.barrier memfence []", "gpu.barrier memfence [#gpu.address_space<global>]"],
    "rocdl.s.barrier": ["rocdl.s.barrier"],
    "llvm.amdgcn.s.barrier": ['llvm.call_intrinsic "llvm.amdgcn.s.barrier"() : () -> ()'],
}


def each(table: dict[str, list[str]]) -> list[str]:
    return [text for texts in table.values() for text in texts]


def text_of(barrier: str, size: str = SIZE) -> str:
    return KERNEL.format(barrier=barrier, size=size)


def verdict(text: str) -> str:
    checked = check_text(text)
    return "unsafe" if checked.unsafe else "unknown" if checked.unknown else "safe"


def test_every_barrier_of_the_vocabulary_is_in_a_table() -> None:
    barriers = {name for name, row in ROWS.items() if row.barrier is not None}
    assert barriers == {*WHOLE, *PARTIAL, *PLAIN}


@pytest.mark.parametrize("barrier", [text for text in each(WHOLE) if "barrier0" not in text])
def test_a_barrier_of_the_block_orders_its_threads(barrier: str) -> None:
    assert verdict(text_of(barrier)) == "safe"


@pytest.mark.parametrize("barrier", each(PARTIAL))
def test_a_barrier_of_some_threads_is_never_counted_on(barrier: str) -> None:
    assert verdict(text_of(barrier)) == "unknown"


@pytest.mark.parametrize("barrier", each(PLAIN))
def test_a_barrier_without_a_fence_orders_nothing(barrier: str) -> None:
    assert verdict(text_of(barrier)) == "unsafe"


def test_a_count_is_that_of_the_block_only_if_its_size_is_known() -> None:
    barrier = "nvvm.barrier id = %c1 number_of_threads = %c64"
    assert verdict(text_of(barrier, size="")) == "unknown"


def machine_codes(barrier: str) -> frozenset[str]:
    with new_context():
        return machine.run(ir.Module.parse(text_of(barrier)), "k", [1], threads=64).race_codes


def test_the_machine_runs_barriers_of_some_threads() -> None:
    """Of 32: each warp meets itself. Of a number that is 1 in this run: the block."""
    alone, too_few, together = PARTIAL["nvvm.barrier"]
    # The first warp reads what the second has not written yet.
    assert machine_codes(alone) == {"missing-barrier", "uninitialised-read"}
    assert machine_codes(together) == frozenset()
    with pytest.raises(MachineError, match="more than 1 threads at barrier 1"):
        machine_codes(too_few)
