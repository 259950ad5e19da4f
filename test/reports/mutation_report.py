"""Mutation at scale: breaks right kernels everywhere and looks who notices.

    python test/reports/mutation_report.py --mutants 5000 --seed 1 --jobs 2 --json FILE

A mutant *fails* if the machine or the second machine finds a race or a barrier that only some
threads reach, for some trip count, condition, block and completion, or if the result depends on
the completion. What fails and is neither `unsafe` nor `unknown` for the checker is *missed*; so is
what fails and takes the checker more than its time. A run that leaves its arrays is left out: the
checker judges kernels whose subscripts are in bounds. Where the checker has named something
already, fewer runs are made, so the number of failing mutants is a lower bound.

The table and the JSON are written every minute, and by what stops the report (SIGTERM, SIGINT).
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import signal
import sys
import time
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers import check_mutants
from helpers.check_harness import check_text
from helpers.mutant_failure import Size, block_of, failure
from helpers.mutation_kernels import Kernel, fixed, mixed, random_kernels
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from reports.mutation_table import KINDS, NAMED, Judged, Report, Result

# Processor seconds that the checker may think about one mutant; what takes longer counts as slow.
SLOW = 10.0
# Of so many places that a kind can break in a kernel some are drawn.
PLACES = 8
# Kernels that one worker judges before a new one takes its place: what a process allocates in
# MLIR contexts does not come back. No kernel takes near as many seconds as `LOST`.
KERNELS_A_WORKER = 30
LOST = 900.0
MINUTE = 60.0


def judge(kernel: Kernel, each: int, seed: int, kinds: Collection[str] = KINDS) -> Judged:
    """Mutants of one kernel: `each` of each kind, drawn from all places."""
    found, random = Judged(kernel=kernel.name), Random(f"{seed} {kernel.name}")
    try:
        checked, size = check_text(kernel.text, kernel.target), block_of(kernel.text)
    except (AsyncPipeError, KeyError, ValueError) as error:
        found.not_judged = f"{type(error).__name__}: {error}"
        return found
    if not kernel.right:
        found.wrong = failure(kernel.text, kernel, size, True).how
    if not found.wrong:
        found.accesses, found.unknown = checked.accesses, checked.unknown_accesses
        found.reasons = sorted(code for code, _ in checked.unknown)
        found.unsafe = bool(kernel.right and checked.unsafe)
    for kind, mutate in KINDS.items():
        if kind not in kinds or random.random() >= kernel.share:
            continue
        broken = list(islice(check_mutants.mutated(kernel.text, mutate), PLACES))
        for number, text in random.sample(broken, min(each, len(broken))):
            found.results.append(_result(kernel, kind, number, text, size))
    return found


def _result(kernel: Kernel, kind: str, number: int, text: str, size: Size) -> Result:
    verdict = _verdict(text, kernel.target)
    fails = failure(text, kernel, size, verdict not in NAMED)
    kept = text if verdict in ("slow", "died") or (fails.how and verdict not in NAMED) else ""
    return Result(kind, kernel.name, number, verdict, fails.how, kept, fails.not_judged)


def _verdict(text: str, target: str | None) -> str:
    try:
        with time_limit(SLOW):
            checked = check_text(text, target)
    except _TooSlow:
        return "slow"
    except AsyncPipeError:
        return "refused"
    except Exception:
        return "died"
    return "unsafe" if checked.unsafe else "unknown" if checked.unknown_accesses else "safe"


class _TooSlow(BaseException):
    """Not an Exception: nothing under a check may take it for its own."""


@contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    """Give up after so many seconds of this process: other load does not count."""

    def stop(number: int, frame: Any) -> None:
        raise _TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def all_judged(mutants: int, seed: int, jobs: int, each: int) -> Iterator[Judged]:
    """Kernel after kernel, until there are enough mutants: the same ones for any `jobs`."""
    kernels = mixed(fixed(), random_kernels(1000 * seed))
    work, total = partial(judge, each=each, seed=seed), 0
    for judged in map(work, kernels) if jobs == 1 else _in_workers(work, kernels, jobs):
        yield judged
        total += len(judged.results)
        if total >= mutants:
            return


def _in_workers(work: Any, kernels: Iterator[Kernel], jobs: int) -> Iterator[Judged]:
    """Judged kernels in order, with a few ahead. A worker that dies (of memory, say) takes its
    kernel with it, which then counts as not judged."""
    context = multiprocessing.get_context("spawn")
    with context.Pool(jobs, _leave_to_parent, maxtasksperchild=KERNELS_A_WORKER) as pool:
        ahead = deque(
            (kernel, pool.apply_async(work, (kernel,))) for kernel in islice(kernels, 4 * jobs)
        )
        for following in kernels:
            kernel, pending = ahead.popleft()
            try:
                yield pending.get(LOST)
            except multiprocessing.TimeoutError:
                yield Judged(kernel=kernel.name, not_judged="no answer of its worker")
            ahead.append((following, pool.apply_async(work, (following,))))


def _leave_to_parent() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)


class Stopped(BaseException):
    """Somebody ended the report."""


def _stop(number: int, frame: Any) -> None:
    raise Stopped(signal.Signals(number).name)


def report(mutants: int, seed: int, jobs: int, json_file: str | None = None) -> tuple[Report, str]:
    """Make and judge mutants; also what stopped it before there were enough, or ""."""
    found, stopped = Report(), ""
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _stop)
    reported = time.monotonic()
    try:
        for judged in all_judged(mutants, seed, jobs, 2):
            found.add(judged)
            if time.monotonic() - reported > MINUTE:
                reported = time.monotonic()
                print(f"so far\n{found.table()}", flush=True)
                save(found, seed, "unfinished", json_file)
    except Stopped as signal_:
        stopped = str(signal_)
    return found, stopped


def save(found: Report, seed: int, stopped: str, file: str | None) -> None:
    """Write the JSON so that nobody reads half of it."""
    if file is None:
        return
    half = Path(f"{file}.part")
    half.write_text(json.dumps({"seed": seed, "stopped": stopped} | found.entries(), indent=1))
    os.replace(half, file)


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mutants", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--json")
    options = parser.parse_args()
    start = time.monotonic()
    found, stopped = report(options.mutants, options.seed, options.jobs, options.json)
    save(found, options.seed, stopped, options.json)
    print(f"mutation report, seed {options.seed}\n{found.table()}")
    print("\n".join(found.details()))
    print(f"{time.monotonic() - start:.0f} s{f', stopped by {stopped}' if stopped else ''}")
    return int(not found.is_clean or bool(stopped))


if __name__ == "__main__":
    raise SystemExit(main())
