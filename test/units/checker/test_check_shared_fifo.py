"""Abstract queues that share the FIFO of a chip: who takes, takes of its own queue.

Covers: checker/commit_groups.py, checker/state.py, checker/sites.py, machine/fifos.py,
machine/dialects/async_ops.py
"""

import numpy as np
import pytest

from helpers.check_harness import check_text
from helpers.machine_programs import WORKGROUP, run


def copied(queue: int) -> str:
    return f"""
    "async_pipe.scope"() ({{
      %v{queue} = memref.load %A[%c{queue}] : memref<2xf32>
      memref.store %v{queue}, %T{queue}[%c0] : memref<1xf32, WG>
      "async_pipe.yield"() : () -> ()
    }}) {{queue = {queue} : i64}} : () -> ()
    %g{queue} = "async_pipe.commit_queue"() {{queue = {queue} : i64}} : () -> TOK"""


def taken(queue: int, count: int | None = None) -> str:
    left = "" if count is None else f", count = {count} : i64"
    return f"""
    "async_pipe.consumer_wait"() {{queue = {queue} : i64{left}}} : () -> ()
    %x{queue} = memref.load %T{queue}[%c0] : memref<1xf32, WG>
    memref.store %x{queue}, %C[%c{queue}] : memref<2xf32>"""


def kernel(*parts: str) -> str:
    text = f"""
    func.func @k(%A: memref<2xf32> {{llvm.noalias}}, %C: memref<2xf32> {{llvm.noalias}}) {{
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %T0 = memref.alloc() : memref<1xf32, WG>
      %T1 = memref.alloc() : memref<1xf32, WG>
      {"".join(parts)}
      return
    }}"""
    return text.replace("WG", WORKGROUP).replace("TOK", "!nvgpu.device.async.token")


BOTH = copied(0) + copied(1)
CASES = {
    "youngest first": (taken(1) + taken(0), True),
    "oldest first": (taken(0) + taken(1), True),
    "counted": (taken(1, 0) + taken(0, 1), True),
    "counted on the merged queue": (taken(1, 1) + taken(0, 0), False),
    "one more": (taken(0, 2) + taken(1, 0), False),
}


@pytest.mark.parametrize("case", CASES)
def test_checker_and_machine_agree_on_what_a_take_waits_for(case):
    body, safe = CASES[case]
    text = kernel(BOTH, body)
    checked = check_text(text, chip="sm_80")
    assert not checked.unknown
    assert bool(checked.unsafe) != safe
    source, given = np.array([3, 4], np.float32), np.zeros(2, np.float32)
    done = run(text, source, given, target="nvvm:sm_80", completion="late")
    assert bool(done.races) != safe
    if safe:
        np.testing.assert_array_equal(done.arrays[1], source)


def test_a_take_before_the_commit_of_its_queue_is_reported_by_the_machine():
    """The other queue's group is no reason to go on."""
    text = kernel(copied(0), taken(1), taken(0))
    arrays = np.zeros(2, np.float32), np.zeros(2, np.float32)
    done = run(text, *arrays, target="nvvm:sm_80", completion="late")
    assert "wait-before-commit" in done.race_codes


def test_more_groups_than_are_remembered_are_no_proof():
    """The oldest of 20 groups is taken first: 19 stay, of which the 17th is read."""
    commits = "".join(
        copied(0).replace("%g0", f"%g{n}").replace("%v0", f"%v{n}") for n in range(20)
    )
    checked = check_text(kernel(commits, taken(0)), chip="sm_80")
    assert checked.unsafe or checked.unknown
