"""Simplified waits prove as much as before, on random kernels that are right or wrong by chance.

Each kernel of the checker's differential tests is run by the async machine with late completion
before and after `async-pipe-simplify-waits`, for all trip counts 0..4 and conditions.

Covers: waits/simplify.py, pipeliner/ask_checker/attach_tokens.py
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict

import pytest

from helpers.check_harness import RACES, argument_choices, check_module, entry_kernel
from helpers.executable_wait_programs import executable, run_trace
from helpers.random_async_kernels import THREADS, random_kernel
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import symbol_name
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

TARGET = Target.parse("nvvm:sm_80")


def races(module, threads: int) -> frozenset:
    """(code, place) of all races of a module, for every argument."""
    found = set()
    kernel = entry_kernel(module)
    for arguments in argument_choices(kernel, range(5)):
        result = machine.run(
            module,
            symbol_name(kernel),
            arguments,
            threads=(threads, 1, 1),
            completion="late",
            target=TARGET,
        )
        found |= {(race.code, str(race.place)) for race in result.races if race.code in RACES}
    return frozenset(found)


def run_pass(module, name: str, options: str = "chip=sm_80"):
    found = passes.find(f"async-pipe-{name}")
    session = Session(target=TARGET)
    found.run(module.operation, passes.parse_options(found, options), session)
    assert module.operation.verify()
    return session.report()


@pytest.fixture(scope="module")
def gone():
    """What went, by kind, over all kernels."""
    return Counter()


@pytest.mark.parametrize("seed", range(100, 140))
def test_kernels_with_counts_race_where_they_did(seed, gone):
    """Law: a wait that goes never blocked, so the races are the same ones."""
    threads = THREADS if seed % 3 else 1
    with new_context():
        module = ir.Module.parse(random_kernel(seed, threads=threads > 1))
        before = races(module, threads)
        report = run_pass(module, "simplify-waits")
        gone.update(["kernels"] + [entry.what for entry in report.of("simplifications")])
        assert races(module, threads) == before
        places = {place for _, place in check_module(module, "nvvm:sm_80").unsafe}
        assert {place for _, place in before} <= places


@pytest.mark.parametrize("seed", range(140, 180))
def test_kernels_with_tokens_race_nowhere_else(seed, gone):
    """Law: groups that join others are waited for with them, so no race is new."""
    threads = THREADS if seed % 3 else 1
    with new_context():
        module = ir.Module.parse(random_kernel(seed, threads=threads > 1))
        run_pass(module, "tokens")
        run_pass(module, "count-waits")
        before = races(module, threads)
        report = run_pass(module, "simplify-waits")
        gone.update(["kernels"] + [entry.what for entry in report.of("simplifications")])
        assert races(module, threads) <= before


PROGRAMS = [seed for seed in range(3000, 3060) if executable(seed) is not None]
# Buffers of their own: groups that touch the same memory never join.
COPY = """%s\\g<1> = memref.alloc() : memref<8xf32, 3>
%p\\g<1> = nvgpu.device_async_copy %A[%zero], %s\\g<1>[%zero], 1 : memref<8xf32> to memref<8xf32, 3>
"""


def with_copies(text: str) -> str:
    """A copy before every commit, and all of them on one queue."""
    source = "%A = memref.alloc() : memref<8xf32>\n%true = arith.constant true"
    text = text.replace("%true = arith.constant true", source).replace("queue = 1", "queue = 0")
    return re.sub(r'%(t\d+) = "async_pipe.commit_queue"', COPY + r"\g<0>", text)


@pytest.mark.parametrize("seed", PROGRAMS)
def test_no_wait_gets_stricter_and_none_too_loose(seed, gone):
    """Law: on every path each wait lets at least the copies stay in flight that stayed before,
    and retires the group of its token."""
    text, entry = executable(seed)
    covered = []
    for simplified in (False, True):
        with new_context():
            module = ir.Module.parse(with_copies(text))
            run_pass(module, "count-waits")
            if simplified:
                report = run_pass(module, "simplify-waits")
                gone.update(f"{entry.what} of a program" for entry in report.of("simplifications"))
            runs = [run_trace(module, entry, number, TARGET) for number in range(3)]
        for waits, _ in runs:
            for record in waits:
                assert record.exact is None or record.count <= max(0, record.exact)
        covered.append([_covers(trace) for _, trace in runs])
    for before, after in zip(*covered, strict=True):
        for place, counts in after.items():
            assert len(counts) == len(before[place])
            assert all(new <= old for new, old in zip(counts, before[place], strict=True))


def _covers(trace) -> dict[str, list[int]]:
    """By wait, how many copies were over after each of its executions."""
    found = defaultdict(list)
    for event in trace.entries:
        if event.event == "wait":
            found[str(event.place)].append(event.covers)
    return found


def test_something_went(gone):
    if gone["kernels"] < 80:
        pytest.skip("runs after all kernels of the same process")
    print(f"\n{dict(gone)}")
    assert gone["redundant-wait"] + gone["merged-wait"] >= 10
    assert gone["redundant-commit"] >= 10
    assert gone["redundant-commit of a program"] >= 10
