"""Copies as front ends write them: with addresses between, guarded, converted, through registers.

Each body fills a row of 32 elements an iteration and is used by other threads, or under its own
guard; pipelined with three stages it gives what it gives as written, whenever copies arrive.

Covers: expand/plan/units.py, loops/copy_statements.py
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest

from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk

ROW = "memref<32xf32, #gpu.address_space<workgroup>>"
ARRAY = "memref<1024xf32>"
KERNEL = """
gpu.module @kernels {{
  gpu.func @kernel(%A: memref<1024xf32> {{llvm.noalias}}, %B: memref<1024xf32> {{llvm.noalias}},
                   %I: memref<1024xi32> {{llvm.noalias}}, %C: memref<1024xf32> {{llvm.noalias}},
                   %n: index) kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c16 = arith.constant 16 : index
    %c31 = arith.constant 31 : index
    %c32 = arith.constant 32 : index
    %zero = arith.constant 0.0 : f32
    %true = arith.constant true
    %s = memref.alloc() : memref<32xf32, #gpu.address_space<workgroup>>
    %q = memref.alloc() : memref<32xf32, #gpu.address_space<workgroup>>
    %t = gpu.thread_id x
    %inside = arith.cmpi slt, %t, %n : index
    %some = arith.cmpi slt, %n, %c16 : index
    scf.for %i = %c0 to %c16 step %c1 {{
      %o = arith.muli %i, %c32 : index
      %x = arith.addi %o, %t : index
      %early = arith.cmpi ult, %i, %n : index
      %row = arith.cmpi ult, %x, %n : index
      {fill}
      gpu.barrier
      {use}
      gpu.barrier
    }} {{async_pipe.num_stages = 3 : i64}}
    gpu.return
  }}
}}
"""
OTHER_THREAD = f"""%z = arith.subi %c31, %t : index
      %w = memref.load %s[%z] : {ROW}
      memref.store %w, %C[%x] : {ARRAY}"""
LOAD = f"%v = memref.load %A[%x] : {ARRAY}"
STORE = f"memref.store %v, %s[%t] : {ROW}"


def own_element(guard: str) -> str:
    """Each thread uses what it copied, under the condition under which it did."""
    return f"""scf.if {guard} {{
        %w = memref.load %s[%t] : {ROW}
        memref.store %w, %C[%x] : {ARRAY}
      }}"""


@dataclass(frozen=True)
class Form:
    """How the row is filled, and how it is used."""

    fill: str
    use: str = OTHER_THREAD

    def text(self) -> str:
        return KERNEL.format(fill=self.fill, use=self.use)


ASYNC = {
    "as upstream writes it": Form(f"{LOAD}\n{STORE}"),
    "an address between": Form(
        f"{LOAD}\n%y = arith.addi %t, %c0 : index\nmemref.store %v, %s[%y] : {ROW}"
    ),
    "an address of the counter between": Form(
        f"{LOAD}\n%y = arith.subi %x, %o : index\nmemref.store %v, %s[%y] : {ROW}"
    ),
    "a chain of addresses between": Form(
        f"{LOAD}\n%e = arith.muli %i, %c32 : index\n%f = arith.addi %e, %t : index\n"
        f"%y = arith.subi %f, %e : index\nmemref.store %v, %s[%y] : {ROW}"
    ),
    "two copies with addresses between": Form(
        f"{LOAD}\n%y = arith.subi %x, %o : index\nmemref.store %v, %s[%y] : {ROW}\n"
        f"%v2 = memref.load %B[%x] : {ARRAY}\n%y2 = arith.subi %x, %o : index\n"
        f"memref.store %v2, %q[%y2] : {ROW}",
        f"""%z = arith.subi %c31, %t : index
        %w = memref.load %s[%z] : {ROW}
        %w2 = memref.load %q[%z] : {ROW}
        %sum = arith.addf %w, %w2 : f32
        memref.store %sum, %C[%x] : {ARRAY}""",
    ),
    "selected": Form(
        f"%l = memref.load %A[%x] : {ARRAY}\n%v = arith.select %inside, %l, %zero : f32\n{STORE}"
    ),
}


def arrays() -> list[np.ndarray]:
    """Two arrays of numbers, an array of indices, the result."""
    random = np.random.default_rng(1)
    numbers = [random.integers(1, 99, 1024).astype(np.float32) for _ in range(2)]
    indices = random.integers(0, 1024, 1024).astype(np.int32)
    return [*numbers, indices, np.zeros(1024, np.float32)]


def same_results(text: str, module: ir.Module) -> None:
    """The module computes what the text does, in every completion, without a race."""
    before = ir.Module.parse(text)
    for n in (0, 8, 16, 32, 100, 512):
        run = machine.run(before, "kernel", [*arrays(), n], threads=32)
        assert run.races == ()
        for completion in ("eager", "late", "random"):
            found = machine.run(module, "kernel", [*arrays(), n], threads=32, completion=completion)
            assert found.races == ()
            np.testing.assert_array_equal(found.arrays[3], run.arrays[3])


@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx950"])
@pytest.mark.parametrize("form", ASYNC)
def test_copies_are_issued_two_iterations_ahead(form, target):
    with new_context():
        text = ASYNC[form].text()
        module = ir.Module.parse(text)
        report = pipeline(module, target)
        assert [wait.count for wait in report.of("waits")] == [1, 1, 0]
        assert [check.unknown for check in report.of("checks")] == [0]
        assert {"async_pipe.scope"} <= {op.name for op in walk(module.operation)}
        same_results(text, module)
