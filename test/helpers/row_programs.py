"""Programs of several loops over one workgroup buffer, and their comparison with the input.

Every loop copies a row of %A into %B, waits, and lets each thread read what another thread
copied; `body` puts the loops together. The result of the pipelined module has to be that of
the input, run without asynchrony.
"""

from __future__ import annotations

import numpy as np

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import integer_attribute, walk
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

THREADS = 4
ROWS = 32
HEAD = """
#wg = #gpu.address_space<workgroup>
func.func @f(%A: memref<32x4xf32> {llvm.noalias}, %O: memref<32x4xf32> {llvm.noalias},
             %n: index, %m: index) attributes {known_block_size = array<i32: 4, 1, 1>} {
  %B = memref.alloc() : memref<4xf32, #wg>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c5 = arith.constant 5 : index
  %c16 = arith.constant 16 : index
  %t = gpu.thread_id x
  %other = arith.subi %c3, %t : index
"""
STAGES_3 = "async_pipe.num_stages = 3 : i64"


def kernel(body: str) -> str:
    """The module around a body that uses %A, %O, %B, %n, %m, %t and constants."""
    return f"{HEAD}{body}\n  return\n}}\n"


def copying_loop(
    annotation: str = STAGES_3, *, first_row: str = "%c0", trips: str = "%n", buffer: str = "%B"
) -> str:
    """Rows first_row … of %A, reversed, to the same rows of %O."""
    return f"""
  scf.for %i = %c0 to {trips} step %c1 {{
    %row = arith.addi %i, {first_row} : index
    %tk = nvgpu.device_async_copy %A[%row, %t], {buffer}[%t], 1 : memref<32x4xf32> to memref<4xf32, #wg>
    %g = nvgpu.device_async_create_group %tk
    nvgpu.device_async_wait %g
    gpu.barrier
    scf.execute_region no_inline {{
      %v = memref.load {buffer}[%other] : memref<4xf32, #wg>
      memref.store %v, %O[%row, %t] : memref<32x4xf32>
      scf.yield
    }}
    gpu.barrier
  }} {{{annotation}}}
"""


def stored_to(row: str, buffer: str = "%B", place: str = "%other") -> str:
    """Code that stores what the buffer holds now to a row of %O."""
    return f"""
  %seen = memref.load {buffer}[{place}] : memref<4xf32, #wg>
  memref.store %seen, %O[{row}, %t] : memref<32x4xf32>
"""


def pipelined(text: str, **options: object) -> tuple[ir.Module, Session]:
    """The module after `async-pipe`, and the session; it verifies."""
    module = ir.Module.parse(text)
    session = Session()
    found = passes.find("async-pipe")
    found.run(module.operation, found.options(**options), session)
    assert module.operation.verify()
    return module, session


def run(
    module: ir.Module, n: int, m: int, completion: str
) -> tuple[np.ndarray, tuple[object, ...]]:
    """%O after a run, and the races."""
    a = np.arange(ROWS * THREADS, dtype=np.float32).reshape(ROWS, THREADS)
    o = np.full((ROWS, THREADS), -1, np.float32)
    done = machine.run(module, "f", [a, o, n, m], threads=THREADS, completion=completion)
    assert done.arrays[1] is not None
    return done.arrays[1], done.races


def wrong_runs(
    text: str, module: ir.Module, sizes: list[tuple[int, int]]
) -> list[tuple[int, int, str]]:
    """The (n, m, completion) for which the module races or differs from the text; [] is right."""
    plain = ir.Module.parse(text)
    wrong = []
    for n, m in sizes:
        expected, _ = run(plain, n, m, "eager")
        for completion in ("late", "random", "eager"):
            found, races = run(module, n, m, completion)
            if races or not np.array_equal(found, expected):
                wrong.append((n, m, completion))
    return wrong


def proven(session: Session) -> bool:
    """Whether kernels were checked, and every access of theirs was found safe."""
    checks = session.report().of("checks")
    return checks != () and all(s.unsafe == s.unknown == 0 for s in checks)


def counts(module: object) -> list[int | None]:
    """The counts of the token waits, in the order of the text."""
    return [
        integer_attribute(op, "numGroups")
        for op in walk(module)
        if op.name == "nvgpu.device_async_wait"
    ]
