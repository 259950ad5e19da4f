"""affine.apply, delinearize_index and linearize_index in the analyses, the checker and the machine.

Covers: facts/values/domains.py, facts/values/linear.py, vocabulary/launch_ids.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_text
from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.numbers import evaluate
from mlir_async_pipe.vocabulary.launch_ids import LaunchId, launch_id

FUNCTION = """
func.func @f(%out : memref<64xindex>, %n : index) {{
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  {body}
  memref.store %x, %out[%t] : memref<64xindex>
  return
}}
"""

# The value %x for thread t of 64, and the range that can be known of it.
VALUES = [
    ("%x = affine.apply affine_map<(d0)[s0] -> (d0 * 4 + s0 + 3)>(%t)[%c0]", lambda t: 4 * t + 3, (3, 255)),
    ("%x = affine.apply affine_map<(d0) -> (d0 floordiv 8)>(%t)", lambda t: t // 8, (0, 7)),
    ("%x = affine.apply affine_map<(d0) -> ((d0 + 5) mod 7)>(%t)", lambda t: (t + 5) % 7, (0, 6)),
    ("%x = affine.apply affine_map<(d0) -> (d0 ceildiv 8)>(%t)", lambda t: -(-t // 8), (0, 8)),
    ("%x = affine.min affine_map<(d0) -> (d0 * 2, 40 - d0, 30)>(%t)", lambda t: min(2 * t, 40 - t, 30), (-23, 30)),
    ("%x = affine.max affine_map<(d0) -> (d0 - 9, 8)>(%t)", lambda t: max(t - 9, 8), (8, 54)),
    ("%x, %y = affine.delinearize_index %t into (16, 4) : index, index", lambda t: t // 4, (0, 15)),
    ("%x, %y = affine.delinearize_index %t into (4) : index, index", lambda t: t // 4, (0, 15)),
    ("%y, %x = affine.delinearize_index %t into (4) : index, index", lambda t: t % 4, (0, 3)),
    ("%y, %x, %z = affine.delinearize_index %t into (2, 8, 4) : index, index, index", lambda t: t // 4 % 8, (0, 7)),
    ("%x = affine.linearize_index [%c0, %t] by (2, 64) : index", lambda t: t, (0, 63)),
    ("%x = affine.linearize_index disjoint [%t, %c0] by (8) : index", lambda t: 8 * t, (0, 504)),
]  # fmt: skip


def value(body: str) -> tuple[ir.Module, ir.Value]:
    module = ir.Module.parse(FUNCTION.format(body=body), bindings.new_context())
    store = next(op for op in walk(module) if op.name == "memref.store")
    return module, store.operands[0]


def thread_ids(value: ir.Value) -> np.ndarray | None:
    return np.arange(64) if launch_id(value) == LaunchId("thread", 0) else None


@pytest.mark.parametrize(("body", "expected", "_range"), VALUES)
def test_enumeration_gives_the_value_of_every_thread(body, expected, _range):
    _module, x = value(body)
    assert evaluate(x, {}, thread_ids).tolist() == [expected(t) for t in range(64)]


@pytest.mark.parametrize(("body", "expected", "known"), VALUES)
def test_range_holds_the_values(body, expected, known):
    _module, x = value(body)
    arithmetic = Arithmetic((64, 1, 1))
    assert arithmetic.range_of(arithmetic.linear(x)) == known


@pytest.mark.parametrize(("body", "expected", "_range"), VALUES)
def test_machine_computes_the_value(body, expected, _range):
    module, _ = value(body)
    result = machine.run(module, "f", [np.zeros(64, np.int64), 0], threads=64)
    assert result.arrays[0].tolist() == [expected(t) for t in range(64)]


def test_a_size_that_is_no_constant_is_not_guessed():
    _module, x = value("%y, %x = affine.delinearize_index %t into (%n) : index, index")
    assert evaluate(x, {}, thread_ids) is None
    assert Arithmetic((64, 1, 1)).value_range(x) == (None, None)


KERNEL = """
#wg = #gpu.address_space<workgroup>
gpu.module @m {{
  gpu.func @f(%A : memref<64xf32> {{llvm.noalias}}, %C : memref<64xf32> {{llvm.noalias}})
      workgroup(%s : memref<8x8xf32, #wg>) kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %t = gpu.thread_id x
    %r, %c = affine.delinearize_index %t into (8, 8) : index, index
    %copy = nvgpu.device_async_copy %A[%t], %s[%r, %c], 1 : memref<64xf32> to memref<8x8xf32, #wg>
    %group = nvgpu.device_async_create_group %copy
    {wait}
    {where}
    %x = memref.load %s[%i, %j] : memref<8x8xf32, #wg>
    memref.store %x, %C[%t] : memref<64xf32>
    gpu.return
  }}
}}
"""
OWN = "%i = affine.apply affine_map<(d0) -> (d0 floordiv 8)>(%t)\n%j = affine.apply affine_map<(d0) -> (d0 mod 8)>(%t)"
OTHERS = "%j, %i = affine.delinearize_index %t into (8, 8) : index, index"
WAIT = "nvgpu.device_async_wait %group"


def test_checker_proves_that_each_thread_reads_its_own_element():
    checked = check_text(KERNEL.format(wait=WAIT, where=OWN), "nvvm:sm_80")
    assert not checked.unsafe
    assert not checked.unknown


@pytest.mark.parametrize(
    ("wait", "where", "code"), [("", OWN, "read-in-flight"), (WAIT, OTHERS, "not-visible")]
)
def test_checker_sees_the_race_after_a_split_index(wait, where, code):
    checked = check_text(KERNEL.format(wait=wait, where=where), "nvvm:sm_80")
    assert {found for found, _ in checked.unsafe} == {code}
