"""Random annotated loops for the machine's property tests.

Each iteration copies rows of inputs into workgroup memory, may pass them through a second
buffer, and writes rows of outputs; threads read what other threads copied. A statement is
one copy, one scf.execute_region, one scf.if or one inner scf.for.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st

ROWS = 14
LARGEST_TRIPS = 9


@dataclass(frozen=True)
class Loop:
    """One program.

    `copies` are row offsets, one copied buffer each. `middle`: a statement between, from the
    copied buffers into one of its own. `sinks`: what the outputs are made by. `stages` and
    `order` have an entry for each statement; `async_stages` are stage numbers. `num_stages`
    takes their place if it is not 0. `target` is where the loop is going, None: not decided.
    """

    threads: int
    copies: tuple[int, ...]
    middle: bool
    sinks: tuple[str, ...]
    stages: tuple[int, ...]
    order: tuple[int, ...]
    async_stages: tuple[int, ...]
    trips: int
    dynamic: bool
    outer_trips: int
    num_stages: int
    target: str | None

    @property
    def traits(self) -> frozenset[str]:
        """What makes the loop interesting."""
        several = self.num_stages == 0 and len(self.async_stages) > 1
        found = {
            "two async stages": several,
            "if": "if" in self.sinks,
            "nested": self.outer_trips > 1 or "loop" in self.sinks,
            "dynamic": self.dynamic,
            "threads": self.threads > 1,
        }
        return frozenset(name for name, holds in found.items() if holds)

    def text(self, *, annotated: bool) -> str:
        """The module; without annotations it is what the pipelined one has to equal."""
        return _Writer(self).module(annotated)

    def arguments(self) -> list[np.ndarray | int]:
        """Inputs with small integers, outputs of -1, and the trip count if it is dynamic."""
        random = np.random.default_rng(7)
        shape = (ROWS, self.threads)
        inputs = [random.integers(0, 50, shape).astype(np.float32) for _ in self.copies]
        outputs = [np.full(shape, -1, np.float32) for _ in self.sinks]
        return [*inputs, *outputs, self.trips]


class _Writer:
    def __init__(self, loop: Loop) -> None:
        self.loop = loop
        self.row = f"memref<{ROWS}x{loop.threads}xf32>"
        self.shared = f"memref<{loop.threads}xf32, WG>"
        self.names = 0

    def name(self) -> str:
        self.names += 1
        return f"%v{self.names}"

    def module(self, annotated: bool) -> str:
        loop = self.loop
        inputs = [f"%in{n}: {self.row} {{llvm.noalias}}" for n in range(len(loop.copies))]
        outputs = [f"%out{n}: {self.row} {{llvm.noalias}}" for n in range(len(loop.sinks))]
        buffers = [f"%buf{n} = memref.alloc() : {self.shared}" for n in range(len(loop.copies))]
        buffers += [f"%mid = memref.alloc() : {self.shared}"] if loop.middle else []
        constants = [f"%c{n} = arith.constant {n} : index" for n in (0, 1, 2, 3, 4)]
        limit = "%n" if loop.dynamic else "%limit"
        lines = [
            f"func.func @f({', '.join([*inputs, *outputs, '%n: index'])}) attributes "
            f"{{known_block_size = array<i32: {loop.threads}, 1, 1>}} {{",
            *buffers,
            *constants,
            "%t = gpu.thread_id x",
            f"%last = arith.constant {loop.threads - 1} : index",
            "%other = arith.subi %last, %t : index",
            f"%limit = arith.constant {loop.trips} : index",
        ]
        if loop.outer_trips > 1:
            lines += [
                f"%outer = arith.constant {loop.outer_trips} : index",
                "scf.for %o = %c0 to %outer step %c1 {",
            ]
        lines += [
            f"scf.for %i = %c0 to {limit} step %c1 {{",
            *self.body(),
            "}" + self.annotation(annotated),
        ]
        lines += ["}"] if loop.outer_trips > 1 else []
        return "\n".join([*lines, "return", "}"])

    def annotation(self, annotated: bool) -> str:
        if not annotated:
            return ""
        loop = self.loop
        if loop.num_stages:
            return f" {{async_pipe.num_stages = {loop.num_stages} : i64}}"

        def array(name: str, values: tuple[int, ...]) -> str:
            return f"async_pipe.{name} = [{', '.join(map(str, values))}]"

        arrays = [array("stage", loop.stages), array("order", loop.order)]
        arrays += [array("async_stages", loop.async_stages)] if loop.async_stages else []
        return f" {{{', '.join(arrays)}}}"

    def body(self) -> list[str]:
        loop, lines, tokens = self.loop, [], []
        for number, offset in enumerate(loop.copies):
            at = self.name()
            token = self.name()
            tokens.append(token)
            lines += [
                f"{at} = arith.addi %i, %c{offset} : index",
                f"{token} = nvgpu.device_async_copy %in{number}[{at}, %t], %buf{number}[%t], 1 : "
                f"{self.row} to {self.shared}",
            ]
        lines += [
            f"%group = nvgpu.device_async_create_group {', '.join(tokens)}",
            "nvgpu.device_async_wait %group",
            "gpu.barrier",
        ]
        if loop.middle:
            lines += [
                "scf.execute_region no_inline {",
                *self.middle(),
                "scf.yield",
                "}",
                "gpu.barrier",
            ]
        for number, sink in enumerate(loop.sinks):
            lines += getattr(self, f"sink_{sink}")(f"%out{number}")
        return [*lines, "gpu.barrier"]

    def sum_of_copies(self, place: str) -> tuple[list[str], str]:
        lines, total = [], ""
        for number in range(len(self.loop.copies)):
            value = self.name()
            lines.append(f"{value} = memref.load %buf{number}[{place}] : {self.shared}")
            if total:
                summed = self.name()
                lines.append(f"{summed} = arith.addf {total}, {value} : f32")
                value = summed
            total = value
        return lines, total

    def middle(self) -> list[str]:
        lines, total = self.sum_of_copies("%other")
        return [*lines, f"memref.store {total}, %mid[%t] : {self.shared}"]

    def loaded(self) -> tuple[list[str], str]:
        if not self.loop.middle:
            return self.sum_of_copies("%other")
        value = self.name()
        return [f"{value} = memref.load %mid[%other] : {self.shared}"], value

    def sink_store(self, out: str) -> list[str]:
        lines, value = self.loaded()
        store = f"memref.store {value}, {out}[%i, %t] : {self.row}"
        return ["scf.execute_region no_inline {", *lines, store, "scf.yield", "}"]

    def sink_sum(self, out: str) -> list[str]:
        lines, value = self.loaded()
        old, new = self.name(), self.name()
        return [
            "scf.execute_region no_inline {",
            *lines,
            f"{old} = memref.load {out}[%c0, %t] : {self.row}",
            f"{new} = arith.addf {old}, {value} : f32",
            f"memref.store {new}, {out}[%c0, %t] : {self.row}",
            "scf.yield",
            "}",
        ]

    def sink_if(self, out: str) -> list[str]:
        lines, value = self.loaded()
        rest, odd = self.name(), self.name()
        return [
            f"{rest} = arith.remui %i, %c2 : index",
            f"{odd} = arith.cmpi eq, {rest}, %c1 : index",
            f"scf.if {odd} {{",
            *lines,
            f"memref.store {value}, {out}[%i, %t] : {self.row}",
            "}",
        ]

    def sink_loop(self, out: str) -> list[str]:
        lines, value = self.loaded()
        old, new, j = self.name(), self.name(), self.name()
        return [
            f"scf.for {j} = %c0 to %c3 step %c1 {{",
            *lines,
            f"{old} = memref.load {out}[{j}, %t] : {self.row}",
            f"{new} = arith.addf {old}, {value} : f32",
            f"memref.store {new}, {out}[{j}, %t] : {self.row}",
            "}",
        ]


@st.composite
def loops(draw: st.DrawFn) -> Loop:
    """Loops whose schedules are mostly legal: later statements are in the same stage or a
    later one, and inside a stage the order is textual. One in four has any order."""
    copies = tuple(draw(st.lists(st.integers(0, 4), min_size=1, max_size=2)))
    middle = draw(st.sampled_from([False, True, True]))
    sinks = tuple(
        draw(st.lists(st.sampled_from(["store", "sum", "if", "loop"]), min_size=1, max_size=2))
    )
    count = len(copies) + int(middle) + len(sinks)
    steps = [draw(st.sampled_from([0, 1, 1])) for _ in range(count - 1)]
    stages = tuple(min(3, sum(steps[:number])) for number in range(count))
    producers = stages[: len(copies) + int(middle)]
    everything, copied = set(producers), set(stages[: len(copies)])
    asynchronous = draw(st.sampled_from([everything] * 5 + [copied, set()]))
    positions = tuple(draw(st.permutations(range(count))))
    wild = draw(st.sampled_from([False, False, False, True]))
    return Loop(
        threads=draw(st.sampled_from([1, 4])),
        copies=copies,
        middle=middle,
        sinks=sinks,
        stages=stages,
        order=positions if wild else _order(positions, stages),
        async_stages=tuple(sorted(asynchronous)),
        trips=draw(st.integers(0, LARGEST_TRIPS)),
        dynamic=draw(st.sampled_from([False, True, True])),
        outer_trips=draw(st.sampled_from([1, 1, 1, 1, 2])),
        num_stages=draw(st.sampled_from([0] * 9 + [2, 3, 4])),
        target=draw(st.sampled_from([None, "nvvm:sm_80"])),
    )


def _order(wanted: tuple[int, ...], stages: tuple[int, ...]) -> tuple[int, ...]:
    """`wanted` positions, given to the statements of each stage in textual order."""
    order = [0] * len(stages)
    for stage in set(stages):
        members = [number for number, other in enumerate(stages) if other == stage]
        for number, position in zip(members, sorted(wanted[n] for n in members), strict=True):
            order[number] = position
    return tuple(order)
