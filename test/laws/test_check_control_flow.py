"""No race is passed over because of the op around it, before it or that leads to it.

The law: after and inside every op that moves control, a copy that is read without a wait is
unsafe or unknown.

Covers: checker/kernel_flow.py, facts/flow/flow_graph.py, facts/flow/region_flow.py, checker/unfollowed.py, vocabulary/control_flow.py
"""

import pytest

from helpers.check_harness import check_module
from helpers.control_flow_programs import (
    COPY,
    LOAD,
    OTHERWISE,
    RACE,
    TABLE,
    around,
    program,
    registered,
    rows,
)
from mlir_async_pipe.bindings import new_context

WAIT = "\n  nvvm.cp.async.wait.group 0\n"
ELSEWHERE = list(registered())


def reported(checked) -> bool:
    return sum(entry.unsafe + entry.unknown for entry in checked.report.of("checks")) > 0


def test_every_row_stands_in_a_program_or_is_listed():
    assert rows() == set(TABLE) | set(OTHERWISE)


PARTS = {
    "after": {"after": RACE},
    "inside": {"inside": RACE},
    "split in": {"before": COPY, "inside": LOAD},
    "split out": {"inside": COPY, "after": LOAD},
    "split over": {"before": COPY, "after": LOAD},
    "wait inside": {"before": COPY, "inside": WAIT, "after": LOAD},
}
# Regions that run once or more: the wait in them is as good as one after them.
ALWAYS = (
    "scf.while scf.execute_region memref.alloca_scope cf.br llvm.br func.call llvm.call gpu.call"
).split()
# A launch begins after its host's code before it, and copies of a host are no copies; what
# is told of the load inside is that all threads of the launch store what they read to one place.
APART = {("gpu.launch", "split out")}


@pytest.mark.parametrize("parts", PARTS)
@pytest.mark.parametrize("name", TABLE)
def test_race_around_a_row_is_reported(name, parts):
    with new_context():
        checked = check_module(program(name, **PARTS[parts]))
    right = (parts == "wait inside" and name in ALWAYS) or (name, parts) in APART
    assert reported(checked) != right


def test_dialects_register_many_ops_with_regions():
    assert len(ELSEWHERE) > 100


@pytest.mark.parametrize("name,regions,branches", ELSEWHERE, ids=[op[0] for op in ELSEWHERE])
def test_race_around_any_registered_op_is_reported(name, regions, branches):
    with new_context():
        for parts in PARTS.values():
            assert reported(check_module(around(name, regions, branches, **parts)))
