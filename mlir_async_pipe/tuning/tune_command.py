"""The command `async-pipe-tune`.

    async-pipe-tune gemm.mlir --target=nvvm:sm_80 --space num_stages=2,3,4 issue=first,spread
    async-pipe-tune gemm.py --target=nvvm:sm_80 --space num_stages=2,3 tile_k=32,64 --csv=found.csv

A Python file defines `build(…)`, which makes the annotated module, and may define `inputs(…)`,
`work(…)` and `cost(outcome)`: see `mlir_async_pipe.tuning.tune`.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlir_async_pipe.session.diagnostics import AsyncPipeError, UsageError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; returns the exit code: 1 if no candidate has code, or for bad usage."""
    options = _parser().parse_args(arguments)
    try:
        return _tune(options)
    except AsyncPipeError as error:
        print(f"async-pipe-tune: {error}", file=sys.stderr)
        return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("async-pipe-tune", description="Try versions of one kernel.")
    parser.add_argument("kernel", type=Path, help="annotated .mlir, or .py that defines build()")
    parser.add_argument("--target", required=True, help="nvvm:CHIP or rocdl:CHIP")
    space = "parameters of build() and options of pipeline, with their values"
    parser.add_argument("--space", nargs="+", required=True, metavar="NAME=V,V…", help=space)
    parser.add_argument("--jobs", type=int, help="processes (default: one a processor)")
    parser.add_argument("--keep", type=int, help="only so many of the best are given to cost()")
    parser.add_argument("--store", type=Path, help="SQLite file that keeps what was found")
    parser.add_argument("--csv", type=Path, help="write the table to this file")
    parser.add_argument("--plot", type=Path, help="draw the order to this file (.svg, .png, …)")
    return parser


def _tune(options: argparse.Namespace) -> int:
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    from mlir_async_pipe.tuning.tune import tune

    defined = _defined(options.kernel)
    with ProcessPoolExecutor(options.jobs, mp_context=get_context("spawn")) as pool:
        found = tune(
            defined["build"],
            dict(_parameter(text) for text in options.space),
            target=options.target,
            cost=defined.get("cost"),
            inputs=defined.get("inputs"),
            work=defined.get("work"),
            keep=options.keep,
            executor=pool,
            store=options.store,
            progress=sys.stderr.isatty(),
        )
    print(found.table(), end="")
    for outcome in found.outcomes:
        if outcome.failed:
            values = " ".join(f"{name}={value}" for name, value in outcome.parameters.items())
            print(f"{values}: {outcome.message} [{outcome.code}]")
    if options.csv:
        found.to_csv(options.csv)
    if options.plot:
        found.plot(options.plot)
    return int(found.outcomes[0].failed)


def _defined(kernel: Path) -> dict[str, Any]:
    """`build` and what else a kernel's file defines."""
    try:
        if kernel.suffix != ".py":
            text = kernel.read_text()
            return {"build": lambda: text}
        defined = runpy.run_path(str(kernel))
    except OSError as error:
        raise UsageError(f"cannot read '{kernel}': {error.strerror}", code="cannot-read") from error
    if "build" not in defined:
        raise UsageError(f"'{kernel}' defines no build()", code="bad-usage")
    return defined


def _parameter(text: str) -> tuple[str, list[Any]]:
    name, equals, values = text.partition("=")
    if not (name and equals and values):
        why = f"'{text}' is no parameter"
        raise UsageError(why, code="bad-usage", advice="for instance num_stages=2,3,4")
    return name, [_value(value) for value in values.split(",")]


def _value(text: str) -> Any:
    """A number or a truth value where the text is one."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


if __name__ == "__main__":
    sys.exit(main())
