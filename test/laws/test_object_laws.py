"""Whatever order slots are produced and consumed in, each consume sees its tile, under every completion.

A program produces some rows, then runs a loop whose body produces and consumes as often, in some
order that the depth allows, perhaps in every second iteration only, and consumes what is left. The
result depends on the order of the rows: total = total / 2 + row.

Covers: builder, waits/ssa/cursors.py, pipeliner/ask_checker/needed_barriers.py
"""

from __future__ import annotations

import os
import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.object_kernels import COMPLETIONS, Kernel, kernel
from mlir_async_pipe import Pipeline, copy_tile, machine
from mlir_async_pipe.bindings import ir, load

pytestmark = pytest.mark.slow
SAMPLES = int(os.environ.get("ASYNC_PIPE_SAMPLES", "25"))
THREADS, MOST = 32, 6


@dataclass(frozen=True)
class Program:
    """`ahead` rows before the loop, `body` in it ("p" and "c"), `second`: every second iteration."""

    depth: int
    ahead: int
    body: str
    second: bool

    @staticmethod
    def drawn(seed: int) -> Program:
        """One that never holds more slots than there are, nor consumes what is not produced."""
        draw = random.Random(seed)
        depth = draw.randint(1, 4)
        ahead = draw.randint(0, depth)
        body, held, pairs = "", ahead, draw.randint(1, 3)
        while body.count("c") < pairs:
            able = [*("p" * (held < depth and body.count("p") < pairs)), *("c" * (held > 0))]
            if body.count("c") == pairs or not able:
                break
            step = draw.choice(able)
            if step == "c" and body.count("c") == pairs:
                continue
            body += step
            held += 1 if step == "p" else -1
        body += "p" * (pairs - body.count("p")) if held < depth else ""
        if body.count("p") != body.count("c"):
            body = "pc" if ahead < depth else "cp"
        return Program(depth, ahead, body, draw.random() < 0.3)

    def rows(self, trips: int) -> list[int]:
        """The numbers of the rows in the order in which they are consumed."""
        each = self.body.count("p")
        inside = [
            self.ahead + trip * each + number
            for trip in range(trips)
            if not self.second or trip % 2 == 0
            for number in range(each)
        ]
        return [*range(self.ahead), *inside]

    def written(self) -> Any:
        """The module; the second argument says by its size how often the loop runs."""
        arguments = [f"memref<?x{THREADS}xf32>", "memref<?xi8>", f"memref<{THREADS}xf32>"]
        arith, memref, scf = (load(f"dialects.{name}") for name in ("arith", "memref", "scf"))
        with kernel(arguments, THREADS) as k:
            pipe = Pipeline(self.depth)
            pipe.buffer(THREADS, "f32")
            state = _State(k, pipe)
            for number in range(self.ahead):
                state.produce(k.number(number))
            trips = memref.dim(k.arguments[1], k.number(0))
            loop = scf.ForOp(k.number(0), trips, k.number(1), [k.real(0.0)])
            with ir.InsertionPoint(loop.body):
                trip, total = loop.induction_variable, loop.inner_iter_args[0]
                if not self.second:
                    scf.yield_([self._body(state, trip, total)])
                else:
                    rest = arith.remui(trip, k.number(2))
                    even = arith.cmpi(arith.CmpIPredicate.eq, rest, k.number(0))
                    branch = scf.IfOp(even, [ir.F32Type.get()], has_else=True)
                    with ir.InsertionPoint(branch.then_block):
                        scf.yield_([self._body(state, trip, total)])
                    with ir.InsertionPoint(branch.else_block):
                        scf.yield_([total])
                    scf.yield_([branch.results[0]])
            total = loop.results[0]
            for _ in range(self.ahead):
                total = state.consume(total)
            memref.store(total, k.arguments[2], [k.thread()])
            return k.module

    def _body(self, state: _State, trip: Any, total: Any) -> Any:
        arith, k = load("dialects.arith"), state.kernel
        first = arith.addi(arith.muli(trip, k.number(self.body.count("p"))), k.number(self.ahead))
        number = 0
        for step in self.body:
            if step == "p":
                state.produce(arith.addi(first, k.number(number)))
                number += 1
            else:
                total = state.consume(total)
        return total


@dataclass(frozen=True)
class _State:
    kernel: Kernel
    pipe: Pipeline

    def produce(self, row: Any) -> None:
        with self.pipe.produce() as slot:
            copy_tile(self.kernel.arguments[0], slot, at=(row, 0))

    def consume(self, total: Any) -> Any:
        arith, k = load("dialects.arith"), self.kernel
        with self.pipe.consume() as slot:
            mirror = arith.subi(k.number(THREADS - 1), k.thread())
            value = load("dialects.memref").load(slot, [mirror])
            return arith.addf(arith.mulf(total, k.real(0.5)), value)


@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx950"])
@pytest.mark.parametrize("seed", range(SAMPLES))
def test_each_consume_sees_the_row_that_is_its_own(seed: int, target: str) -> None:
    program = Program.drawn(seed)
    rows = np.random.default_rng(seed).random((64, THREADS), dtype=np.float32)
    module = program.written()
    with module.context:
        report = mlir_async_pipe.pipeline(module, target=target)
        assert [check.unknown for check in report.of("checks")] == [0], program
        for trips in range(MOST):
            expected = np.zeros(THREADS, np.float32)
            for row in program.rows(trips):
                expected = expected / 2 + rows[row, ::-1]
            arrays = [rows, np.zeros(trips, np.int8), np.zeros(THREADS, np.float32)]
            for completion in COMPLETIONS:
                done = machine.run(module, "k", arrays, completion=completion, seed=seed)
                assert done.races == (), (program, trips)
                np.testing.assert_allclose(done.arrays[2], expected, rtol=1e-5)


def test_programs_are_of_all_kinds() -> None:
    programs = [Program.drawn(seed) for seed in range(60)]
    assert {program.depth for program in programs} == {1, 2, 3, 4}
    assert {program.body[:1] for program in programs} == {"p", "c"}
    assert any(program.ahead == 0 for program in programs)
    assert any(len(program.body) == 6 for program in programs)
    assert {program.second for program in programs} == {True, False}
