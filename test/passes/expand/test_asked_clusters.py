"""Clusters that an option asks for: given to kernels that have none, an error where they have others.

Covers: pipeliner/expand/expand_pass.py, tool/process.py
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from helpers.cluster_loops import ClusterLoop
from helpers.driver_process import opt
from helpers.machine_programs import parse
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.session.diagnostics import AsyncPipeError

HALVES = ClusterLoop()
UNSAID = replace(HALVES, changes=((", gpu.known_cluster_size = array<i32: 2, 1, 1>", ""),))
UNSAID_KERNEL = HALVES.kernel().replace(", known_cluster_size = array<i32: 2, 1, 1>", "")


@pytest.mark.parametrize("asked", ["2", "2,1", "2,1,1"])
def test_a_function_gets_them_and_is_pipelined(asked):
    module = UNSAID.parsed()
    pipeline(module, cluster=asked, check="error")
    assert "gpu.known_cluster_size = array<i32: 2, 1, 1>" in str(module)
    for completion in machine.COMPLETIONS:
        assert HALVES.wrong(module, completion) == []


def test_a_kernel_gets_them_under_its_own_name():
    module = parse(UNSAID_KERNEL)
    pipeline(module, cluster="2,1,1", check="error")
    assert re.search(r"attributes \{.*known_cluster_size = array<i32: 2, 1, 1>", str(module))
    assert "gpu.known_cluster_size" not in str(module)


def test_who_says_the_same_stays():
    module, other = HALVES.parsed(), HALVES.parsed()
    pipeline(module, cluster="2,1,1", check="none")
    pipeline(other, check="none")
    assert str(module) == str(other)


def test_a_kernel_without_tensor_copies_stays():
    text = """func.func @f(%a: memref<64xf32>) {
  return
}"""
    module = parse(UNSAID.text() + text.replace("@f", "@g"))
    pipeline(module, cluster="2", check="none")
    assert str(module).count("known_cluster_size") == 1


def test_other_clusters_are_a_conflict_at_the_kernel():
    module = HALVES.parsed()
    before = str(module)
    with pytest.raises(AsyncPipeError, match="of 4 x 1 x 1 blocks are asked for") as refused:
        pipeline(module, cluster="4,1,1", check="none")
    assert refused.value.code == "cluster-conflict"
    assert "has clusters of 2 x 1 x 1 blocks" in str(refused.value)
    assert refused.value.diagnostic.place.line > 0
    assert str(module) == before


def test_a_launch_without_clusters_is_a_conflict():
    """What it is launched with stands in its operands."""
    launched = re.sub(
        r"(?s)func.func @f\((.*?)\) attributes \{.*?\} \{(.*)  return\n\}",
        r"""func.func @f(\1) {
  %one = arith.constant 1 : index
  %threads = arith.constant 64 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %one, %gy = %one, %gz = %one)
      threads(%tx, %ty, %tz) in (%sx = %threads, %sy = %one, %sz = %one) {\2  gpu.terminator
  }
  return
}""",
        HALVES.text(),
    )
    assert "gpu.launch" in launched
    with pytest.raises(AsyncPipeError, match="clusters that it does not name") as refused:
        pipeline(parse(launched), cluster="2", check="none")
    assert refused.value.code == "cluster-conflict"


@pytest.mark.parametrize("asked", ["two", "2,0,1", "1,2,3,4", "2;1", "-2"])
def test_what_is_no_size_is_a_wrong_option(asked):
    with pytest.raises(AsyncPipeError, match="no size of clusters") as refused:
        pipeline(UNSAID.parsed(), cluster=asked, check="none")
    assert refused.value.code == "bad-usage"


@pytest.mark.parametrize(
    ("asked", "better"), [("4,1,1", ""), ("4,1,1", "2,1,1"), ("2x1x1", "2,1,1")]
)
def test_who_follows_the_advice_gets_a_pipeline(asked, better):
    """Leaves the option out, says the same, or writes three numbers."""
    with pytest.raises(AsyncPipeError) as refused:
        pipeline(HALVES.parsed(), cluster=asked, check="none")
    reported = [note.message for note in refused.value.diagnostic.notes]
    assert any("leave the option out" in note or "2,1,1" in note for note in reported)
    module = HALVES.parsed()
    pipeline(module, cluster=better, check="error")
    assert HALVES.wrong(module, "late") == []


def test_the_command_line_hands_it_on():
    done = opt("-", "--async-pipe", "--cluster=2,1,1", stdin=UNSAID.text())
    assert done.code == 0
    assert "gpu.known_cluster_size = array<i32: 2, 1, 1>" in done.out
    assert "cluster-unsupported" in opt("-", "--async-pipe", stdin=UNSAID.text()).err
