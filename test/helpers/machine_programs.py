"""Small programs for the machine's tests, and one call to run them."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

WORKGROUP = "#gpu.address_space<workgroup>"
TOKEN = "!nvgpu.device.async.token"


@functools.cache
def context() -> Any:
    """One context for all tests of the machine."""
    return new_context()


def parse(text: str) -> Any:
    """A module from its text; WG and TOK stand for long types."""
    return ir.Module.parse(text.replace("WG", WORKGROUP).replace("TOK", TOKEN), context())


def run(text: str, *arguments: Any, **options: Any) -> machine.RunResult:
    """Run the only function of a module."""
    return machine.run(parse(text), None, arguments, **options)


def evaluate(body: str, *arguments: Any, types: str = "", result: str = "f32") -> Any:
    """The result %r of a function with this body; `types` are arguments like `%a: f32`."""
    text = f"func.func @f({types}) -> {result} {{\n{body}\nreturn %r : {result}\n}}"
    return run(text, *arguments).results[0]


def codes(text: str, *arguments: Any, **options: Any) -> set[str]:
    """The codes of all races of a run."""
    return set(run(text, *arguments, **options).race_codes)


def zeros(*shape: int) -> np.ndarray:
    """A float32 array of zeros."""
    return np.zeros(shape, np.float32)


# Each thread copies one column of row i + 1 while it works on row i of the other slot, and
# reads the column that another thread copied.
TWO_SLOTS = """
func.func @f(%src: memref<16x8xf32>, %dst: memref<16x8xf32>) {
  %buf = memref.alloc() : memref<2x8xf32, WG>
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c7 = arith.constant 7 : index
  %c15 = arith.constant 15 : index
  %other = arith.subi %c7, %t : index
  %tok0 = nvgpu.device_async_copy %src[%c0, %t], %buf[%c0, %t], 1 : memref<16x8xf32> to memref<2x8xf32, WG>
  %g0 = nvgpu.device_async_create_group %tok0
  %r = scf.for %i = %c0 to %c15 step %c1 iter_args(%g = %g0) -> (TOK) {
    %i1 = arith.addi %i, %c1 : index
    %next = arith.remui %i1, %c2 : index
    %slot = arith.remui %i, %c2 : index
    %tok = nvgpu.device_async_copy %src[%i1, %t], %buf[%next, %t], 1 : memref<16x8xf32> to memref<2x8xf32, WG>
    %g1 = nvgpu.device_async_create_group %tok
    SYNCHRONISE
    %v = memref.load %buf[%slot, %other] : memref<2x8xf32, WG>
    memref.store %v, %dst[%i, %t] : memref<16x8xf32>
    RELEASE
    scf.yield %g1 : TOK
  }
  nvgpu.device_async_wait %r
  gpu.barrier
  %v = memref.load %buf[%c1, %other] : memref<2x8xf32, WG>
  memref.store %v, %dst[%c15, %t] : memref<16x8xf32>
  return
}"""
WAIT = "nvgpu.device_async_wait %g {numGroups = 1 : i32}"


def two_slots(synchronise: str = f"{WAIT}\ngpu.barrier", release: str = "gpu.barrier") -> str:
    """The program above with its wait and barriers filled in."""
    return TWO_SLOTS.replace("SYNCHRONISE", synchronise).replace("RELEASE", release)


def two_slots_source() -> np.ndarray:
    """Its input; the output has every row mirrored."""
    return np.arange(128, dtype=np.float32).reshape(16, 8)
