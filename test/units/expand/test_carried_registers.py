"""How many registers a thread of each chip may have, and what values of a type take.

Covers: pipeliner/plan/memory_limit.py, chips/table.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe import api
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import CHIPS
from mlir_async_pipe.pipeliner.plan.memory_limit import registers_of

LOOP = """
func.func @f(%A : memref<16xf32> {llvm.noalias}, %C : memref<16xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %B = memref.alloca() : memref<SIZExf32>
  scf.for %i = %c0 to %c16 step %c1 {
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B[%c0] : memref<SIZExf32>
    %b = memref.load %B[%c0] : memref<SIZExf32>
    memref.store %b, %C[%i] : memref<16xf32>
  } {async_pipe.stage = [0, 0, 1, 1]}
  return
}
"""


@pytest.mark.parametrize(
    ("kind", "registers"),
    [
        ("f32", 1),
        ("f16", 1),
        ("i1", 1),
        ("f64", 2),
        ("index", 2),
        ("vector<2x2xf32>", 4),
        ("vector<4x2xf16>", 4),
        ("vector<3xf16>", 2),
        ("!nvgpu.device.async.token", 0),
    ],
)
def test_values_take_whole_registers(kind, registers):
    with new_context():
        assert registers_of([ir.Type.parse(kind)], []) == registers


@pytest.mark.parametrize(
    ("chip", "threads", "registers"),
    [
        ("sm_80", None, 255),
        ("sm_80", 128, 255),
        ("sm_80", 512, 128),
        ("sm_90a", 1024, 64),
        # A block is given whole warps: 1000 threads are 32 of them.
        ("sm_80", 1000, 64),
        ("gfx950", 256, 512),
        ("gfx950", 1024, 128),
        ("gfx1030", 1024, 128),
        ("gfx1100", 1024, 192),
    ],
)
def test_a_block_shares_the_register_file(chip, threads, registers):
    assert CHIPS[chip].registers_of_thread(threads) == registers


def test_private_versions_count_as_registers():
    with new_context():
        report = api.pipeline(ir.Module.parse(LOOP.replace("SIZE", "10")), target="nvvm:sm_80")
    (loop,) = report.of("loops")
    (buffer,) = loop.buffers
    # The versions of ten elements, and what the slots of the two stages take.
    assert buffer.versions == 2
    assert 20 < loop.carried_registers <= 24


def test_too_many_private_elements_are_reported():
    with new_context():
        report = api.pipeline(ir.Module.parse(LOOP.replace("SIZE", "200")), target="nvvm:sm_80")
    assert [d.code for d in report.diagnostics] == ["registers-over-budget"]
    assert "has 255" in report.diagnostics[0].message


@pytest.mark.parametrize(
    ("said", "budget"),
    [
        ("known_block_size = array<i32: 128, 1, 1>", None),
        ("known_block_size = array<i32: 128, 1, 1>, nvvm.maxnreg = 96 : i32", 96),
        ("known_block_size = array<i32: 128, 1, 1>, nvvm.maxnreg = 160 : i32", None),
        # 65536 registers for 6 blocks of 128 threads.
        ("known_block_size = array<i32: 128, 1, 1>, nvvm.minctasm = 6 : i32", 85),
    ],
)
def test_a_kernel_says_how_many_its_threads_may_have(said, budget):
    text = LOOP.replace("SIZE", "50").replace(
        "{llvm.noalias}) {", f"{{llvm.noalias}}) attributes {{{said}}} {{", 1
    )
    with new_context():
        report = api.pipeline(ir.Module.parse(text), target="nvvm:sm_80")
    messages = [d.message for d in report.diagnostics if d.code == "registers-over-budget"]
    assert len(messages) == (budget is not None)
    assert all(f"which has {budget} in a block of 128" in message for message in messages)


def test_without_a_chip_there_is_no_budget():
    with new_context():
        report = api.pipeline(ir.Module.parse(LOOP.replace("SIZE", "200")))
    assert report.diagnostics == ()
    assert report.of("loops")[0].carried_registers > 400
