"""The kernels that are broken on purpose: examples, IREE's dispatches, rings, random ones.

`share` says how many mutants a kernel gives: 1 is all that are asked for, 0.1 a tenth, for
kernels with many threads or long loops.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from random import Random
from typing import Any

from helpers import ring_kernels
from helpers.machine_loops import Loop
from helpers.machine_programs import WORKGROUP
from helpers.paths import ROOT
from helpers.random_async_kernels import random_kernel
from helpers.random_pipelines import FEATURES, Program, program
from helpers.random_thread_kernels import thread_kernel
from mlir_async_pipe import api
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError

EXAMPLES = ROOT / "examples"
SLOW = {"gemm_carried_tokens": 0.3, "gemm_prologue": 0.3, "gemm_tile": 0.3, "gemm_two_slots": 0.3}
PIPELINED = {"add_one": 0.5, "small_kernels": 1.0, "attention_tile": 0.2, "gemm": 0.1}


@dataclass(frozen=True)
class Kernel:
    """One kernel. `right` is None where nobody knows whether it is right. Without `arguments`
    it is run with all small trip counts and conditions."""

    name: str
    text: str
    target: str | None
    share: float = 1.0
    right: bool | None = True
    arguments: tuple[Any, ...] | None = None


def pipelined(text: str, target: str | None) -> str | None:
    """What the pipeline makes of a module, None if it refuses."""
    with new_context():
        module = ir.Module.parse(text)
        try:
            api.pipeline(module, target=target)
        except AsyncPipeError:
            return None
        return str(module)


def handwritten() -> Iterator[Kernel]:
    """Examples that somebody wrote by hand."""
    for path in sorted((EXAMPLES / "handwritten").glob("*.mlir")):
        target = "rocdl:gfx950" if path.name.startswith("amd") else "nvvm:sm_80"
        yield Kernel(path.stem, path.read_text(), target, SLOW.get(path.stem, 1.0))


def fixed() -> Iterator[Kernel]:
    """Examples, dispatches and rings."""
    yield from handwritten()
    for name, share in PIPELINED.items():
        text = pipelined((EXAMPLES / f"{name}.mlir").read_text(), "nvvm:sm_80")
        assert text is not None
        yield Kernel(f"pipelined {name}", text, "nvvm:sm_80", share)
    for path in sorted((EXAMPLES / "iree" / "kernels").glob("*.mlir")):
        chip = path.stem[:5] if path.stem.startswith("sm_") else path.stem.split("_")[0]
        target = f"{'nvvm' if chip.startswith('sm') else 'rocdl'}:{chip}"
        yield Kernel(f"iree {path.stem}", path.read_text(), target, 0.05)
    for ring in list(ring_kernels.family())[::3]:
        yield Kernel(str(ring), ring_kernels.text(ring), ring.target, 0.5)


def random_kernels(seed: int) -> Iterator[Kernel]:
    """Without end: kernels that are right or wrong by chance, and pipelined ones."""
    number = seed
    while True:
        text = random_kernel(number, threads=number % 4 != 0)
        yield Kernel(f"random kernel {number}", text, "nvvm:sm_80", right=None)
        yield Kernel(f"threads {number}", thread_kernel(number).text, "nvvm:sm_80", right=None)
        loop = random_loop(Random(number))
        text = loop.text(annotated=True).replace("WG", WORKGROUP)
        yield Kernel(f"loop {number}", text, "nvvm:sm_80")
        made = pipelined(text, "nvvm:sm_80")
        if made is not None:
            yield Kernel(f"pipelined loop {number}", made, "nvvm:sm_80")
        for feature in list(FEATURES)[number % 4 :: 4]:
            yield from _pipelines(program(number, feature))
        number += 1


def mixed(known: Iterator[Kernel], others: Iterator[Kernel]) -> Iterator[Kernel]:
    """One of the first, two of the others, and so on: a short report sees all kinds of kernels."""
    for kernel in known:
        yield kernel
        yield from islice(others, 2)
    yield from others


def _pipelines(found: Program) -> Iterator[Kernel]:
    """A random annotated kernel, and what the pipeline makes of it."""
    arguments = tuple(found.arguments())
    yield Kernel(found.name, found.text, found.target, 0.3, arguments=arguments)
    made = pipelined(found.text, found.target)
    if made is not None:
        yield Kernel(f"pipelined {found.name}", made, found.target, arguments=arguments)


def random_loop(random: Random) -> Loop:
    """A loop of test/helpers/machine_loops.py from a seed, mostly with a legal schedule."""
    copies = tuple(random.randrange(5) for _ in range(random.choice((1, 2))))
    middle = random.random() < 0.5
    kinds = ("store", "sum", "if", "loop")
    sinks = tuple(random.choice(kinds) for _ in range(random.choice((1, 2))))
    count = len(copies) + int(middle) + len(sinks)
    stages = [0]
    for _ in range(count - 1):
        stages.append(min(3, stages[-1] + random.choice((0, 1, 1))))
    return Loop(
        threads=4,
        copies=copies,
        middle=middle,
        sinks=sinks,
        stages=tuple(stages),
        order=tuple(range(count)),
        async_stages=tuple(sorted(set(stages[: len(copies)]))),
        trips=random.randrange(6),
        dynamic=random.random() < 0.7,
        outer_trips=random.choice((1, 1, 1, 2)),
        num_stages=random.choice((0, 0, 2, 3)),
        target="nvvm:sm_80",
    )
