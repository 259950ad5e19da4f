"""Which arrays of a kernel are compared, and what the test of a joined kernel says.

Covers: hooks/pipelined_kernel.py
"""

from __future__ import annotations

import numpy as np
import pytest

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.hooks.pipelined_kernel import add_plain_versions, pairs_to_compare

LINE = "memref<?xf32, strided<[?], offset: ?>>"


def kernel(arguments: str, body: str) -> str:
    return f"""
gpu.module @kernels {{
  gpu.func @kernel({arguments}) kernel {{
    %i = gpu.thread_id x
    {body}
    gpu.return
  }}
  func.func private @unknown({LINE})
}}"""


COPY = f"""%v = memref.load %a[%i] : {LINE}
    memref.store %v, %b[%i] : {LINE}"""
READ = f"%v = memref.load %a[%i] : {LINE}"
CALL = f"func.call @unknown(%a) : ({LINE}) -> ()"
ADDRESS = """%p = llvm.inttoptr %n : i64 to !llvm.ptr<1>
    %w = llvm.load %p : !llvm.ptr<1> -> f32"""


@pytest.mark.parametrize(
    ("arguments", "body", "pairs"),
    [
        (f"%a: {LINE}, %b: {LINE}", COPY, [(0, 1)]),
        (f"%a: {LINE}, %n: i64, %b: {LINE}, %c: {LINE}", COPY, [(0, 2), (2, 3)]),
        (f"%a: {LINE}, %b: {LINE}", READ, []),
        (f"%a: {LINE}, %b: {LINE}", CALL, [(0, 1)]),
        (f"%a: {LINE}", f"memref.store %one, %a[%i] : {LINE}", []),
        (f"%a: {LINE}, %b: {LINE}, %p: !llvm.ptr", COPY, []),
        (f"%a: {LINE}, %b: {LINE}, %n: i64", f"{COPY}\n    {ADDRESS}", []),
    ],
)
def test_arrays_are_compared_with_those_that_are_written(
    arguments: str, body: str, pairs: list[tuple[int, int]]
) -> None:
    text = kernel(arguments, "%one = arith.constant 1.0 : f32\n    " + body)
    with new_context():
        found = pairs_to_compare(ir.Module.parse(text))
    assert found == ({"kernel": pairs} if pairs else {})


def stores(number: float) -> str:
    return kernel(
        f"%a: {LINE}, %b: {LINE}",
        f"%v = arith.constant {number} : f32\n    memref.store %v, %b[%i] : {LINE}",
    )


@pytest.mark.parametrize("step", [1, 3, -1, -3])
def test_a_joined_kernel_takes_the_version_for_arrays_apart(step: int) -> None:
    with new_context():
        module = ir.Module.parse(stores(1.0))
        pairs = pairs_to_compare(module)
        add_plain_versions(module, ir.Module.parse(stores(2.0)), pairs)
        assert module.operation.verify()
        a, b = (np.zeros(12, np.float32)[::step] for _ in "ab")
        assert machine.run(module, None, [a, b], threads=1).arrays[1][0] == 1.0
