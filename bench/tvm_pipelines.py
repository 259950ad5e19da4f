"""Annotated loops as TVM writes them: RFC 0077's examples, and any program of the property tests.

A block is one statement of the RFC; its text is what stands after `with T.sblock(...)`:

    Pipeline("two_stages", ("A 16", "C 16"), ("B 1",), ("B[0] = A[i] + one", "C[i] = B[0] + one"),
             stage=(0, 1), async_stages=(0,))

Reads and writes of a block are left to TVM, which finds them in the text.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from helpers.pipeline_programs import LENGTH, Access, Program, Schedule

MODULE = """
@T.prim_func(private=True, s_tir=True)
def {name}({parameters}):
    with T.sblock("root"):
        one = T.meta_var(T.{dtype}(1))
{loops}
"""
LOOP = """        for i in T.serial(0, {trips}, annotations={{{annotations}}}):
            with T.sblock("loop"):
{allocations}
{blocks}
"""


@dataclass(frozen=True)
class Pipeline:
    """A loop over `i` of `blocks`, each a few assignments with `;` between them.

    `arguments` and `local` name buffers with their extents ("A 128x2"). A block of `guarded`
    runs only where i < n, an argument of the function. `order` is by default the textual one.
    """

    name: str
    arguments: tuple[str, ...]
    local: tuple[str, ...]
    blocks: tuple[str, ...]
    stage: tuple[int, ...]
    order: tuple[int, ...] = ()
    async_stages: tuple[int, ...] = ()
    guarded: tuple[int, ...] = ()
    trips: int = 16
    dtype: str = "float32"

    def function(self, name: str = "f", loops: int = 1) -> str:
        """The TVMScript of a function with the loop `loops` times, each with buffers of its own."""
        parameters = [f"{n}: {self._buffer('T.Buffer', e)}" for n, e in split(self.arguments)]
        parameters += ["n: T.int32"] if self.guarded else []
        return MODULE.format(
            name=name,
            parameters=", ".join(parameters),
            dtype=self.dtype,
            loops="".join(self._loop() for _ in range(loops)),
        )

    def _loop(self) -> str:
        listed = {
            "stage": self.stage,
            "order": self.order or tuple(range(len(self.blocks))),
            "async_stages": self.async_stages,
        }
        keys = [f'"software_pipeline_{key}": {list(value)}' for key, value in listed.items()]
        indent = " " * 16
        allocations = [
            f"{indent}{name} = {self._buffer('T.sblock_alloc_buffer', extents)}"
            for name, extents in split(self.local)
        ]
        blocks = []
        for number, text in enumerate(self.blocks):
            blocks.append(f'{indent}with T.sblock("block{number}"):')
            guard = ["T.where(i < n)"] if number in self.guarded else []
            lines = [line.strip() for line in text.split(";")]
            blocks += [f"{indent}    {line}" for line in guard]
            # TVM takes a block of several statements apart, unless a loop holds them together.
            held = len(lines) > 1
            blocks += [f"{indent}    for _ in T.serial(1):"] if held else []
            blocks += [f"{indent}    {'    ' if held else ''}{line}" for line in lines]
        return LOOP.format(
            trips=self.trips,
            annotations=", ".join(keys),
            allocations="\n".join(allocations),
            blocks="\n".join(blocks),
        )

    def _buffer(self, function: str, extents: tuple[int, ...]) -> str:
        shape = ", ".join(map(str, extents))
        return f'{function}(({shape},), "{self.dtype}")'


def parsed(functions: Iterable[str]) -> Any:
    """The IRModule of a few functions in TVMScript."""
    import tvm
    from tvm.script import tirx

    names = {"T": tirx}
    found = [tvm.script.from_source(function, names) for function in functions]
    return tvm.IRModule({f"f{number}": function for number, function in enumerate(found)})


def inject_seconds(module: Any) -> float:
    """Processor seconds of InjectSoftwarePipeline alone."""
    from tvm import s_tir

    inject = s_tir.transform.InjectSoftwarePipeline()
    gc.collect()
    start = time.process_time()
    inject(module)
    return time.process_time() - start


def split(buffers: tuple[str, ...]) -> list[tuple[str, tuple[int, ...]]]:
    """Name and extents of each buffer of `A 128x2`."""
    pairs = [buffer.split() for buffer in buffers]
    return [(name, tuple(map(int, extents.split("x")))) for name, extents in pairs]


TWO_STAGES = Pipeline(
    "two_stages_async",
    ("A 16", "C 16"),
    ("B 1",),
    ("B[0] = A[i] + one", "C[i] = B[0] + one"),
    stage=(0, 1),
    async_stages=(0,),
)
THREE_STAGES = Pipeline(
    "textual_order",
    ("A 16", "D 16"),
    ("B 1", "C 1"),
    ("B[0] = A[i] + one", "C[0] = B[0] + one", "D[i] = C[0] + one"),
    stage=(0, 1, 2),
    async_stages=(0, 1),
)


def _copies(name: str, order: tuple[int, ...]) -> Pipeline:
    """Two copies three steps ahead of their product."""
    return Pipeline(
        name,
        ("A 16", "B 16", "C 16"),
        ("A_near 1", "B_near 1"),
        ("A_near[0] = A[i]", "B_near[0] = B[i]", "C[i] = A_near[0] * B_near[0]"),
        stage=(0, 0, 3),
        order=order,
        async_stages=(0,),
    )


def _tiles(name: str, stage: tuple[int, ...]) -> Pipeline:
    """The outer loop of the nested pipeline, with tiles of two elements."""
    return Pipeline(
        name,
        ("A 128x2", "B 128x2", "C 128x2"),
        ("A_shared 2", "B_shared 2", "A_local 2", "B_local 2"),
        (
            "A_shared[0] = A[i, 0]; A_shared[1] = A[i, 1]",
            "B_shared[0] = B[i, 0]; B_shared[1] = B[i, 1]",
            "A_local[0] = A_shared[0]; B_local[0] = B_shared[0]",
            "A_local[1] = A_shared[1]; B_local[1] = B_shared[1]; C[i, 0] = A_local[0] * B_local[0]",
            "C[i, 1] = A_local[1] * B_local[1]",
        ),
        stage=stage,
        order=(0, 1, 3, 2, 4),
        async_stages=(0,),
        trips=128,
    )


RFC_EXAMPLES = {
    "two-stages-sync": (
        Pipeline(
            "two_stages_sync",
            ("A 16", "C 16"),
            ("B 1",),
            ("B[0] = A[i] + one", "C[i] = B[0] + one"),
            stage=(0, 1),
        ),
    ),
    "two-stages-async": (TWO_STAGES,),
    "three-stages-two-async": (
        THREE_STAGES,
        Pipeline(
            "last_stage_first",
            THREE_STAGES.arguments,
            THREE_STAGES.local,
            THREE_STAGES.blocks,
            stage=(0, 1, 2),
            order=(1, 2, 0),
            async_stages=(0, 1),
        ),
    ),
    "commit-groups": (_copies("grouped", (0, 1, 2)), _copies("interleaved", (0, 2, 1))),
    "nested-outer-loop": (_tiles("outer_loop", (0, 0, 2, 3, 3)),),
    "same-stage": (_tiles("by_stage", (0, 0, 0, 3, 3)),),
    "predicated-producers": (
        Pipeline(
            "scope",
            ("A 16", "C 16"),
            ("B 1",),
            ("B[0] = A[i]", "C[i] = B[0]"),
            stage=(0, 2),
            async_stages=(0,),
            guarded=(0, 1),
        ),
        Pipeline(
            "in_the_epilogue",
            ("A 16", "C 16"),
            ("B 1", "D 1"),
            ("B[0] = A[i]", "D[0] = B[0] + one", "C[i] = D[0]"),
            stage=(0, 1, 2),
            async_stages=(0, 1),
            guarded=(1, 2),
        ),
    ),
}
"""By the file of `lit-tests/rfc-0077`, the functions of that file that TVM's annotations can say,
under the same names. Stages and order are one entry a block, as in the RFC."""


def of_program(program: Program, schedule: Schedule, trips: int) -> Pipeline:
    """A program of `helpers.pipeline_programs`: target = 3 source + 5 source + … + constant."""

    def element(access: Access) -> str:
        return f"{access.buffer}[{0 if access.offset is None else f'i + {access.offset}'}]"

    blocks = []
    for number, statement in enumerate(program.statements):
        terms = [f"T.int64({number + 1})"]
        for position, source in enumerate(statement.sources):
            terms.append(f"{element(source)} * T.int64({3 + 2 * position})")
        blocks.append(f"{element(statement.target)} = {' + '.join(terms)}")
    return Pipeline(
        "f",
        tuple(f"{name} {LENGTH}" for name in program.arrays),
        tuple(f"{name} 1" for name in program.local),
        tuple(blocks),
        schedule.stage,
        schedule.order,
        schedule.async_stages,
        trips=trips,
        dtype="int64",
    )
