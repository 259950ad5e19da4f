"""Counts beside the ages that tokens have when the async machine runs random programs.

Covers: waits/count.py
"""

import re

import pytest

from helpers.executable_wait_programs import executable, run_waits
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

SEEDS = [seed for seed in range(2000, 2060) if executable(seed) is not None]
RUNS = 8


TOKENS = r'"async_pipe.wait_queue"\((%.*?)\) {(queue = \d : i64)} : \((.*?)\)'


def with_probes(text: str) -> str:
    """Before each wait one that never blocks, and keeps the tokens."""
    probe = r'"async_pipe.wait_queue"(\1) {count = 1000 : i64, \2} : (\3)'
    return re.sub(TOKENS, rf"{probe} -> ()\n\g<0>", text)


def with_tokens(text: str) -> str:
    """Waits without tokens get those of the probe before them."""
    lines, tokens, types = [], "", ""
    for line in text.splitlines():
        probe = re.search(r"wait_queue\"\((.*?)\) {count = 1000 .*: \((.*)\) ->", line)
        if probe:
            tokens, types = probe.groups()
        lines.append(
            line.replace('queue"()', f'queue"({tokens})').replace(": () ->", f": ({types}) ->")
            if 'wait_queue"()' in line
            else line
        )
    return "\n".join(lines)


def waits(seed: int, options: str):
    """The text of a random program after the pass, and the waits of all its runs."""
    text, entry = executable(seed)
    if "dynamic" in options:
        text = with_probes(text)
    found = passes.find("async-pipe-count-waits")
    with new_context():
        module = ir.Module.parse(text)
        found.run(module.operation, passes.parse_options(found, options), Session())
        assert module.operation.verify()
        text = with_tokens(str(module))
        module = ir.Module.parse(text)
        runs = [run_waits(module, entry, number) for number in range(RUNS)]
        return text, [record for run in runs for record in run]


@pytest.fixture(scope="module")
def seen():
    """How often a case of a switch was taken."""
    return {"programs": 0, "taken": 0}


@pytest.mark.parametrize("seed", SEEDS)
def test_no_token_is_ever_younger_than_its_static_count(seed):
    """Law: on every path that a run takes, a count leaves the awaited group out of flight."""
    for record in waits(seed, "")[1]:
        assert record.exact is None or record.count <= max(0, record.exact)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_case_that_runs_is_the_age_of_the_token(seed, seen):
    """Law: a switch waits with the number of groups that are younger on the path of this very
    run, but for its first count (which no path falls below) and its last (older ones too)."""
    text, records = waits(seed, "mode=dynamic keep-given")
    seen["programs"] += 1
    lines = [line.strip() for line in text.splitlines()]
    for record in records:
        number = record.place.line - 1
        if record.count == 1000 or record.exact is None:
            continue
        assert record.count <= max(0, record.exact)
        if not lines[number - 1].startswith("case"):
            continue
        seen["taken"] += 1
        if lines[number + 3].startswith("case"):
            assert record.exact == record.count


def test_the_random_programs_take_cases(seen):
    if seen["programs"] < len(SEEDS):
        pytest.skip("runs after all programs of the same process")
    assert seen["taken"] >= 50
