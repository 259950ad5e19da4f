"""Loops whose statements say how long they take, for the tests of the modulo scheduler.

Each iteration copies rows into workgroup memory, reads them back from the thread opposite,
and writes rows of outputs; some have a recurrence, some a second buffer that is written
synchronously. `costs` has one number of cycles a statement, copies first.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

import numpy as np

from helpers.gemm_kernels import gemm_text

ROWS = 80


@dataclass(frozen=True)
class LatencyLoop:
    """One program.

    `copies`: their latencies. `loads`: for each load the number of the copied buffer that it
    reads, and its cycles. `stores`: for each store the loads that it sums up, and its cycles.
    `barrier_cycles` and `shared` decide whether threads share the buffers; `recurrence`: the
    first store adds what it stored `recurrence` rows before (0: it does not).
    """

    copies: tuple[int, ...]
    loads: tuple[tuple[int, int], ...]
    stores: tuple[tuple[tuple[int, ...], int], ...]
    threads: int = 4
    barriers: bool = True
    recurrence: int = 0
    trips: int = 48

    @property
    def statements(self) -> int:
        """How many statements the loop has."""
        recurring = 1 if self.recurrence else 0
        return len(self.copies) + len(self.loads) + len(self.stores) + recurring

    def text(self, request: str) -> str:
        """The module; `request` is "latency" (schedule it), a number of stages, or "" (as it is)."""
        cost = "latency" if request == "latency" else "cycles"
        row = f"memref<{ROWS}x{self.threads}xf32>"
        shared = f"memref<{self.threads}xf32, #gpu.address_space<workgroup>>"
        inputs = [f"%in{n}: {row} {{llvm.noalias}}" for n in range(len(self.copies))]
        outputs = [f"%out{n}: {row} {{llvm.noalias}}" for n in range(len(self.stores))]
        lines = [
            f"func.func @f({', '.join([*inputs, *outputs])}) attributes "
            f"{{known_block_size = array<i32: {self.threads}, 1, 1>}} {{",
            *(f"%buf{n} = memref.alloc() : {shared}" for n in range(len(self.copies))),
            "%c0 = arith.constant 0 : index",
            "%c1 = arith.constant 1 : index",
            f"%back = arith.constant {max(self.recurrence, 1)} : index",
            f"%first = arith.constant {self.first} : index",
            f"%limit = arith.constant {self.first + self.trips} : index",
            "%t = gpu.thread_id x",
            f"%last = arith.constant {self.threads - 1} : index",
            "%other = arith.subi %last, %t : index",
            "scf.for %i = %first to %limit step %c1 {",
        ]
        read_at = "%other" if self.barriers else "%t"
        for number, cycles in enumerate(self.copies):
            lines.append(
                f"%token{number} = nvgpu.device_async_copy %in{number}[%i, %t], %buf{number}[%t], "
                f"1 {{async_pipe.{cost} = {cycles} : i64}} : {row} to {shared}"
            )
        tokens = ", ".join(f"%token{n}" for n in range(len(self.copies)))
        lines += [f"%group = nvgpu.device_async_create_group {tokens}"]
        lines += ["nvgpu.device_async_wait %group"]
        lines += ["gpu.barrier"] if self.barriers else []
        for number, (buffer, cycles) in enumerate(self.loads):
            lines.append(
                f"%v{number} = memref.load %buf{buffer}[{read_at}] "
                f"{{async_pipe.{cost} = {cycles} : i64}} : {shared}"
            )
        for number, (sources, cycles) in enumerate(self.stores):
            value = f"%v{sources[0]}"
            for source in sources[1:]:
                lines.append(f"%s{number}_{source} = arith.addf {value}, %v{source} : f32")
                value = f"%s{number}_{source}"
            if number == 0 and self.recurrence:
                lines += [
                    "%before = arith.subi %i, %back : index",
                    f"%old = memref.load %out0[%before, %t] "
                    f"{{async_pipe.{cost} = 10 : i64}} : {row}",
                    f"%new = arith.addf {value}, %old : f32",
                ]
                value = "%new"
            lines.append(
                f"memref.store {value}, %out{number}[%i, %t] "
                f"{{async_pipe.{cost} = {cycles} : i64}} : {row}"
            )
        lines += ["gpu.barrier"] if self.barriers else []
        end = f" {{async_pipe.num_stages = {request} : i64}}" if request.isdigit() else ""
        return "\n".join([*lines, "}" + end, "return", "}"])

    @property
    def first(self) -> int:
        """The first row."""
        return self.recurrence

    def arguments(self) -> list[np.ndarray]:
        """Inputs with small integers, outputs of -1."""
        random = np.random.default_rng(7)
        shape = (ROWS, self.threads)
        inputs = [random.integers(0, 50, shape).astype(np.float32) for _ in self.copies]
        return [*inputs, *(np.full(shape, -1, np.float32) for _ in self.stores)]

    def expected(self) -> list[np.ndarray]:
        """What NumPy says of the outputs."""
        (*arrays,) = self.arguments()
        inputs, outputs = arrays[: len(self.copies)], arrays[len(self.copies) :]
        for i in range(self.first, self.first + self.trips):
            rows = [inputs[buffer][i] for buffer, _ in self.loads]
            values = [row[::-1] if self.barriers else row for row in rows]
            for number, (sources, _) in enumerate(self.stores):
                total = sum(values[source] for source in sources)
                if number == 0 and self.recurrence:
                    total = total + outputs[0][i - self.recurrence]
                outputs[number][i] = total
        return outputs


COPY_COMPUTE = LatencyLoop((500,), ((0, 20),), (((0,), 280),))


TWO_LATENCIES = LatencyLoop((900, 100), ((0, 20), (1, 20)), (((0, 1), 160),))


RECURRENT = LatencyLoop((500,), ((0, 20),), (((0,), 60),), recurrence=1)


ONE_THREAD = LatencyLoop((300, 300), ((0, 5), (1, 5)), (((0, 1), 90),), threads=1, barriers=False)


@functools.cache
def gemm_with_latency(latency: int) -> str:
    """The example GEMM with a latency on each copy instead of a number of stages."""
    text = re.sub(r" \{async_pipe.num_stages = \d+ : i64\}", "", gemm_text())
    return text.replace("{bypassL1}", f"{{bypassL1, async_pipe.latency = {latency} : i64}}")
