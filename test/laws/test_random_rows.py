"""The checker beside the machine, on random stores to rows whose length only the launch knows: `o[row * n + column]`.

No run of a kernel that is proven finds a race, for any of ten sizes. What share was proven, and what share of those that
raced in no run is unknown, is printed.

Covers: checker/two_ends.py, checker/owners.py, checker/footprints.py
"""

from __future__ import annotations

import os
from collections import Counter
from random import Random

import numpy as np
import pytest

from mlir_async_pipe import check, machine
from mlir_async_pipe.bindings import ir, new_context

EACH = 300 if os.environ.get("ASYNC_PIPE_NIGHTLY") else 40
FIRST = int(os.environ.get("ASYNC_PIPE_SEED", "0")) * 1000
PARTS = range(4)
BLOCK, GRID = 8, (3, 3, 1)
# Of %n and %m.
SIZES = ((1, 1), (2, 5), (3, 2), (5, 3), (7, 9), (8, 4), (9, 20), (13, 6), (17, 3), (30, 12))
# What no proof is about.
HARMLESS = {"out-of-bounds", "uninitialised-read"}
HEAD = f"""
func.func @k(%o: memref<?xf32> {{llvm.noalias}}, %n: index, %m: index)
    attributes {{gpu.kernel, known_block_size = array<i32: {BLOCK}, 1, 1>}} {{
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %f = arith.constant 1.0 : f32
"""


class Rows:
    """One kernel: a row, its length, and a column, of which most are such that they fit together."""

    def __init__(self, seed: int) -> None:
        self.random, self.lines, self.ends = Random(seed), list[str](), list[str]()
        self.length = self._size()
        row, column = self._fitting() if self.random.random() < 0.6 else (self._any(), self._any())
        column = self._loop(column)
        if not self.ends or self.random.random() < 0.5:
            self._guard(column, self._end())
        if self.random.random() < 0.4:
            self._guard(row, "%m")
        at = self._op("addi", self._op("muli", row, self.length), column)
        if self.random.random() < 0.2:
            at = self._op("addi", at, self._number(self.random.choice((1, 2))))
        self.lines.append(f"memref.store %f, %o[{at}] : memref<?xf32>")
        body = "\n".join([*self.lines, *self.ends])
        ids = [
            f"%{name} = gpu.block_id {a}"
            for name, a in (("b", "x"), ("y", "y"))
            if f"%{name}" in body
        ]
        # Along what a kernel does not read there is one block.
        self.grid = tuple(
            size if f"block_id {a}" in str(ids) else 1 for a, size in zip("xyz", GRID, strict=True)
        )
        self.text = "\n".join([HEAD, *ids, body, "return\n}"])

    def _value(self, text: str) -> str:
        self.lines.append(f"%v{len(self.lines)} = {text}")
        return f"%v{len(self.lines) - 1}"

    def _op(self, name: str, a: str, b: str) -> str:
        return self._value(f"arith.{name} {a}, {b} : index")

    def _number(self, number: int) -> str:
        return self._value(f"arith.constant {number} : index")

    def _times(self, a: str, *numbers: int) -> str:
        return self._op("muli", a, self._number(self.random.choice(numbers)))

    def _part(self, name: str, *numbers: int) -> str:
        return self._op(name, "%t", self._number(self.random.choice(numbers)))

    def _size(self) -> str:
        kind = self.random.randrange(8)
        if kind < 5:
            return "%m" if kind == 4 else "%n"
        if kind == 5:
            return self._op("addi", "%n", self._number(1))
        return self._op("divui", "%n", self._number(2)) if kind == 6 else self._times("%n", 2)

    def _end(self) -> str:
        return self.length if self.random.random() < 0.8 else self._size()

    def _any(self) -> str:
        """A number of a thread, or of a block."""
        kind = self.random.randrange(8)
        if kind < 3:
            return ("%t", "%b", "%y")[kind]
        if kind < 5:
            return self._part(("remui", "divui")[kind - 3], 2, 4)
        if kind == 5:
            return self._op("addi", "%t", self._number(self.random.randrange(3)))
        block = (
            self._times("%b", BLOCK, BLOCK - 1, BLOCK + 1)
            if kind == 6
            else self._times("%y", 1, 2, BLOCK)
        )
        return self._op("addi", block, "%t")

    def _fitting(self) -> tuple[str, str]:
        """A row and a column that no two threads have alike."""
        kind = self.random.randrange(4)
        if kind == 0:
            return "%b", "%t"
        if kind == 1:
            return "%y", self._op("addi", self._times("%b", BLOCK), "%t")
        if kind == 2:
            return self._op("addi", self._times("%b", BLOCK), "%t"), "%c0"
        row = self._op("addi", self._times("%y", BLOCK // 2), self._part("divui", 2))
        return row, self._op("addi", self._times("%b", 2), self._part("remui", 2))

    def _loop(self, column: str) -> str:
        """The column in a loop that begins there, or that moves it on; or as it is."""
        kind = self.random.randrange(3)
        if not kind:
            return column
        start, step = (
            (column, self._number(self.random.choice((1, 4, BLOCK))))
            if kind == 1
            else ("%c0", self._number(1))
        )
        self.lines.append(f"scf.for %i = {start} to {self._end()} step {step} {{")
        self.ends.append("}")
        return "%i" if kind == 1 else self._op("addi", column, self._times("%i", 1, BLOCK))

    def _guard(self, a: str, b: str) -> None:
        less = self._value(
            f"arith.cmpi {self.random.choice(('slt', 'slt', 'ult', 'sle'))}, {a}, {b} : index"
        )
        self.lines.append(f"scf.if {less} {{")
        self.ends.append("}")


def races(kernel: Rows) -> set[str]:
    for n, m in SIZES:
        with new_context():
            given = [np.zeros(1 << 14, np.float32), n, m]
            run = machine.run(
                ir.Module.parse(kernel.text), "k", given, threads=BLOCK, grid=kernel.grid
            )
        found = set(run.race_codes) - HARMLESS
        if found:
            return found
    return set()


@pytest.mark.parametrize("part", PARTS)
def test_no_kernel_that_is_proven_races(part: int) -> None:
    shares = Counter[str]()
    for seed in range(FIRST + part * EACH, FIRST + (part + 1) * EACH):
        kernel = Rows(seed)
        with new_context():
            (summary,) = check(ir.Module.parse(kernel.text), "nvvm:sm_80").of("checks")
        found = races(kernel)
        if not (summary.unsafe or summary.unknown):
            assert not found, (seed, kernel.text)
            shares["proven"] += 1
        elif summary.unsafe:
            shares["certain races"] += 1
        else:
            shares["unknown, race" if found else "unknown, no race seen"] += 1
    print(dict(shares))
    assert shares["proven"] > EACH / 10 and shares["unknown, race"] > EACH / 10
