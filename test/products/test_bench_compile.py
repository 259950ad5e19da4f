"""The comparison of compile times: what is compared are pipelines of as many different loops, and
goals are held against the same run.

Covers: bench/compile_peers.py, bench/compile_memory.py, bench/compile_workers.py
"""

from __future__ import annotations

import importlib
import re

import pytest

from helpers.paths import ROOT


@pytest.fixture
def peers(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "bench"))
    return importlib.import_module("compile_peers")


def bodies(text: str) -> list[str]:
    """The loops of a module, without the numbers of their buffers."""
    return [re.sub(r"%B\d+", "%B", found) for found in re.findall(r"scf\.for.*?\n  }", text, re.S)]


@pytest.mark.parametrize("made", ["different_loops", "upstream_loops"])
def test_no_two_loops_are_alike(peers, made: str) -> None:
    loops = bodies(getattr(peers, made)(12))
    assert len(loops) == len(set(loops)) == 12
    assert {loop.count("arith.addf") - loops[0].count("arith.addf") for loop in loops} == {
        0,
        1,
        2,
        3,
    }


def test_ours_and_upstream_pipeline_all_of_them(peers) -> None:
    ours = peers.text_to_text(peers.different_loops(5), list(peers.expand.PASSES))
    assert ours.count("memref.alloca() : memref<2x1xf32>") == 5
    assert len(re.findall(r"wait_queue.*count = 1", ours)) == 5
    assert "async_pipe.stage" not in ours
    theirs = peers.transform(peers.upstream_loops(5))
    kernels = re.findall(r"scf\.for .* iter_args", theirs)
    assert len(kernels) == 5


def test_a_goal_is_met_or_missed_by_the_same_run(peers) -> None:
    def took(milliseconds: float) -> dict[str, float]:
        return {"processor": milliseconds / 1000, "wall": milliseconds / 500}

    results = {
        "loops: ours": took(50),
        "loops: upstream's transform": took(20),
        "loops: ours, checked": took(161),
        "GEMM: pipeline()": took(23),
    }
    found = {goal["what"]: goal for goal in peers.goals(results)}
    assert found["loops: ours / loops: upstream's transform"]["met"]
    assert found["loops: ours / loops: upstream's transform"]["got"] == pytest.approx(2.5)
    assert not found["loops: ours, checked / loops: upstream's transform"]["met"]
    # Wall time counts: 46 ms of 45.
    assert not found["GEMM: pipeline()"]["met"]
    assert len(found) == 3
