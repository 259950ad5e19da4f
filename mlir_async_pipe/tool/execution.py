"""`--run` and `--validate`: execute a function on the machine, and write results, races and the timeline, or whether it
computes what it did.

    async-pipe-opt gemm.mlir --async-pipe --run=gemm --threads=128 --completion=late \\
        --arg=128x256xf16:1 --arg=128x256xf16:2 --arg=zeros:128x128xf32

Races are errors, each with both ends. What is printed instead of the IR is a line for each
result and each array; `--run-output` writes them as .npy.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.tool.command_line import Options

_DTYPES = {
    "f16": np.float16, "f32": np.float32, "f64": np.float64, "bf16": np.float32,
    "i1": np.bool_, "i8": np.int8, "i16": np.int16, "i32": np.int32, "i64": np.int64,
    "index": np.int64,
}  # fmt: skip


@dataclass(frozen=True)
class DrawnTimeline:
    """What thread 0 of a run did: figures in one line, and a picture as SVG."""

    summary: str
    svg: str


def execute(root: Any, options: Options, session: Session) -> bytes:
    """Run `options.run`; returns the text to print. Raises UsageError for bad arguments, MachineError for programs
    that cannot run."""
    from mlir_async_pipe import machine
    from mlir_async_pipe.facts.costs.cost_model import CostModel
    from mlir_async_pipe.machine.timeline import lay_out, svg, write_timeline

    model = CostModel.parse(options.cost, session.target)
    arguments = [argument(text, number) for number, text in enumerate(options.arg)]
    result = machine.run(root, options.run, arguments, **_how(options, session))
    session.diagnostics.items += [race.diagnostic() for race in result.races]
    for race in result.races:
        session.record("races", race)
    lines = [f"result {n}: {value}" for n, value in enumerate(result.results)]
    arrays = [(n, array) for n, array in enumerate(result.arrays) if array is not None]
    lines += [f"argument {n}: {_described(array)}" for n, array in arrays]
    lines.append(f"races: {len(result.races)}")
    if options.run_output:
        _write(options.run_output, result.results, arrays)
    if options.report == "html":
        timeline = lay_out(result.trace, model)
        session.record("timelines", DrawnTimeline(timeline.summary(), svg(timeline)))
    if options.timeline:
        timeline = lay_out(result.trace, model)
        write_timeline(timeline, options.timeline)
        lines.append(f"timeline: {timeline.summary()}")
    return ("\n".join(lines) + "\n").encode()


def validated(before: Any, after: Any, options: Options, session: Session) -> None:
    """Compare what `options.validate` computes in a module, or its PTX, with what it did before. Raises UsageError
    for bad arguments."""
    from mlir_async_pipe.machine.validation import validate

    found = validate(
        before,
        after,
        options.validate,
        [_asked(text, number) for number, text in enumerate(options.arg)],
        reassociate=options.validate_reassociate,
        **_how(options, session),
    )
    session.diagnostics.items.append(found.diagnostic())
    session.record("validations", found)


def _how(options: Options, session: Session) -> dict[str, Any]:
    """How a run or a validation is to run the function."""
    return {
        "threads": _sizes(options.threads, "threads") if options.threads else None,
        "grid": _sizes(options.grid, "grid"),
        "completion": options.completion,
        "schedule": options.schedule,
        "target": session.target,
    }


_RANGE = re.compile(r"(-?\d+)\.\.(-?\d+|inf)(?:\.\.(\d+))?$")


def _asked(text: str, number: int) -> Any:
    """An argument of `--validate`: data of any value of a shape, a range FIRST..LAST[..STEP], which has no end
    where LAST is inf, or what it is of `--run`."""
    from mlir_async_pipe.machine.validation import Data

    *sizes, kind = text.split("x")
    if kind in _DTYPES and all(size.isdecimal() or _RANGE.match(size) for size in sizes):
        stored = np.uint16 if kind == "bf16" else _DTYPES[kind]
        return Data(tuple(_range(size) or int(size) for size in sizes), np.dtype(stored))
    return _range(text) or argument(text, number)


def _range(text: str) -> Any:
    from mlir_async_pipe.machine.validation import From

    found = _RANGE.match(text)
    if found is None:
        return None
    first, step = int(found[1]), int(found[3] or 1)
    if found[2] == "inf":
        return From(first, step) if step else None
    last = int(found[2])
    return range(first, last + 1, step) if step and last >= first else None


def argument(text: str, number: int) -> Any:
    """The value of one `--arg`; raises UsageError (bad-argument). A shape without seed is filled from the seed
    `number`, the argument's position."""
    if text.endswith(".npy"):
        try:
            return np.load(text, allow_pickle=False)
        except (OSError, ValueError) as error:
            raise UsageError(f"cannot read '{text}': {error}", code="bad-argument") from None
    zeros = text.startswith("zeros:")
    shape, _, seed = text.removeprefix("zeros:").partition(":")
    *sizes, kind = shape.split("x")
    if kind in _DTYPES and all(size.isdecimal() for size in sizes):
        extents = tuple(int(size) for size in sizes)
        if zeros:
            return np.zeros(extents, _DTYPES[kind])
        if not seed or seed.isdecimal():
            return _random(extents, _DTYPES[kind], int(seed) if seed else number)
    for read in (int, float):
        try:
            return read(text)
        except ValueError:
            continue
    advice = "FILE.npy, a number, 128x64xf16[:SEED] or zeros:128x64xf16"
    raise UsageError(f"bad argument '{text}'", code="bad-argument", advice=advice)


def _random(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    """Normally distributed floats, or integers of one digit."""
    random = np.random.default_rng(seed)
    if np.dtype(dtype).kind == "f":
        return random.standard_normal(shape).astype(dtype)
    return random.integers(0, 10, shape).astype(dtype)


def _sizes(text: str, name: str) -> tuple[int, ...]:
    parts = text.split("x")
    if not all(part.isdecimal() for part in parts):
        why = f"option '--{name}' is '{text}', expected sizes such as 128 or 16x8"
        raise UsageError(why, code="bad-usage")
    return tuple(int(part) for part in parts)


def _described(array: np.ndarray) -> str:
    """Shape, type, and enough to tell two arrays apart."""
    shape = "x".join(str(size) for size in (*array.shape, array.dtype))
    if array.size == 0:
        return shape
    total = array.astype(np.float64).sum()
    return f"{shape}, sum {total:.6g}, first {array.flat[0]:.6g}, last {array.flat[-1]:.6g}"


def _write(folder: str, results: tuple[Any, ...], arrays: list[tuple[int, np.ndarray]]) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
        for number, value in enumerate(results):
            np.save(Path(folder) / f"result{number}.npy", np.asarray(value))
        for number, array in arrays:
            np.save(Path(folder) / f"argument{number}.npy", array)
    except OSError as error:
        raise UsageError(f"cannot write results: {error}", code="cannot-write") from None
