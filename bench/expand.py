"""Processor microseconds a loop of the expander, for modules of 1000 loops.

    python bench/expand.py [--loops 1000] [--profile]

Three kinds of loops (the two-stage and the three-stage example of RFC 0077, and a copy to workgroup
memory between barriers), one a function or all in one function. Linear means: twice the loops take twice as long; the last column is the
time a loop at N loops divided by that at N / 4. Beside it the upstream C++ transform
`transform.loop.pipeline`, on a load, an addition and a store in two stages: no buffers, no
waits, no proofs.
"""

from __future__ import annotations

import argparse
import cProfile
import gc
import pstats
import time

from mlir_async_pipe import bindings
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

ir = bindings.ir
PASSES = (
    "async-pipe-normalise",
    "async-pipe-schedule",
    "async-pipe-expand",
    "async-pipe-count-waits",
)

TWO_STAGES = """
  %B{n} = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {{
    %a = memref.load %A[%i] : memref<16xf32>
    %a1 = arith.addf %a, %one : f32
    memref.store %a1, %B{n}[%c0] : memref<1xf32>
    %b = memref.load %B{n}[%c0] : memref<1xf32>
    %b1 = arith.addf %b, %one : f32
    memref.store %b1, %C[%i] : memref<16xf32>
  }} {{async_pipe.stage = [0, 0, 1, 1], async_pipe.async_stages = [0]}}
"""
THREE_STAGES = """
  %B{n} = memref.alloca() : memref<1xf32>
  %D{n} = memref.alloca() : memref<1xf32>
  scf.for %i = %c0 to %c16 step %c1 {{
    %a = memref.load %A[%i] : memref<16xf32>
    %a1 = arith.addf %a, %one : f32
    memref.store %a1, %B{n}[%c0] : memref<1xf32>
    %b = memref.load %B{n}[%c0] : memref<1xf32>
    %b1 = arith.addf %b, %one : f32
    memref.store %b1, %D{n}[%c0] : memref<1xf32>
    %d = memref.load %D{n}[%c0] : memref<1xf32>
    %d1 = arith.addf %d, %one : f32
    memref.store %d1, %C[%i] : memref<16xf32>
  }} {{async_pipe.stage = [0, 0, 1, 1, 2, 2], async_pipe.async_stages = [0, 1]}}
"""
BARRIERS = """
  %B{n} = memref.alloc() : memref<64xf32, #gpu.address_space<workgroup>>
  scf.for %i = %c0 to %c16 step %c1 {{
    %a = memref.load %A[%i] : memref<16xf32>
    memref.store %a, %B{n}[%c0] : memref<64xf32, #gpu.address_space<workgroup>>
    gpu.barrier
    %b = memref.load %B{n}[%c0] : memref<64xf32, #gpu.address_space<workgroup>>
    %b1 = arith.addf %b, %one : f32
    memref.store %b1, %C[%i] : memref<16xf32>
    gpu.barrier
  }} {{async_pipe.num_stages = 3 : i64}}
"""
FUNCTION = """
func.func @f{n}(%A : memref<16xf32> {{llvm.noalias}}, %C : memref<16xf32> {{llvm.noalias}}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  {loops}
  return
}}
"""


def source(kind: str, loops: int, one_function: bool) -> str:
    """A module of `loops` annotated loops."""
    written = [kind.format(n=n) for n in range(loops)]
    if one_function:
        return FUNCTION.format(n=0, loops="".join(written))
    return "".join(FUNCTION.format(n=n, loops=loop) for n, loop in enumerate(written))


def seconds(text: str) -> dict[str, float]:
    """Processor seconds of each pass over the module, parsing not included."""
    context = bindings.new_context()
    module = ir.Module.parse(text, context)
    session = Session(witnesses=False)
    taken = {}
    for name in PASSES:
        found = passes.find(name)
        gc.collect()
        start = time.process_time()
        found.run(module.operation, found.options(), session)
        taken[name] = time.process_time() - start
    return taken


UPSTREAM = """
func.func @f{n}(%A : memref<16xf32>, %C : memref<16xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  scf.for %i = %c0 to %c16 step %c1 {{
    %a = memref.load %A[%i] : memref<16xf32>
    %a1 = arith.addf %a, %one : f32
    memref.store %a1, %C[%i] : memref<16xf32>
  }}
  return
}}
"""
UPSTREAM_SEQUENCE = """
module attributes {{transform.with_named_sequence}} {{
{functions}
transform.named_sequence @__transform_main(%root: !transform.any_op) {{
  %loops = transform.structured.match ops{{["scf.for"]}} in %root
    : (!transform.any_op) -> !transform.op<"scf.for">
  %pipelined = transform.loop.pipeline %loops {{iteration_interval = 1 : i64, read_latency = 1 : i64}}
    : (!transform.op<"scf.for">) -> !transform.any_op
  transform.yield
}}
}}
"""


def upstream_seconds(loops: int) -> float:
    """Processor seconds of the upstream transform over a module of `loops` loops."""
    functions = "".join(UPSTREAM.format(n=n) for n in range(loops))
    context = bindings.new_context()
    module = ir.Module.parse(UPSTREAM_SEQUENCE.format(functions=functions), context)
    manager = bindings.passmanager.PassManager.parse(
        "builtin.module(transform-interpreter)", context
    )
    gc.collect()
    start = time.process_time()
    manager.run(module.operation)
    return time.process_time() - start


def main() -> None:
    """Print the table, or a profile of the largest module."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loops", type=int, default=1000)
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    seconds(source(TWO_STAGES, 4, False))
    print(f"{'microseconds a loop':36}" + "".join(f"{n[11:]:>14}" for n in PASSES) + "  growth")
    kinds = (("two stages", TWO_STAGES), ("three stages", THREE_STAGES), ("barriers", BARRIERS))
    for label, kind in kinds:
        for one_function in (False, True):
            small = seconds(source(kind, options.loops // 4, one_function))
            large = seconds(source(kind, options.loops, one_function))
            growth = sum(large.values()) / sum(small.values()) / 4
            where = "one function" if one_function else "a function each"
            cells = "".join(f"{large[n] / options.loops * 1e6:14.0f}" for n in PASSES)
            print(f"{label + ', ' + where:36}{cells}{growth:8.2f}")
    small, large = (upstream_seconds(n) / n for n in (options.loops // 4, options.loops))
    print(
        f"{'upstream transform.loop.pipeline':36}{'':14}{large * 1e6:14.0f}{'':14}{large / small:8.2f}"
    )
    if options.profile:
        profile = cProfile.Profile()
        profile.enable()
        seconds(source(THREE_STAGES, options.loops, False))
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(25)


if __name__ == "__main__":
    main()
