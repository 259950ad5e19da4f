"""Groups of threads that take tiles of a persistent kernel in turn: each stores tiles of its own.

A tile's number is block + blocks * (2 * (count div 2) + group), its row and column are quotient and
remainder by a number of the launch. Right kernels are proven, each that is a little wrong is not; the
places that all threads touch say which is which, also of numbers that are drawn.

Covers: checker/two_ends.py, checker/owners.py, checker/footprints.py, checker/grid_blocks.py
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random

import pytest

from helpers.check_harness import check_text
from helpers.paths import ROOT
from helpers.role_orders import ops
from mlir_async_pipe import check, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import before, constant, constant_value, defining_op

sys.path.insert(0, str(ROOT / "examples"))

from generate_hopper_gemm import HopperGemm

TEXT = """
gpu.module @m {{
  gpu.func @k(%C: memref<?x?xf32> {{llvm.noalias}}, %starts: memref<?xi32> {{llvm.noalias}}, %width: index)
      kernel attributes {{known_block_size = array<i32: {threads}, 1, 1>{grid}}} {{
    %zero = arith.constant 0.0 : f32
    {constants}
    %true = arith.constant true
    %t = gpu.thread_id x
    %b = gpu.block_id x
    %G = gpu.grid_dim x
    %M = memref.dim %C, %c0 : memref<?x?xf32>
    %N = memref.dim %C, %c1 : memref<?x?xf32>
    %rows = arith.divui %M, %c2 : index
    %columns = arith.divui %N, %c2 : index
    %tiles = arith.muli %rows, %columns : index
    %computes = arith.cmpi ult, %t, %c{computing} : index
    scf.if %computes {{
      %in = arith.remui %t, %c{reduced} : index
      %g = arith.divui %t, %c4 : index
      {start}
      %r:2 = scf.for %i = %b to %tiles step %G iter_args(%mine = %first, %n = %c0) -> (i1, index) {{
        scf.if %mine {{
          %h = arith.divui %n, %c{divided} : index
          %h2 = arith.muli %h, %c{pairs} : index
          %og = arith.muli %g, %c{of_group} : index
          %q = arith.addi %h2, %og : index
          %s = arith.muli %q, {step} : index
          %tile = arith.addi {block}, %s : index
          {store}
        }}
        %other = arith.xori %mine, %true : i1
        %next = arith.addi %n, %c1 : index
        scf.yield %other, %next : i1, index
      }}
    }}
    gpu.return
  }}
}}
"""
KNOWN = "%first = arith.cmpi eq, %g, %c0 : index"
LOADED = """%begins = memref.load %starts[%g] : memref<?xi32>
      %none = arith.constant 0 : i32
      %first = arith.cmpi ne, %begins, %none : i32"""
TILED = """%tr = arith.divui %tile, %columns : index
          %tc = arith.remui %tile, {by} : index
          %m = arith.muli %tr, %c2 : index
          %l = arith.muli %tc, %c2 : index
          %ri = arith.divui %in, %c2 : index
          %ci = arith.remui %in, %c2 : index
          %row = arith.addi %m, %ri : index
          %column = arith.addi %l, %ci : index
          memref.store %zero, %C[%row, %column] : memref<?x?xf32>"""
FLAT = """%m = arith.muli %tile, %c4 : index
          %place = arith.addi %m, %in : index
          memref.store %zero, %C[%c0, %place] : memref<?x?xf32>"""


@dataclass(frozen=True)
class Turns:
    """A kernel: `threads` in a block, of which the first `computing` store, 4 of them a group."""

    threads: int = 12
    computing: int = 8
    reduced: int = 4
    divided: int = 2
    pairs: int = 2
    of_group: int = 1
    step: str = "%G"
    block: str = "%b"
    by: str = "%columns"
    start: str = LOADED
    flat: bool = False
    grid: str = ""

    def text(self) -> str:
        """The kernel as MLIR."""
        constants = "\n    ".join(f"%c{n} = arith.constant {n} : index" for n in range(17))
        store = FLAT if self.flat else TILED.format(by=self.by)
        fields = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return TEXT.format(**fields | {"constants": constants, "store": store})


RIGHT = {
    "two groups": Turns(),
    "groups that everybody knows": Turns(start=KNOWN),
    "three groups": Turns(threads=16, computing=12, divided=3, pairs=3),
    "every iteration a tile of each": Turns(divided=1),
    "tiles left out": Turns(pairs=3),
    "places in a row": Turns(flat=True),
    "two blocks": Turns(grid=", known_grid_size = array<i32: 2, 1, 1>"),
}
WRONG = {
    "one tile for both groups": Turns(of_group=0),
    "every tile for both groups": Turns(divided=1, pairs=1),
    "the group counts twice": Turns(of_group=2),
    "tiles a block apart, whatever the grid": Turns(step="%c1"),
    "tiles of all blocks": Turns(block="%c0"),
    "more threads than the groups have": Turns(computing=12),
    "threads of both groups in a tile": Turns(reduced=8),
    "threads of half a group": Turns(reduced=2),
    "a column by another number": Turns(by="%width"),
    "one tile for both groups, in a row": Turns(flat=True, of_group=0),
    "tiles of all blocks, in a row": Turns(flat=True, block="%c0"),
}


def races(turns: Turns) -> bool:
    """Whether two threads store to one place, in grids of one to three blocks, whoever begins."""
    groups = -(-turns.computing // 4)
    starts = [*range(1 << groups)] if turns.start == LOADED else [1]
    return any(
        _races(turns, blocks, columns, width, [begins >> g & 1 for g in range(groups)])
        for blocks in ([2] if turns.grid else [1, 2, 3])
        for columns in (1, 2, 3)
        for width in ((2, 5) if turns.by == "%width" else (columns,))
        for begins in starts
    )


def _races(turns: Turns, blocks: int, columns: int, width: int, begins: list[int]) -> bool:
    owners: dict[tuple[int, int], tuple[int, int]] = {}
    for block in range(blocks):
        for thread in range(turns.computing):
            group, inside = thread // 4, thread % turns.reduced
            for n in range(len(range(block, 12, blocks))):
                if (n + begins[group]) % 2 == 0:
                    continue
                number = n // turns.divided * turns.pairs + group * turns.of_group
                tile = number * (blocks if turns.step == "%G" else 1)
                tile += block if turns.block == "%b" else 0
                place = (2 * (tile // columns) + inside // 2, 2 * (tile % width) + inside % 2)
                place = (0, 4 * tile + inside) if turns.flat else place
                if owners.setdefault(place, (block, thread)) != (block, thread):
                    return True
    return False


@pytest.mark.parametrize("name", RIGHT)
def test_tiles_in_turn_are_apart(name: str) -> None:
    checked = check_text(RIGHT[name].text())
    assert (checked.unsafe, checked.unknown) == (frozenset(), frozenset())
    assert not races(RIGHT[name])


@pytest.mark.parametrize("name", WRONG)
def test_tiles_that_two_threads_store_are_not_passed(name: str) -> None:
    checked = check_text(WRONG[name].text())
    assert checked.unsafe or checked.unknown
    assert races(WRONG[name])


@pytest.mark.parametrize("seed", range(20))
def test_what_the_places_say_is_never_passed(seed: int) -> None:
    draw = Random(seed)
    turns = Turns(
        computing=draw.choice((4, 8, 12)),
        reduced=draw.choice((4, 4, 4, 8)),
        divided=draw.randint(1, 3),
        pairs=draw.randint(1, 3),
        of_group=draw.choice((0, 1, 1, 1, 2)),
        step=draw.choice(("%G", "%G", "%G", "%c1")),
        block=draw.choice(("%b", "%b", "%b", "%c0")),
        by=draw.choice(("%columns", "%columns", "%width")),
        start=KNOWN if draw.random() < 0.1 else LOADED,
        flat=draw.random() < 0.3,
    )
    checked = check_text(turns.text())
    assert not races(turns) or checked.unsafe or checked.unknown


# -- the GEMM of two groups ------------------------------------------------------------------------

GEMM = HopperGemm(tile_m=64, tile_n=64, stages=2, roles="ping-pong", persistent=True)


@cache
def pipelined() -> str:
    """The kernel as the expander writes it."""
    with new_context():
        module = ir.Module.parse(GEMM.module())
        pipeline(module, check="none")
        return str(module)


def _set(op, operand: int, value: int) -> None:
    op.operands[operand] = constant(value, op.operands[operand].type, before(op), op.location)


def _times_blocks(module):
    """(2 * (count div 2) + group) * blocks"""
    blocks = ops(module, "gpu.grid_dim")[0].results[0]
    return next(op for op in ops(module, "arith.muli") if op.operands[1] == blocks)


def _both_begin(module) -> None:
    turns = next(op for op in ops(module, "scf.for") if len(op.results) == 4)
    turns.operands[5] = constant(1, turns.operands[5].type, before(turns), turns.location)


def _no_order(module) -> None:
    meetings = [op for op in ops(module, "nvvm.barrier") if constant_value(op.operands[1]) == 256]
    for op in [*meetings, *ops(module, "nvvm.barrier.arrive")]:
        op.erase()


MUTANTS: dict[str, Callable] = {
    "one tile for both groups": lambda module: _set(
        defining_op(_times_blocks(module).operands[0]), 1, 0
    ),
    "tiles a block apart": lambda module: _set(_times_blocks(module), 1, 1),
    "both groups begin": _both_begin,
    "no order": _no_order,
}


def test_the_gemm_of_two_groups_is_proven() -> None:
    with new_context():
        (found,) = check(ir.Module.parse(pipelined())).of("checks")
    assert (found.unsafe, found.unknown) == (0, 0) and found.accesses > 16


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_change_of_the_gemm_is_not_proven(mutant: str) -> None:
    with new_context():
        module = ir.Module.parse(pipelined())
        MUTANTS[mutant](module)
        assert module.operation.verify()
        (found,) = check(module).of("checks")
    assert found.unsafe or found.unknown
