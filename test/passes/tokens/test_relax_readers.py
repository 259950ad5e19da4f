"""Waits for asynchronous readers are relaxed to the count that is exact: V - d of products, V - 1 of
bulk stores; one more is what the machine fails by.

Covers: pipeliner/ask_checker/attach_tokens.py, vocabulary/products.py, checker/selection.py
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers.machine_programs import parse
from helpers.tensor_kernels import Ring
from mlir_async_pipe.bindings.raw_ops import integer_attribute, walk
from mlir_async_pipe.pipeliner.ask_checker.attach_tokens import RelaxedWait, relax
from mlir_async_pipe.session.report import Session


def relaxed(module: Any) -> list[RelaxedWait]:
    return relax(module.operation, None, Session())


def counts(module: Any, name: str, attribute: str) -> list[int | None]:
    return [integer_attribute(op, attribute) for op in walk(module.operation) if op.name == name]


@pytest.mark.parametrize(("slots", "ahead"), [(3, 1), (3, 2), (4, 2), (2, 2)])
def test_products_in_flight_are_as_many_as_slots_are_left(slots: int, ahead: int) -> None:
    """V >= d + p: V - d products may stay in flight, and the accumulators still wait for all."""
    ring = Ring(slots=slots, ahead=ahead, in_flight=0, reader="products", counted=False)
    module = parse(ring.text())
    found = relaxed(module)
    assert counts(module, "nvgpu.warpgroup.mma", "waitGroup") == [slots - ahead]
    assert counts(module, "nvvm.wgmma.wait.group.sync.aligned", "group") == [0]
    if slots == ahead:
        assert found == []
        return
    (one,) = found
    assert (one.queue, one.before, one.after) == ("wgmma", 0, slots - ahead)
    assert one.because.startswith("'nvgpu.tma.async.load' ") and one.because_place is not None
    assert "'nvgpu.warpgroup.mma'" in one.because


@pytest.mark.slow
@pytest.mark.parametrize(("slots", "ahead"), [(3, 1), (4, 2)])
def test_one_more_than_the_exact_count_fails_in_the_machine(slots: int, ahead: int) -> None:
    for left, fails in ((slots - ahead, False), (slots - ahead + 1, True)):
        ring = Ring(slots=slots, ahead=ahead, in_flight=left, reader="products")
        ring = Ring(**{**ring.__dict__, "tiles": 2 * slots + 1})
        found = [ring.run(completion).race_codes for completion in ("late", "eager")]
        assert any(found) == fails


def test_a_wait_that_is_too_weak_is_left_to_the_checker() -> None:
    ring = Ring(slots=3, ahead=2, in_flight=2, reader="products")
    module = parse(ring.text())
    assert relaxed(module) == []
    assert counts(module, "nvgpu.warpgroup.mma", "waitGroup") == [2]


STORES = """
func.func @f(%y_: !llvm.ptr, %n: index) attributes {gpu.known_block_size = array<i32: 64, 1, 1>} {
  %y = builtin.unrealized_conversion_cast %y_ : !llvm.ptr to MAP
  %buffer = memref.alloc() : memref<3x64xf32, WG>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %slots = arith.constant 3 : index
  %c64 = arith.constant 64 : index
  %t = gpu.thread_id x
  %leader = arith.cmpi eq, %t, %c0 : index
  %v = arith.constant 1.0 : f32
  scf.for %i = %c0 to %n step %c1 {
    %slot = arith.remui %i, %slots : index
    nvvm.cp.async.bulk.wait_group 0READ
    gpu.barrier
    memref.store %v, %buffer[%slot, %t] : memref<3x64xf32, WG>
    FENCE
    gpu.barrier
    %at = arith.muli %i, %c64 : index
    %tile = memref.subview %buffer[%slot, 0][1, 64][1, 1] : memref<3x64xf32, WG> to memref<64xf32, strided<[1], offset: ?>, WG>
    nvgpu.tma.async.store %tile to %y[%at], predicate = %leader : memref<64xf32, strided<[1], offset: ?>, WG> -> MAP
    nvvm.cp.async.bulk.commit.group
  }
  nvvm.cp.async.bulk.wait_group 0
  return
}"""
MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, "
    "oob = zero, interleave = none>"
)
FENCE = "nvvm.fence.proxy {kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}"


@pytest.mark.parametrize("read", ["", " {read}"])
def test_stores_in_flight_are_one_fewer_than_slots(read: str) -> None:
    """V >= q + 1, whether the wait is for the reads alone or not."""
    text = STORES.replace("MAP", MAP).replace("FENCE", FENCE).replace("READ", read)
    module = parse(text)
    found = relaxed(module)
    assert counts(module, "nvvm.cp.async.bulk.wait_group", "group") == [2, 0]
    (one,) = found
    assert (one.queue, one.after) == ("bulk-store", 2)
    assert one.because == "'memref.store' writes what 'nvgpu.tma.async.store' may still be reading"


def test_stores_without_a_fence_are_not_relaxed() -> None:
    text = STORES.replace("MAP", MAP).replace("FENCE", "").replace("READ", "")
    assert relaxed(parse(text)) == []


def test_waits_before_a_flag_that_is_released_are_not_relaxed() -> None:
    """The flag tells other threads that the stores before the wait are over."""
    flag = f"{FENCE}\n    llvm.fence release"
    text = STORES.replace("MAP", MAP).replace("FENCE", flag).replace("READ", "")
    assert relaxed(parse(text)) == []
