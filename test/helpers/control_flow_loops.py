"""Annotated loops with an op that moves control around a part of their body.

    for j: [copy A[j] to B] [wait] [barrier] [O[j] = B of another thread] [barrier] [D[j] = A[j]]

B is set before the loop, so a copy that does not run leaves what an earlier iteration copied.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from helpers.control_flow_programs import BRANCHES, REGIONS
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import before, create, walk
from mlir_async_pipe.facts.loops.annotations import annotate
from mlir_async_pipe.facts.loops.statements import read_body

THREADS = 4
ROWS = 5
WG = "#gpu.address_space<workgroup>"
ARGUMENTS = (
    "%A: memref<5x4xf32> {llvm.noalias}, %O: memref<5x4xf32> {llvm.noalias}, "
    "%D: memref<5x4xf32> {llvm.noalias}, %p: i1, %n: index, %k: i32"
)
PASSED = {
    "%A": "memref<5x4xf32>",
    "%O": "memref<5x4xf32>",
    "%D": "memref<5x4xf32>",
    "%B": f"memref<4xf32, {WG}>",
    "%j": "index",
    "%t": "index",
    "%other": "index",
}
CONSTANTS = """
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c3 = arith.constant 3 : index
"""
BARRIER = "gpu.barrier"
USE = f"""
  %v = memref.load %B[%other] : memref<4xf32, {WG}>
  memref.store %v, %O[%j, %t] : memref<5x4xf32>
"""
BESIDE = """
  %y = memref.load %A[%j, %t] : memref<5x4xf32>
  memref.store %y, %D[%j, %t] : memref<5x4xf32>
"""
# How the copy is written: by elements, or asynchronous already.
FORMS = {
    "plain": (
        "%x = memref.load %A[%j, %t] : memref<5x4xf32>\n"
        f"memref.store %x, %B[%t] : memref<4xf32, {WG}>",
        "",
    ),
    "native": (
        "%x = nvgpu.device_async_copy %A[%j, %t], %B[%t], 1 : "
        f"memref<5x4xf32> to memref<4xf32, {WG}>\n"
        "nvvm.cp.async.commit.group",
        "nvvm.cp.async.wait.group 0",
    ),
}
# What ops whose row names operands are given: an op of the body's own.
OPERANDS = {"memref.generic_atomic_rmw": ("%B, %t", f"memref<4xf32, {WG}>, index")}
# Which parts of the body stand inside the op; all: the whole body.
AROUND = {
    "copy": (0,),
    "wait": (1,),
    "barrier": (2,),
    "consumer": (3,),
    "beside": (5,),
    "copy to barrier": (0, 1, 2),
    "all": (0, 1, 2, 3, 4),
}
SCHEDULES = ("num_stages", "explicit")


def text_of(wrapped: str, form: str, place: str, callee: str = "") -> str:
    """A kernel with the op `wrapped`, which has a hole, around the parts at a place."""
    copy, wait = FORMS[form]
    parts = [copy, wait, BARRIER, USE, BARRIER, BESIDE]
    inside = AROUND[place]
    held = "\n".join(parts[number] for number in inside)
    op = wrapped.replace("HOLE", held)
    body = "\n".join([*parts[: inside[0]], op, *parts[inside[-1] + 1 :]])
    return f"""
func.func @f({ARGUMENTS}) attributes {{known_block_size = array<i32: 4, 1, 1>}} {{
  {CONSTANTS}
  %B = memref.alloc() : memref<4xf32, {WG}>
  %t = gpu.thread_id x
  %other = arith.subi %c3, %t : index
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %B[%t] : memref<4xf32, {WG}>
  gpu.barrier
  %rows = arith.constant {ROWS} : index
  scf.for %j = %c0 to %rows step %c1 {{
{body}
  }}
  return
}}
{callee.replace("HOLE", held)}"""


def _in_region(jump: str) -> str:
    return f"scf.execute_region {{ {jump}\n^a: HOLE\n cf.br ^b\n^b: scf.yield }}"


def _call() -> tuple[str, str]:
    names, kinds = ", ".join(PASSED), ", ".join(PASSED.values())
    arguments = ", ".join(f"{name}: {kind}" for name, kind in PASSED.items())
    return (
        f"func.call @g({names}) : ({kinds}) -> ()",
        f"func.func private @g({arguments}) {{ HOLE\n return }}\n",
    )


def known(name: str, form: str, place: str) -> str:
    """A kernel around an op of the table; calls stand for themselves."""
    if name in REGIONS:
        return text_of(REGIONS[name].format(inside="HOLE"), form, place)
    if name in BRANCHES:
        return text_of(_in_region(BRANCHES[name]), form, place)
    return text_of(_call()[0], form, place, _call()[1])


def unknown(name: str, regions: int, branches: bool, form: str, place: str) -> Any:
    """The module around an op that no row describes, made without its verifier."""
    held = ", ".join(["{HOLE}"] * regions)
    operands, types = OPERANDS.get(name, ("", ""))
    wrapped = (
        _in_region('"my.op"() [^a, ^b] : () -> ()')
        if branches
        else f'"my.op"({operands}) ({held}) : ({types}) -> ()'
    )
    module = ir.Module.parse(text_of(wrapped, form, place))
    old = next(op for op in walk(module) if op.name == "my.op")
    successors = list(old.successors)
    new = create(
        name,
        list(old.operands),
        regions=regions,
        successors=successors,
        ip=before(old),
        loc=old.location,
    )
    for source, target in zip(old.regions, new.regions, strict=False):
        for block in list(source.blocks):
            block.append_to(target)
    old.erase()
    return module


def scheduled(module: Any, schedule: str) -> Any:
    """Annotate the loop: three stages, or everything up to the copy one iteration ahead."""
    loop = next(op for op in walk(module) if op.name == "scf.for" and len(op.operands) == 3)
    if schedule == "num_stages":
        annotate(loop, num_stages=3)
        return module
    statements = read_body(loop).statements
    copying = max((s.number for s in statements if _copies(s.op)), default=-1)
    stage = [int(statement.number > copying) for statement in statements]
    annotate(loop, stage=stage, order=list(range(len(stage))), async_stages=[0])
    return module


def _copies(op: Any) -> bool:
    """Whether an op writes the buffer, itself or in its regions."""
    return any(
        inner.name in ("memref.store", "nvgpu.device_async_copy", "func.call")
        and any("memref<4xf32" in str(value.type) for value in inner.operands)
        for inner in walk(op)
    )


def results(module: Any, completion: str, scalars: Sequence[tuple[int, int, int]]) -> list[Any]:
    """%O and %D, and the races, for each (%p, %n, %k)."""
    found: list[Any] = []
    a = np.arange(1, ROWS * THREADS + 1, dtype=np.float32).reshape(ROWS, THREADS)
    for given in scalars:
        arrays = [a, np.zeros_like(a), np.zeros_like(a)]
        done = machine.run(module, "f", [*arrays, *given], threads=THREADS, completion=completion)
        found.append(([array.tolist() for array in done.arrays[1:3]], done.races))
    return found
