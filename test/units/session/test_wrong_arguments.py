"""What is passed to the calls and is not what they take: named in our words, with what was meant.

Covers: session/arguments.py, session/called_from.py, api.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import mlir_async_pipe as ap
from helpers.paths import ROOT
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError

ADD_ONE = (ROOT / "examples" / "add_one.mlir").read_text()
MODULE = ir.Module.parse(ADD_ONE, new_context())
(LOOP,) = ap.find_loops(MODULE)


@pytest.mark.parametrize(
    ("call", "code", "reported"),
    [
        (lambda: ap.annotate(LOOP, num_stages=True), "bad-argument", "num_stages is True"),
        (lambda: ap.annotate("loop", num_stages=3), "not-a-module", "not 'loop'"),
        (lambda: ap.find_loops(None), "not-a-module", "not None"),
        (lambda: ap.find_loops(MODULE, annotated="no"), "bad-argument", "expected True or False"),
        (lambda: ap.pipeline(MODULE, target=80), "unknown-target", "unknown target '80'"),
        (lambda: ap.pipeline(MODULE, cluster=(2, 1, 1)), "bad-argument", "cluster is (2, 1, 1), expected a string"),
        (lambda: ap.pipeline(MODULE, cluster="2, x"), "bad-usage", "'2, x' is no size of clusters"),
        (lambda: ap.pipeline(MODULE, check=True), "bad-argument", "check is True, expected a string"),
        (lambda: ap.pipeline(MODULE, cache="yes"), "bad-argument", "cache is 'yes', expected True or False"),
        (lambda: ap.lower(MODULE, target=None), "unknown-target", "unknown target 'None'"),
        (lambda: ap.lower(MODULE, target="nvvm:sm_80", strict="no"), "bad-argument", "strict is 'no'"),
        (lambda: ap.lower(MODULE, target="nvvm:sm_80", resources="no"), "bad-argument", "resources is 'no'"),
        (lambda: machine.run(MODULE, "add_one", completion=3), "bad-argument", "completion is 3"),
        (lambda: ap.validate(MODULE, MODULE, completion=3), "bad-argument", "completion is 3"),
    ],
)  # fmt: skip
def test_a_value_of_another_kind_is_reported_with_the_line_of_the_call(
    call: Callable[[], Any], code: str, reported: str
) -> None:
    with pytest.raises(AsyncPipeError) as refused:
        call()
    assert refused.value.code == code
    assert reported in refused.value.diagnostic.message
    assert __file__ in str(refused.value)


@pytest.mark.parametrize(
    ("call", "meant"),
    [
        (lambda: ap.lower(MODULE, target="nvvm:sm_80", emit="PTX"), "ptx"),
        (lambda: ap.use("torchmlir"), "torch-mlir"),
        (lambda: ap.check(MODULE).of("check"), "checks"),
        (lambda: machine.run(MODULE, "ad_one"), "add_one"),
    ],
)  # fmt: skip
def test_a_name_that_is_nearly_right_is_answered_with_the_right_one(
    call: Callable[[], Any], meant: str
) -> None:
    with pytest.raises(AsyncPipeError) as refused:
        call()
    assert refused.value.diagnostic.notes[0].message == f"did you mean '{meant}'?"
    assert refused.value.diagnostic.place.file == __file__


def test_a_misspelt_parameter_of_a_class_is_answered() -> None:
    with pytest.raises(TypeError, match=r"Pipeline.__init__\(\) has no argument 'dept'; did you"):
        ap.Pipeline(dept=3)  # type: ignore[call-arg]
