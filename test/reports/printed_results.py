"""Prints what `async-pipe` makes of every example, lit input and some random programs.

    python test/reports/printed_results.py FOLDER [--programs 500] [--jobs 2]

One file an input in FOLDER: the module that comes out, or the error, and after it the diagnostics.
Run in two checkouts, `diff -r` of the two folders shows what a change did to the results.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.paths import ROOT
from helpers.random_pipelines import FEATURES, program
from mlir_async_pipe import pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError

FOLDERS = ("examples", "lit-tests")
TARGETS = ("nvvm:sm_80", "rocdl:gfx950")


@dataclass(frozen=True)
class Input:
    """One module, a target (None: not decided) and the options of the pass."""

    name: str
    text: str
    target: str | None
    options: dict[str, Any]


def inputs(programs: int) -> Iterator[Input]:
    """Every module of the examples and lit tests for both vendors, and the random programs."""
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.mlir")):
            name = str(path.relative_to(ROOT)).replace("/", ".")
            for number, text in enumerate(path.read_text().split("// -----")):
                for target in TARGETS:
                    vendor = target.partition(":")[0]
                    yield Input(f"{name}.{number}.{vendor}", text, target, {})
    for number in range(programs):
        feature = sorted(FEATURES)[number % len(FEATURES)]
        one = program(number // len(FEATURES), feature)
        yield Input(f"random.{feature}.{one.seed}", one.text, one.target, one.options)


def result(given: Input) -> str:
    """What is printed for one input."""
    with new_context() as context:
        context.allow_unregistered_dialects = True
        try:
            module = ir.Module.parse(given.text)
        except ir.MLIRError as error:
            return f"does not parse: {error}\n"
        try:
            report = pipeline(module, given.target, check="warn", **given.options)
        except AsyncPipeError as error:
            return f"{error}\n"
        reported = "\n".join(map(str, report.diagnostics))
        return f"{module}\n{reported}\n"


def keep(given: Input, folder: str) -> None:
    """Write the result of one input to its file."""
    (Path(folder) / given.name).write_text(result(given))


def main() -> None:
    """Every input, in processes of their own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--programs", type=int, default=500)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    everything = list(inputs(arguments.programs))
    with ProcessPoolExecutor(arguments.jobs) as pool:
        folders = [str(arguments.folder)] * len(everything)
        list(pool.map(keep, everything, folders, chunksize=8))
    print(f"{len(everything)} results in {arguments.folder}")


if __name__ == "__main__":
    main()
