"""The steps of both lowerings stand in an order that their own constraints allow.

Covers: lowering/ordered_steps.py
"""

import pytest

from mlir_async_pipe.lowering.nvvm import to_nvvm
from mlir_async_pipe.lowering.rocdl import to_rocdl


@pytest.mark.parametrize("steps", [to_nvvm.STEPS, to_rocdl.STEPS], ids=["nvvm", "rocdl"])
def test_each_step_stands_after_those_that_it_needs(steps):
    names = [step.name for step in steps]
    assert len(set(names)) == len(names)
    for number, step in enumerate(steps):
        assert set(step.after) <= set(names[:number]), step.name
        assert step.given
