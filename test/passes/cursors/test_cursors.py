"""Carrying the number of a slot as a value changes nothing of what a program does.

Covers: waits/ssa/cursors.py
"""

from __future__ import annotations

import random

import numpy as np
import pytest

from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

SAMPLES = 30


class Program:
    """A random nest of loops and conditions that loads, shows and advances two cells."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)
        self._names = 0

    def text(self) -> str:
        """It shows a number by adding it, weighted, to what it hands back."""
        cells = "\n".join(
            f"%cell{n} = memref.alloca() {{async_pipe.cursor}} : memref<index>\n"
            f"memref.store %zero, %cell{n}[] : memref<index>"
            for n in (0, 1)
        )
        return f"""
        func.func @f(%out : memref<1xindex>, %n : index, %p : i1) {{
          %zero = arith.constant 0 : index
          %one = arith.constant 1 : index
          %seven = arith.constant 7 : index
          %many = arith.constant 1000003 : index
          {cells}
          {self._steps(3)}
          return
        }}"""

    def _name(self) -> str:
        self._names += 1
        return f"%v{self._names}"

    def _steps(self, depth: int) -> str:
        kinds = [self._advance, self._advance, *([self._loop, self._if] if depth else [])]
        return "\n".join(self._random.choice(kinds)(depth) for _ in range(3))

    def _advance(self, depth: int) -> str:
        cell, names = self._random.randrange(2), [self._name() for _ in range(6)]
        slot, old, mixed, shown, more, following = names
        return f"""
          {slot} = memref.load %cell{cell}[] : memref<index>
          {old} = memref.load %out[%zero] : memref<1xindex>
          {mixed} = arith.muli {old}, %seven : index
          {shown} = arith.addi {mixed}, {slot} : index
          {more} = arith.remui {shown}, %many : index
          memref.store {more}, %out[%zero] : memref<1xindex>
          {following} = arith.addi {slot}, %one : index
          memref.store {following}, %cell{cell}[] : memref<index>"""

    def _loop(self, depth: int) -> str:
        body = self._steps(depth - 1)
        return f"scf.for {self._name()} = %zero to %n step %one {{\n{body}\n}}"

    def _if(self, depth: int) -> str:
        otherwise = f"else {{\n{self._steps(depth - 1)}\n}}" if self._random.random() < 0.5 else ""
        return f"scf.if %p {{\n{self._steps(depth - 1)}\n}} {otherwise}"


def shown(module: ir.Module, n: int, p: int) -> int:
    arrays = machine.run(module, "f", [np.zeros(1, np.int64), n, p]).arrays
    return int(arrays[0][0])


@pytest.mark.parametrize("seed", range(SAMPLES))
def test_programs_show_the_same_numbers(seed: int) -> None:
    with new_context():
        module = ir.Module.parse(Program(seed).text())
        cases = [(n, p) for n in (0, 1, 3) for p in (0, 1)]
        before = [shown(module, *case) for case in cases]
        found = passes.find("async-pipe-cursors")
        found.run(module.operation, found.options(), Session())
        assert module.operation.verify()
        assert not any(op.name == "memref.alloca" for op in walk(module))
        assert [shown(module, *case) for case in cases] == before


def test_a_cell_that_nobody_uses_goes() -> None:
    with new_context():
        module = ir.Module.parse(
            "func.func @f() { %c = memref.alloca() {async_pipe.cursor} : memref<index> return }"
        )
        found = passes.find("async-pipe-cursors")
        found.run(module.operation, found.options(), Session())
        assert "alloca" not in str(module)
