"""Random accesses and barriers before, in and after pipelined loops: what the checker proves of the input it proves of the
result, in which no run finds a race, and which computes the same.

How many inputs were proven, and how many results have a barrier for memory that no copy fills, is printed.

Covers: pipeliner/dependence/surroundings.py, pipeliner/plan/barrier_pairs.py, pipeliner/plan/tensor_tiles.py
"""

from __future__ import annotations

import os
import re
from collections import Counter
from random import Random
from typing import Any

import numpy as np
import pytest

from helpers.machine_programs import parse
from helpers.tensor_loops import Box, TensorLoop
from mlir_async_pipe import check, machine, pipeline
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.bindings.raw_ops import walk

EACH = 150 if os.environ.get("ASYNC_PIPE_NIGHTLY") else 20
FIRST = int(os.environ.get("ASYNC_PIPE_SEED", "0")) * 1000
PARTS = range(4)
FORMS = ("one loop", "two loops", "a copy in flight", "tensor copies")
THREADS = 128
SHARED = "#gpu.address_space<workgroup>"
TYPES = {"P": f"memref<{THREADS}xf32>", "W": f"memref<{THREADS}xf32, {SHARED}>"}
# What threads load outside of the loop goes to %S, each load to a row of its own.
SEEN = f"memref<40x{THREADS}xf32>"
PARAMETERS = f"%P: {TYPES['P']} {{llvm.noalias}}, %S: {SEEN} {{llvm.noalias}}"
START = f"""%highest = arith.constant {THREADS - 1} : index
%mirror = arith.subi %highest, %t : index
%W = memref.alloc() : {TYPES["W"]}"""
FILL = f"""%seven = arith.constant 7.0 : f32
memref.store %seven, %W[%t] : {TYPES["W"]}
gpu.barrier"""


class Accesses:
    """Random lines, each with names of its own."""

    def __init__(self, random: Random) -> None:
        self.random, self.count = random, 0

    def some(self, most: int, likely: float = 1.0, *, seen: float = 1.0) -> str:
        """Up to so many; what is loaded is stored with likelihood `seen`."""
        if self.random.random() >= likely:
            return ""
        return "\n".join(self._one(seen) for _ in range(self.random.randint(0, most)))

    def _one(self, seen: float) -> str:
        self.count += 1
        number = self.count
        kind = self.random.choice(("store", "store", "load", "load", "barrier"))
        array, at = self.random.choice("PPW"), self.random.choice(("%t", "%t", "%mirror"))
        if kind == "barrier":
            fence = self.random.choice(("", "", "", f" memfence [{SHARED}]"))
            return f"gpu.barrier{fence}"
        if kind == "store":
            value = f"%k{number} = arith.constant {number}.0 : f32"
            return f"{value}\nmemref.store %k{number}, %{array}[{at}] : {TYPES[array]}"
        load = f"%v{number} = memref.load %{array}[{at}] : {TYPES[array]}"
        if self.random.random() >= seen:
            return load
        row = f"%n{number} = arith.constant {number} : index"
        return f"{load}\n{row}\nmemref.store %v{number}, %S[%n{number}, %t] : {SEEN}"


HEAD = f"""
func.func @f(%A: memref<12x{THREADS}xf32> {{llvm.noalias}}, {PARAMETERS}, %out: {TYPES["P"]} {{llvm.noalias}}, %trips: index)
    attributes {{known_block_size = array<i32: {THREADS}, 1, 1>}} {{
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %rounds = arith.constant ROUNDS : index
  %t = gpu.thread_id x
  {START}
  {FILL}
"""
LOOP = f"""%B = memref.alloc() : {TYPES["W"]}
%done = scf.for %i = %c0 to TRIPS step %c1 iter_args(%acc = %from) -> f32 {{
  EARLY
  %copy = nvgpu.device_async_copy %A[%i, %t], %B[%t], 1 : memref<12x{THREADS}xf32> to {TYPES["W"]}
  %group = nvgpu.device_async_create_group %copy
  nvgpu.device_async_wait %group
  gpu.barrier
  WAITED
  %v = memref.load %B[PLACE] : {TYPES["W"]}
  %sum = arith.addf %v, %acc : f32
  LATE
  gpu.barrier
  LAST
  scf.yield %sum : f32
}} {{async_pipe.num_stages = STAGES : i64 EPILOGUE}}
"""


# A copy that is in flight when the first loop begins: a wait of the loops is what it is waited for by.
COPY = f"""%early = nvgpu.device_async_copy %A[%c0, %t], %W[%t], 1 : memref<12x{THREADS}xf32> to {TYPES["W"]}
%copied = nvgpu.device_async_create_group %early"""
WAIT = "nvgpu.device_async_wait %copied"


def plain_loops(random: Random, count: int, *, in_flight: bool = False) -> str:
    """A kernel with so many loops of `cp.async` in a row, in a loop of rounds."""
    some = Accesses(random).some
    static = random.random() < 0.7
    trips = random.choice((1, 2, 3, 5))
    body = [some(3)]
    for number in range(count):
        made = LOOP.replace("%from", f"%total{number}").replace("%done", f"%total{number + 1}")
        made = made.replace("%B", f"%B{number}")
        made = made.replace("TRIPS", f"%c{trips}_" if static else "%trips")
        for place, most, likely in (("EARLY", 1, 0.3), ("WAITED", 1, 0.4), ("LATE", 2, 0.5), ("LAST", 1, 0.3)):  # fmt: skip
            made = made.replace(place, some(most, likely, seen=0.3))
        made = made.replace("PLACE", random.choice(("%t", "%mirror")))
        made = made.replace("STAGES", random.choice("23"))
        predicated = random.random() < 0.3
        made = made.replace("EPILOGUE", ', async_pipe.epilogue = "predicate"' if predicated else "")
        body += [made, some(3)]
    if in_flight:
        wait = random.choice((f"{WAIT}\ngpu.barrier", WAIT))
        after = random.choice((2, len(body)))
        body[after:after] = [wait]
        body.insert(random.choice((0, 1)), COPY)
    head = HEAD.replace("ROUNDS", random.choice("1123"))
    if static:
        head = head.replace(
            "  %rounds", f"  %c{trips}_ = arith.constant {trips} : index\n  %rounds"
        )
    around = f"""%whole = scf.for %e = %c0 to %rounds step %c1 iter_args(%total0 = %zero) -> f32 {{
{chr(10).join(body)}
scf.yield %total{count} : f32
}}
memref.store %whole, %out[%t] : {TYPES["P"]}
return
}}"""
    return head + around


def tensor_loop(random: Random) -> tuple[TensorLoop, str]:
    """A loop of tensor copies and products, and its text."""
    some = Accesses(random).some
    loop = TensorLoop(
        (Box(64, 64, "swizzle_128b"),) * 2,
        reader="products",
        trips=random.choice((1, 2, 2, 3, 4)),
        static=True,
        stages=random.choice((2, 3)),
        issue=random.choice(("", "first", "last")),
        roles=random.choice(("", "specialised")),
        executions=random.choice((1, 1, 2)),
    )
    text = loop.text().replace("%out: memref", f"{PARAMETERS}, %out: memref", 1)
    lines = text.replace("%t = gpu.thread_id x", f"%t = gpu.thread_id x\n{START}", 1).split("\n")

    def line(*beginnings: str) -> int:
        return next(n for n, each in enumerate(lines) if each.startswith(beginnings))

    begin, end = line("%r:3 = scf.for"), line("} {async_pipe")
    waited = line("nvgpu.mbarrier.try_wait")
    barrier = waited + lines[waited:end].index("gpu.barrier")
    # From the last one to the first, so that the places stay.
    lines.insert(end + 1, some(3))
    lines.insert(barrier + 1, some(1, 0.3, seen=0.3))
    lines.insert(barrier, some(2, 0.6, seen=0.3))
    lines.insert(waited + 1, some(1, 0.4, seen=0.3))
    lines.insert(begin, some(3))
    lines.insert(line("%end = scf.for") if loop.executions > 1 else begin, FILL)
    return loop, "\n".join(lines)


def is_proven(module: Any) -> bool:
    (checks,) = check(module).of("checks")
    return (checks.unsafe, checks.unknown) == (0, 0)


def results(module: Any, arguments: list[Any]) -> list[Any]:
    """What is left in the arrays, however copies complete, where nothing races."""
    found = []
    threads = int(re.findall(r"known_block_size = array<i32: (\d+)", str(module))[0])
    for order in ("late", "eager"):
        given = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
        result = machine.run(module, None, given, threads=threads, completion=order)
        assert not result.races
        found += [array for array in result.arrays if array is not None]
    return found


def program(form: str, seed: int) -> tuple[str, str, list[Any]]:
    """Its text, where it goes, and what it is given."""
    random = Random(f"{form} {seed}")
    seen = [np.full(THREADS, 100, np.float32), np.zeros((40, THREADS), np.float32)]
    if form == "tensor copies":
        loop, text = tensor_loop(random)
        given = loop.arguments()
        return text, "nvvm:sm_90a", [*given[:2], *seen, *given[2:]]
    tiles = np.arange(12 * THREADS, dtype=np.float32).reshape(12, THREADS) % 7
    in_flight = form == "a copy in flight"
    count = random.choice((1, 2)) if in_flight else 1 + (form == "two loops")
    text = plain_loops(random, count, in_flight=in_flight)
    return text, "nvvm:sm_80", [tiles, *seen, np.zeros(THREADS, np.float32), 2]


def orders_global(module: Any) -> bool:
    """Whether a barrier was written for memory that no copy fills, or stays for the threads of the input."""
    fences = [str(op) for op in walk(module.operation) if op.name == "gpu.barrier"]
    named = any(op.name == "nvvm.barrier" for op in walk(module.operation))
    return named or any("address_space<global>" in fence for fence in fences)


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("form", FORMS)
def test_order_around_loops_stays(form: str, part: int, capsys: pytest.CaptureFixture[str]) -> None:
    counted = Counter[str]()
    for number in range(EACH):
        text, target, arguments = program(form, FIRST + EACH * part + number)
        with new_context():
            module = parse(text)
            if not is_proven(module):
                counted["not proven"] += 1
                continue
            before = results(module, arguments)
            pipeline(module, target=target, check="none")
            counted["with such a barrier"] += orders_global(module)
            assert is_proven(module), text
            after = results(module, arguments)
            assert all(map(np.array_equal, before, after)), text
            counted["proven"] += 1
    with capsys.disabled():
        print(f"\naccesses around loops, {form}: {dict(counted)}")
    assert counted["proven"] > EACH // 4
