"""TVM's software pipeline and ours side by side: time, wait counts, and safety.

    pip install apache-tvm
    python bench/peers_tvm.py [--loops 1000] [--samples 300] [--seed N]

1. Processor microseconds a loop of TVM's InjectSoftwarePipeline, on the two loops of `bench/expand.py`.
2. RFC 0077's examples through both: wait counts and versions. TVM's result is written out step
   by step (`tvm_trace.py`) and runs, as ours does, on the async machine: copies that arrive at
   once, as late as the waits allow, and at random moments.
3. A sample of the legal async schedules of the property tests' chains, joins and forks, in the
   same way. A stage whose result is only read after the loop is never async here, since TVM's
   pass does not wait after the loop.

TVM needs no GPU for this. Without apache-tvm the script says so and measures nothing.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test"))

from tvm_pipelines import (  # noqa: E402
    RFC_EXAMPLES,
    THREE_STAGES,
    TWO_STAGES,
    Pipeline,
    inject_seconds,
    of_program,
    parsed,
    split,
)
from tvm_trace import PARTS, Trace, trace  # noqa: E402

import mlir_async_pipe  # noqa: E402
from helpers.pipeline_programs import (  # noqa: E402  (lives beside the tests)
    CHAINS_JOINS_FORKS,
    Program,
    Schedule,
    inputs,
    schedules,
    sequential,
    text,
    violated,
)
from mlir_async_pipe import machine  # noqa: E402
from mlir_async_pipe.bindings import ir, new_context  # noqa: E402
from mlir_async_pipe.bindings.raw_ops import integer_attribute, walk  # noqa: E402
from mlir_async_pipe.session.diagnostics import AsyncPipeError  # noqa: E402
from mlir_async_pipe.vocabulary import row_of  # noqa: E402

COMPLETIONS = (("eager", 0), ("late", 0), ("random", 1), ("random", 2))
TRIPS = 6
LAST_STAGE = 3
GUARD = 14
Counts = dict[str, list[list[int]]]


def main() -> int:
    """Print the three tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loops", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=300)
    parser.add_argument("--seed", type=int, default=20260807)
    options = parser.parse_args()
    if importlib.util.find_spec("tvm") is None:
        print("bench/peers_tvm.py: TVM is not installed (pip install apache-tvm): nothing measured")
        return 0
    import tvm

    print(f"apache-tvm {tvm.__version__}")
    time_table(options.loops)
    with new_context():
        rfc_table()
        sample_table(options.samples, options.seed)
    return 0


# -- TVM --------------------------------------------------------------------------------------


def tvm_trace(pipeline: Pipeline) -> Trace:
    """What TVM's result executes."""
    from tvm import s_tir

    module = s_tir.transform.InjectSoftwarePipeline()(parsed([pipeline.function()]))
    return trace(s_tir.transform.LowerOpaqueBlock()(module)["f0"], pipeline, GUARD)


# -- running ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What the async machine found over all completions."""

    races: bool
    wrong: bool
    negative_count: bool = False

    def __str__(self) -> str:
        verdict = "safe" if not (self.races or self.wrong) else "races" if self.races else "wrong"
        return verdict + (" (has a count below 0)" if self.negative_count else "")


def outcome(
    source: Any,
    function: str,
    given: Sequence[Any],
    wanted: Sequence[Any],
    negative_count: bool = False,
) -> Outcome:
    """Run under every completion; `wanted` are the arrays afterwards, in the order of `given`."""
    races = wrong = False
    for completion, seed in COMPLETIONS:
        done = machine.run(source, function, given, completion=completion, seed=seed)
        races |= bool(done.races)
        pairs = zip((a for a in done.arrays if a is not None), wanted, strict=True)
        wrong |= not all(np.array_equal(found, right) for found, right in pairs)
    return Outcome(races, wrong, negative_count)


# -- 1. time ----------------------------------------------------------------------------------


def time_table(loops: int) -> None:
    """Microseconds a loop, and the time a loop at `loops` divided by that at a quarter."""
    print(f"\n{'InjectSoftwarePipeline':36}{'us a loop':>12}{'growth':>10}")
    inject_seconds(parsed([TWO_STAGES.function()]))
    for label, pipeline in (("two stages", TWO_STAGES), ("three stages", THREE_STAGES)):
        for one_function in (False, True):
            sizes = {n: module_of(pipeline, n, one_function) for n in (loops // 4, loops)}
            small, large = (
                min(inject_seconds(module) for _ in range(3)) / n for n, module in sizes.items()
            )
            where = "one function" if one_function else "a function each"
            print(f"{label + ', ' + where:36}{large * 1e6:12.0f}{large / small:10.2f}")


def module_of(pipeline: Pipeline, loops: int, one_function: bool) -> Any:
    """A module of `loops` such loops."""
    if one_function:
        return parsed([pipeline.function(loops=loops)])
    return parsed(pipeline.function(f"f{n}") for n in range(loops))


# -- 2. RFC 0077 ------------------------------------------------------------------------------


def rfc_table() -> None:
    """Each example's counts (prologue | kernel | epilogue), versions and outcome, TVM's first."""
    for file, pipelines in RFC_EXAMPLES.items():
        whole = (ROOT / "lit-tests" / "rfc-0077" / f"{file}.mlir").read_text()
        for pipeline in pipelines:
            part = next(p for p in whole.split("// -----") if f"@{pipeline.name}(" in p)
            given = arguments(pipeline)
            wanted = [
                a
                for a in machine.run(ir.Module.parse(part), pipeline.name, given).arrays
                if a is not None
            ]
            print(f"\n{file}, {pipeline.name}")
            print(f"  TVM   {theirs(pipeline, wanted)}")
            print(f"  ours  {ours(part, pipeline, given, wanted)}")


def arguments(pipeline: Pipeline) -> list[Any]:
    """Small whole numbers for the inputs, zeros for the result, the guard's bound."""
    shapes = [shape for _, shape in split(pipeline.arguments)]
    random_numbers = np.random.default_rng(1)
    given: list[Any] = [random_numbers.integers(1, 100, s).astype(np.float32) for s in shapes]
    given[-1] = np.zeros(shapes[-1], np.float32)
    return [*given, GUARD] if pipeline.guarded else given


def theirs(pipeline: Pipeline, wanted: Sequence[Any]) -> str:
    """One line about TVM's result."""
    import tvm

    try:
        found = tvm_trace(pipeline)
    except tvm.error.InternalError as error:
        return f"refused: {str(error).splitlines()[-1]}"
    given = [a for a in arguments(pipeline) if isinstance(a, np.ndarray)]
    module = ir.Module.parse(found.text)
    result = outcome(module, "f", given, wanted, found.has_negative_count)
    return line(found.waits, found.versions.values(), result)


def ours(part: str, pipeline: Pipeline, given: Sequence[Any], wanted: Sequence[Any]) -> str:
    """One line about our result."""
    module = ir.Module.parse(part)
    mlir_async_pipe.pipeline(module)
    function = next(
        op
        for op in walk(module)
        if op.name == "func.func"
        and ir.StringAttr(op.attributes["sym_name"]).value == pipeline.name
    )
    ops = list(walk(function))
    kernel = next(n for n, op in enumerate(ops) if op.name == "scf.for")
    behind = kernel + len(list(walk(ops[kernel])))
    parts = (ops[:kernel], ops[kernel:behind], ops[behind:])
    waits = {name: [counts_of(part)] for name, part in zip(PARTS, parts, strict=True)}
    shapes = [ir.MemRefType(op.results[0].type).shape for op in ops if op.name == "memref.alloca"]
    local = [extents for _, extents in split(pipeline.local)]
    versions = [prod(new) // prod(old) for new, old in zip(shapes, local, strict=True)]
    return line(waits, versions, outcome(module, pipeline.name, given, wanted))


def counts_of(ops: Sequence[Any]) -> list[int]:
    """The counts of the waits among `ops`."""
    rows = [(op, row_of(op)) for op in ops]
    found = (integer_attribute(op, row.wait.count) for op, row in rows if row and row.wait)
    return [number or 0 for number in found]


def line(waits: Counts, versions: Iterable[int], result: Outcome) -> str:
    """`waits 1 | 1 1 | 0 1 0   versions 2 2   races`."""
    parts = " | ".join(" ".join(map(str, collapsed(waits[part]))) or "-" for part in PARTS)
    return f"waits {parts:36} versions {' '.join(map(str, versions)):10} {result}"


def collapsed(steps: list[list[int]]) -> list[int]:
    """One step if all are equal, else all of them one after the other."""
    same = len(steps) > 1 and all(step == steps[0] for step in steps)
    return steps[0] if same else [number for step in steps for number in step]


# -- 3. samples -------------------------------------------------------------------------------


def sample_table(samples: int, seed: int) -> None:
    """Outcomes of a sample of legal async schedules."""
    drawn = sample(samples, seed)
    print(f"\n{len(drawn)} legal async schedules, {TRIPS} iterations, seed {seed}")
    tally = {"TVM": Counter[str](), "ours": Counter[str]()}
    for program, schedule in drawn:
        given, wanted = inputs(program), sequential(program, TRIPS)
        tally["TVM"][tvm_sampled(program, schedule, given, wanted)] += 1
        tally["ours"][our_sampled(program, schedule, given, wanted)] += 1
    for name, found in tally.items():
        print(f"  {name:6}" + ", ".join(f"{n} {what}" for what, n in sorted(found.items())))


def sample(samples: int, seed: int) -> list[tuple[Program, Schedule]]:
    """Legal schedules with an async stage, none of whose statements writes an argument."""
    found = []
    for program in CHAINS_JOINS_FORKS:
        for schedule in schedules(len(program.statements), LAST_STAGE):
            outputs = {
                schedule.stage[number]
                for number, statement in enumerate(program.statements)
                if statement.target.buffer not in program.local
            }
            if schedule.async_stages and not outputs & set(schedule.async_stages):
                found.append((program, schedule))
    random.Random(seed).shuffle(found)
    legal = (pair for pair in found if not violated(*pair))
    return [pair for pair, _ in zip(legal, range(samples), strict=False)]


def tvm_sampled(program: Program, schedule: Schedule, given: Any, wanted: Any) -> str:
    """TVM's outcome."""
    import tvm

    try:
        found = tvm_trace(of_program(program, schedule, TRIPS))
    except tvm.error.InternalError:
        return "refused"
    module = ir.Module.parse(found.text)
    return str(outcome(module, "f", given, wanted, found.has_negative_count))


def our_sampled(program: Program, schedule: Schedule, given: Any, wanted: Any) -> str:
    """Our outcome."""
    # The number of iterations is a constant, and the argument for it goes, as in TVM's function.
    source = text(program, schedule, trips=TRIPS).replace("%n : index, ", "")
    module = ir.Module.parse(source)
    try:
        mlir_async_pipe.pipeline(module)
    except AsyncPipeError:
        return "refused"
    return str(outcome(module, "f", given, wanted))


if __name__ == "__main__":
    sys.exit(main())
