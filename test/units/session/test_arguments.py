"""What a user typed or passed is answered in our words: the name that was meant, the number expected.

Covers: session/arguments.py
"""

from __future__ import annotations

import numpy as np
import pytest

import mlir_async_pipe as ap
from helpers.paths import ROOT
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.builder.roles import RolePipeline
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.arguments import did_you_mean, nearest, whole_number
from mlir_async_pipe.session.diagnostics import AsyncPipeError, UsageError
from mlir_async_pipe.tool import command_line

ADD_ONE = (ROOT / "examples" / "add_one.mlir").read_text()


@pytest.mark.parametrize(
    ("typed", "meant"),
    [
        ("sm80", "nvvm:sm_80"),
        ("SM_80", "nvvm:sm_80"),
        ("nvvm:sm80", "nvvm:sm_80"),
        ("specialized", "specialised"),
        ("num_stage", "async_pipe.num_stages"),
        ("async_pipe.num_stage", "async_pipe.num_stages"),
        ("something", ""),
        ("", ""),
    ],
)
def test_the_nearest_name(typed: str, meant: str) -> None:
    known = ("nvvm:sm_80", "specialised", "async_pipe.num_stages")
    assert nearest(typed, known) == meant


def test_a_name_far_from_all_lists_them() -> None:
    assert did_you_mean("x", ["first", "last"]) == "known here: first, last"
    assert did_you_mean("x", []) == "known here: none"


@pytest.mark.parametrize("value", [3, np.int64(3)])
def test_whole_numbers_of_any_kind(value: object) -> None:
    assert whole_number("depth", value, 1) == 3


@pytest.mark.parametrize("value", [2.5, "3", None, 0, (1,)])
def test_what_is_no_number_is_shown_with_what_was_expected(value: object) -> None:
    with pytest.raises(UsageError) as caught:
        whole_number("depth", value, 1)
    assert f"depth is {value!r}, expected a whole number of 1 or more" in str(caught.value)
    assert caught.value.code == "bad-argument"


def test_a_chip_that_differs_in_a_digit_is_not_the_one_meant() -> None:
    with pytest.raises(UsageError, match="did you mean 'nvvm:sm_80'"):
        Target.parse("sm80")
    with pytest.raises(UsageError, match="known targets: nvvm:sm_80, "):
        Target.parse("nvvm:sm_81")
    with pytest.raises(UsageError, match="did you mean 'gfx950'"):
        Target.of_chip("GFX-950")


def test_options_of_passes() -> None:
    found = passes.find("async-pipe")
    with pytest.raises(UsageError, match="did you mean 'num-stages'"):
        passes.parse_options(found, "num-stage=3")
    with pytest.raises(UsageError, match="did you mean 'specialised'"):
        passes.parse_options(found, "roles=specialized")
    with pytest.raises(UsageError, match="is '-5', expected a whole number of 0 or more"):
        passes.parse_options(found, "smem-limit=-5")
    with pytest.raises(UsageError, match="did you mean 'async-pipe'"):
        passes.find("async-pipee")


@pytest.mark.parametrize(
    ("typed", "advice"),
    [
        ("--report=htm", "did you mean 'html'"),
        ("--emit=ptxx", "did you mean 'ptx'"),
        ("--report=qqq", "see async-pipe-opt --help"),
        ("--smem-limit=-5", "a whole number of 0 or more"),
    ],
)
def test_values_of_flags(typed: str, advice: str) -> None:
    with pytest.raises(UsageError) as caught:
        command_line.parse([typed])
    assert advice in str(caught.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"num_stages": 2.5}, "num_stages is 2.5, expected a whole number of 1 or more"),
        ({"num_stages": "3"}, "num_stages is '3', expected a whole number of 1 or more"),
        ({"stage": "01"}, "stage is '0', expected a whole number of 0 or more"),
        ({"num_stage": 3}, "did you mean 'num_stages'"),
        ({"roles": "specialized"}, 'did you mean "specialised"'),
    ],
)
def test_annotations_from_python(given: dict, said: str) -> None:
    with new_context():
        module = ir.Module.parse(ADD_ONE)
        (loop,) = ap.find_loops(module)
        before = str(module)
        with pytest.raises(AsyncPipeError) as caught:
            ap.annotate(loop, **given)
        assert said in str(caught.value)
        assert str(module) == before


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"num_stages": "3"}, "num_stages is '3', expected a whole number of 0 or more"),
        ({"num_stages": 2.5}, "num_stages is 2.5, expected a whole number of 0 or more"),
        ({"smem_limit": -5}, "smem_limit is -5, expected a whole number of 0 or more"),
        ({"issue": "firts"}, "did you mean 'first'"),
        ({"check": "warning"}, "did you mean 'warn'"),
    ],
)
def test_options_from_python(given: dict, said: str) -> None:
    with new_context():
        module = ir.Module.parse(ADD_ONE)
        with pytest.raises(UsageError) as caught:
            ap.pipeline(module, target="nvvm:sm_80", **given)
    assert said in str(caught.value)


def test_a_ring_says_at_which_line_of_python_its_depth_is_wrong() -> None:
    with pytest.raises(UsageError) as caught:
        ap.Pipeline(depth="3")
    assert "depth is '3', expected a whole number of 1 or more" in str(caught.value)
    assert str(caught.value).startswith(f"{__file__}:")
    with pytest.raises(UsageError, match="depth is 1, expected a whole number of 2 or more"):
        RolePipeline(1, 128)
    with pytest.raises(UsageError, match="40 consumers, expected whole warps of 32 threads"):
        RolePipeline(2, 40)
