"""Breaks what pipelines compute, and asks `validate`; exits 1 if it calls equal what a run tells apart.

    python test/reports/validation_report.py --mutants 2000 --seed 1 --jobs 2 --json validation.json

A pipeline of an example or a random kernel is first compared with its input, then broken in one place
(`helpers/value_mutants.py`). A mutant is *told apart* if a run of the machine on random numbers gives something else
than the input, or a race. What is told apart and called `equal` is *missed*. Some mutants compute the same,
or differ only for shapes that were not asked about: those are `equal`, and no run tells them apart.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers.check_mutants import mutated
from helpers.machine_programs import WORKGROUP
from helpers.mutation_kernels import EXAMPLES, pipelined, random_loop
from helpers.random_pipelines import FEATURES, program
from helpers.value_mutants import COPIES, KINDS
from mlir_async_pipe import machine, validate
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.machine import Data
from mlir_async_pipe.session.diagnostics import AsyncPipeError

SECONDS = 10.0
SEEDS = 2
STEPS = 200_000


@dataclass(frozen=True)
class Pair:
    """An annotated kernel, its pipeline, and how it is launched."""

    name: str
    before: str
    after: str
    function: str
    arguments: tuple[Any, ...]
    launch: dict[str, Any]


@dataclass
class Judged:
    """What became of one pair and its mutants: for each kind the verdicts (with codes, if unknown), what is
    missed or took too long, as text."""

    name: str
    right: str = ""
    seconds: float = 0.0
    verdicts: dict[str, Counter[str]] = field(default_factory=dict)
    missed: list[str] = field(default_factory=list)
    not_found: list[str] = field(default_factory=list)


def pairs(seed: int) -> Iterator[Pair]:
    """Examples, then random kernels without end."""
    add_one = (EXAMPLES / "add_one.mlir").read_text().replace("8192", "2560")
    tile = (EXAMPLES / "attention_tile.mlir").read_text()
    floats = np.float32
    examples = (
        ("add_one", add_one, [np.zeros(2560, floats)] * 2),
        ("sums", COPIES, [np.zeros(38, floats), np.zeros(40, floats)]),
        ("attention_tile", tile, [np.zeros((32, n), floats) for n in (16, 16, 32, 32)]),
    )
    for name, text, arguments in examples:
        made = pipelined(text, "nvvm:sm_80")
        assert made is not None
        yield Pair(name, text, made, name, tuple(arguments), {"target": "nvvm:sm_80"})
    number = seed
    while True:
        for feature in list(FEATURES)[number % 3 :: 3]:
            found = program(number, feature)
            made = pipelined(found.text, found.target)
            if made is not None and made != found.text:
                launch = {"threads": found.threads, "target": found.target}
                arguments = tuple(found.arguments())
                yield Pair(found.name, found.text, made, found.function, arguments, launch)
        loop = random_loop(Random(number))
        text = loop.text(annotated=True).replace("WG", WORKGROUP)
        made = pipelined(text, "nvvm:sm_80")
        if made is not None:
            launch = {"threads": loop.threads, "target": "nvvm:sm_80"}
            yield Pair(f"loop {number}", text, made, "f", tuple(loop.arguments()), launch)
        number += 1


def asked(argument: Any) -> Any:
    """An argument as data, where it is an array of floats."""
    if isinstance(argument, np.ndarray) and argument.dtype.kind == "f":
        return Data(argument.shape)
    return argument


def drawn(argument: Any, seed: int) -> Any:
    if isinstance(argument, np.ndarray) and argument.dtype.kind == "f":
        numbers = np.random.default_rng(seed).standard_normal(argument.shape)
        return numbers.astype(argument.dtype)
    return argument


def tells_apart(pair: Pair, before: Any, after: Any) -> str:
    """How runs on numbers tell two modules apart, "" if they do not."""
    for seed in range(SEEDS):
        arguments = [drawn(argument, seed) for argument in pair.arguments]
        runs = []
        for module, completion in ((before, "eager"), (after, "late")):
            try:
                run = machine.run(
                    module,
                    pair.function,
                    arguments,
                    completion=completion,
                    step_limit=STEPS,
                    **pair.launch,
                )
            except AsyncPipeError as error:
                return f"cannot run: {error.code}"
            runs.append(run)
        if runs[1].races:
            return runs[1].races[0].code
        outputs = [[a for a in run.arrays if a is not None] for run in runs]
        if any(a.tobytes() != b.tobytes() for a, b in zip(*outputs, strict=True)):
            return "other numbers"
    return ""


def judge(pair: Pair, each: int, seed: int) -> Judged:
    """One pair, and `each` mutants of each kind."""
    found, random = Judged(pair.name), Random(f"{seed} {pair.name}")
    started = time.process_time()
    with new_context():
        before = ir.Module.parse(pair.before)
        arguments = [asked(argument) for argument in pair.arguments]
        ask = partial(
            validate,
            before,
            function=pair.function,
            arguments=arguments,
            step_limit=STEPS,
            **pair.launch,
        )
        answer = ask(ir.Module.parse(pair.after))
        found.right = answer.verdict if answer.verdict != "unknown" else answer.code
        found.seconds = time.process_time() - started
        if answer.verdict != "equal":
            if answer.verdict == "different":
                found.missed.append(f"{pair.name}: right, but {answer.diagnostic()}")
            return found
        for kind, mutate in KINDS.items():
            broken = list(islice(mutated(pair.after, mutate), 40))
            verdicts = found.verdicts[kind] = Counter()
            for number, text in random.sample(broken, min(each, len(broken))):
                module = ir.Module.parse(text)
                answer = ask(module)
                label = answer.verdict if answer.verdict != "unknown" else answer.code
                if answer.verdict != "different":
                    how = tells_apart(pair, before, module)
                    if how and answer.is_equal:
                        found.missed.append(f"{kind} {number} of {pair.name}: {how}\n{text}")
                    elif how:
                        label = f"unknown ({label}), a run says {how}"
                verdicts[label] += 1
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=200)
    parser.add_argument("--each", type=int, default=2, help="mutants of one kind of a kernel")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    judged: list[Judged] = []
    total: dict[str, Counter[str]] = {kind: Counter() for kind in KINDS}
    work = partial(judge, each=arguments.each, seed=arguments.seed)
    known = pairs(arguments.seed)
    with multiprocessing.get_context("fork").Pool(arguments.jobs, maxtasksperchild=20) as pool:
        while sum(counts.total() for counts in total.values()) < arguments.mutants:
            for one in pool.map(work, list(islice(known, 2 * arguments.jobs)), 1):
                judged.append(one)
                for kind, verdicts in one.verdicts.items():
                    total[kind].update(verdicts)
    right = Counter(one.right for one in judged)
    slow = [one.name for one in judged if one.seconds > SECONDS]
    missed = [text for one in judged for text in one.missed]
    print(f"pipelines compared with their input: {dict(right)}; longer than {SECONDS} s: {slow}")
    print(
        "| mutants | number | different | equal, and no run tells them apart | others |\n|---|---:|---:|---:|---|"
    )
    for kind, verdicts in total.items():
        others = {k: n for k, n in verdicts.items() if k not in ("different", "equal")}
        counts = (verdicts.total(), verdicts["different"], verdicts["equal"])
        print(f"| {kind} | {' | '.join(map(str, counts))} | {others or ''} |")
    print(f"missed: {len(missed)}")
    print("\n".join(missed[:5]))
    if arguments.json is not None:
        figures = {
            "right": right,
            "mutants": {kind: dict(verdicts) for kind, verdicts in total.items()},
            "missed": missed,
            "slow": slow,
        }
        arguments.json.write_text(json.dumps(figures, indent=1) + "\n")
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
