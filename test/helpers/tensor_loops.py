"""Loops of tensor copies as a front end writes them: one slot, one mbarrier, nothing overlaps.

`TensorLoop` is one such loop as data; `random_loop(seed)` picks one. Each iteration copies boxes of
its tensors, waits, and uses them: by generic loads, which add up the elements of all boxes (row t
of the output is tile t, its elements mirrored), or by products of a warpgroup.
"""

from __future__ import annotations

import random
import re
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from helpers import ldmatrix_loops
from helpers.descriptor_loops import arrays_of, columns_of, expected_of, random_operands
from helpers.descriptor_products import NUMPY
from helpers.machine_programs import parse
from helpers.stored_loops import stored_text
from helpers.tensor_loop_text import SWIZZLES, text_of
from mlir_async_pipe import machine, pipeline


@dataclass(frozen=True)
class Box:
    """What one copy moves: rows x columns of f32 (f16 in products), and how they are permuted.
    `types` and `by_k`: of an operand by descriptors, whose columns are k or M or N."""

    rows: int
    columns: int
    swizzle: str = "none"
    transaction: int = 0
    types: str = ""
    by_k: bool = True

    @property
    def shape(self) -> str:
        """As a memref has it."""
        return f"{self.rows}x{self.columns}"


@dataclass(frozen=True)
class TensorLoop:
    """`stages`, `in_flight`, `issue` and `roles` are its annotations ("" and None: not given).

    `trips` iterations from `lower` by `step`, their number known to the compiler or not; the loop
    runs `executions` times, those where `executed` says so. `skip`: every so many iterations
    announce no bytes and copy nothing. `branch`: the issuing thread takes a branch. `carried`: the column is carried instead of computed.
    `outside`: columns of the last boxes that lie outside of the tensor. `reader`: loads, products by
    nvgpu's op, or descriptors (nvvm's), which add up in `sums`, or matrices (ldmatrix, mma.sync).
    `stored`: what loads add up goes out by TMA, "each" iteration or "after" the loop.
    """

    boxes: tuple[Box, ...]
    stages: int = 3
    in_flight: int | None = None
    issue: str = ""
    trips: int = 4
    lower: int = 0
    step: int = 1
    static: bool = False
    executions: int = 1
    executed: str = "all"
    skip: int = 0
    carried: bool = False
    outside: int = 0
    reader: str = "loads"
    fenced: bool = True
    leader: str = "index"
    memory: str = "alloc"
    branch: bool = False
    sums: str = "f32"
    roles: str = ""
    stored: str = ""

    @property
    def threads(self) -> int:
        """Of the block."""
        return 64 if self.reader in ("loads", "matrices") else 128

    @property
    def runs(self) -> list[int]:
        """The executions in which the loop runs."""
        odd = self.executed == "odd"
        return [e for e in range(self.executions) if not odd or e % 2]

    @property
    def tiles(self) -> int:
        """Tiles of all executions, those of skipped ones too."""
        return self.executions * self.trips

    def text(self) -> str:
        """The annotated module."""
        return stored_text(self) if self.stored else text_of(self)

    def arguments(self) -> list[Any]:
        """An array for each box, and the output; the trip count where it is not known."""
        numbers = np.random.default_rng(len(self.boxes))
        kind = np.float16 if self.reader in ("products", "matrices") else np.float32
        counts = [] if self.static else [self.lower + self.trips * self.step]
        if self.reader == "descriptors":
            out = np.zeros(self.output, NUMPY[self.sums])
            return [*arrays_of(self), out, *counts]
        arrays = [
            numbers.integers(-3, 4, (box.rows, max(1, self.tiles * box.columns - self.outside)))
            for box in self.boxes
        ]
        if self.reader == "products":
            arrays[1] = numbers.integers(-3, 4, (max(1, self.tiles * 64 - self.outside), 64))
        out = np.zeros(self.output, np.float32)
        if self.stored:
            # Of a map of one dimension.
            out = out.reshape(-1)
        return [*(np.ascontiguousarray(array, kind) for array in arrays), out, *counts]

    @property
    def output(self) -> tuple[int, int]:
        """The rows and columns of the output."""
        if self.reader == "products":
            return max(1, self.executions) * 64, 64
        if self.reader == "descriptors":
            return max(1, self.executions) * 128, columns_of(self) // 2
        if self.reader == "matrices":
            return max(1, self.executions) * ldmatrix_loops.ROWS, ldmatrix_loops.COLUMNS
        rows = self.executions if self.stored == "after" else self.tiles
        return max(1, rows), self.threads

    def expected(self, arguments: list[Any]) -> Any:
        """The output, by NumPy."""
        if self.reader == "products":
            return self._products(*arguments[:2])
        if self.reader == "descriptors":
            return expected_of(self)
        if self.reader == "matrices":
            return ldmatrix_loops.expected_of(self, *arguments[:2])
        out = np.zeros(self.output, np.float32)
        for e in self.runs:
            for i in range(self.trips):
                if not (self.skip and i % self.skip == self.skip - 1):
                    row = e if self.stored == "after" else e * self.trips + i
                    out[row] += self._row(e * self.trips + i, arguments)
        return out

    def _row(self, tile: int, arguments: list[Any]) -> Any:
        row = np.zeros(self.threads, np.float32)
        for box, array in zip(self.boxes, arguments, strict=False):
            held = np.zeros((box.rows, box.columns), np.float32)
            part = array[:, tile * box.columns : (tile + 1) * box.columns]
            held[:, : part.shape[1]] = part
            row += _folded(held.reshape(-1)[::-1], self.threads)
        return row

    def _products(self, a: Any, b: Any) -> Any:
        out = np.zeros(self.output, np.float32)
        left, right = a.astype(np.float32), b.astype(np.float32)
        step = self.trips * 64
        for e in self.runs:
            k = slice(e * step, min((e + 1) * step, left.shape[1]))
            rows = slice(e * step, min((e + 1) * step, right.shape[0]))
            out[e * 64 : (e + 1) * 64] = left[:, k] @ right[rows]
        return out

    def right(
        self,
        module: Any,
        completion: str,
        schedule: str = "lockstep",
        arguments: list[Any] | None = None,
    ) -> str:
        """Run a form of the loop: "" if the output is NumPy's and nothing raced, else why not."""
        expected = self.expected(self.arguments())
        arguments = self.arguments() if arguments is None else arguments
        # A pipeline may have added threads.
        threads = int(_BLOCK.search(str(module))[1])
        result = machine.run(
            module, None, arguments, threads=threads, completion=completion, schedule=schedule
        )
        if result.race_codes:
            return f"{completion}: {sorted(set(result.race_codes))}"
        out = result.arrays[len(self.boxes)]
        return (
            ""
            if np.array_equal(out.reshape(expected.shape), expected)
            else f"{completion}: another result"
        )

    def module(self) -> Any:
        """The annotated module, parsed."""
        return parse(self.text())


def _folded(flat: Any, threads: int) -> Any:
    """Thread t adds up elements t, t + threads, …"""
    whole = np.zeros(-(-len(flat) // threads) * threads, np.float32)
    whole[: len(flat)] = flat
    return whole.reshape(-1, threads).sum(axis=0)


_BLOCK = re.compile(r"known_block_size = array<i32: (\d+)")


def random_loop(seed: int) -> TensorLoop:
    """A loop of loads, of matrices or of loads whose rows are stored by TMA, or (one in four each) of
    products by nvgpu's op or by descriptors; half of those whose copies thread 0
    issues let warps of their own issue them, and half of these that can let two groups take the executions, of
    which there are two or more then, in turn."""
    loop = _drawn(seed)
    draw = random.Random(f"roles {seed}")
    apart = loop.leader != "lane" and draw.random() < 0.5
    loop = replace(loop, roles="specialised") if apart else loop
    if loop.reader == "loads":
        loop = _drawn_otherwise(loop, random.Random(f"otherwise {seed}"))
    if not apart or loop.reader == "products" or loop.stored or draw.random() < 0.5:
        return loop
    several = max(loop.executions, draw.choice((2, 3)))
    return replace(loop, roles="ping-pong", executions=several, executed="all")


def _drawn_otherwise(loop: TensorLoop, pick: random.Random) -> TensorLoop:
    """One in three loops of loads by ldmatrix, one whose rows go out by TMA."""
    way = pick.choice(["loads", "matrices", "stored"])
    if way == "matrices":
        columns, swizzle = pick.choice(
            [
                (16, "none"),
                (64, "none"),
                (16, "swizzle_32b"),
                (32, "swizzle_64b"),
                (64, "swizzle_128b"),
            ]
        )
        split = pick.choice([0, 0, 1])
        boxes = (Box(32, columns, swizzle), Box(8, columns, swizzle, split))
        return replace(loop, boxes=boxes, reader="matrices", skip=0, outside=pick.choice([0, 8]))
    if way == "stored":
        stored = pick.choice(["each", "after"]) if loop.executions > 1 else "each"
        return replace(loop, stored=stored, skip=0)
    return loop


def _drawn(seed: int) -> TensorLoop:
    pick = random.Random(seed)
    stages = pick.randint(2, 5)
    issue = pick.choice(["", "", "first", "last"])
    trips = pick.randint(0, 3 * (stages + 1))
    executions = pick.choice([1, 1, 2, 3])
    common: dict[str, Any] = {
        "stages": stages,
        "issue": issue,
        "trips": trips,
        "lower": pick.choice([0, 0, 3]),
        "step": pick.choice([1, 1, 2, 64]),
        "static": pick.random() < 0.4,
        "executions": executions,
        "executed": pick.choice(["all", "odd"]) if executions > 1 else "all",
        "carried": pick.random() < 0.3,
        "outside": pick.choice([0, 0, 4, 8]),
        "fenced": pick.random() < 0.5,
        "leader": pick.choice(["index", "i32", "lane"]),
        "memory": pick.choice(["alloc", "global"]),
        "branch": pick.random() < 0.3,
    }
    if pick.random() < 0.25:
        split = pick.random() < 0.3
        boxes = tuple(Box(64, 64, "swizzle_128b", n if split else 0) for n in range(2))
        in_flight = pick.choice([None, None, 0, 1, 2])
        # A row of B^T must be a multiple of 16 bytes.
        common["outside"] = pick.choice([0, 8])
        return TensorLoop(boxes, reader="products", in_flight=in_flight, **common)
    if pick.random() < 0.33:
        sums, drawn, size = random_operands(pick)
        split = pick.random() < 0.3
        boxes = tuple(Box(**box, transaction=n if split else 0) for n, box in enumerate(drawn))
        in_flight = pick.choice([None, None, 0, 1, 2])
        common["outside"] = pick.choice([0, 16 // size])
        return TensorLoop(boxes, reader="descriptors", in_flight=in_flight, sums=sums, **common)
    boxes = tuple(_random_box(pick) for _ in range(pick.randint(1, 3)))
    skip = pick.choice([0, 0, 0, 2, 3])
    return TensorLoop(boxes, skip=skip, **common)


def _random_box(pick: random.Random) -> Box:
    swizzle = pick.choice(list(SWIZZLES))
    columns = (SWIZZLES[swizzle] or pick.choice([16, 64, 128])) // 4
    return Box(pick.choice([1, 2, 4, 8, 16]), columns, swizzle, pick.choice([0, 0, 1]))


def judge(loop: TensorLoop) -> list[str]:
    """What is wrong with the pipelined form of a loop, of which the input is right, for the
    machine or for the checker."""
    found = [loop.right(loop.module(), "eager")] if loop.fenced else []
    module = loop.module()
    report = pipeline(module, check="warn")
    if loop.stored and not report.of("stores"):
        found.append("its stores are waited for")
    found += ["the checker calls it unsafe" for check in report.of("checks") if check.unsafe]
    schedules = machine.SCHEDULES if loop.roles else ("lockstep",)
    found += [
        loop.right(module, completion, schedule)
        for completion in machine.COMPLETIONS
        for schedule in schedules
    ]
    return [f"{loop}: {why}" for why in found if why]
