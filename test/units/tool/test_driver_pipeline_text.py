"""Pipeline text is read as MLIR reads it, and cut at our passes at any nesting.

Covers: session/pipeline_text.py, tool/pass_steps.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe import bindings
from mlir_async_pipe.session import pipeline_text
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.session.pipeline_text import NestedPipeline, PassCall
from mlir_async_pipe.tool import pass_steps


@pytest.fixture
def context():
    return bindings.new_context()


def test_options_keep_nested_braces_and_quoted_characters():
    parsed = pipeline_text.parse('builtin.module(inline{default-pipeline=a{b} opts="}),("},cse)')
    assert parsed == NestedPipeline(
        "builtin.module",
        (PassCall("inline", 'default-pipeline=a{b} opts="}),("', 16), PassCall("cse", "", 58)),
        1,
    )


def test_spaces_between_elements_mean_nothing():
    parsed = pipeline_text.parse(" builtin.module( cse , gpu.module ( canonicalize ) ) ")
    assert str(parsed) == "builtin.module(cse,gpu.module(canonicalize))"


def test_an_empty_pipeline_is_one():
    assert pipeline_text.parse("builtin.module()").elements == ()


@pytest.mark.parametrize(
    ("text", "column", "words"),
    [
        ("cse", 1, "inside an anchor"),
        ("builtin.module(cse", 15, "'(' is never closed"),
        ("builtin.module(cse{a=1)", 19, "'{' is never closed"),
        ("builtin.module(cse))", 20, "after the pipeline"),
        ("builtin.module(cse,,cse)", 20, "expected the name"),
        ("builtin.module(cse canonicalize)", 16, "expected the name"),
        ("builtin.module{x}(cse)", 1, "has no options"),
        ("builtin.module(cse}", 19, "expected ',' or ')'"),
        ("", 1, "expected the name"),
    ],
)
def test_malformed_text_is_refused_at_its_column(text, column, words):
    with pytest.raises(UsageError, match="bad-pipeline") as caught:
        pipeline_text.parse(text)
    assert caught.value.diagnostic.place.column == column
    assert words in caught.value.diagnostic.message


def steps(text: str, context, single: bool = False) -> list[str]:
    found = pass_steps.make(pipeline_text.parse(text), context, {}, single=single)
    return [
        step.text
        if isinstance(step, pass_steps.MlirStep)
        else f"{step.name} @ {'/'.join(step.anchors)}"
        for step in found
    ]


def test_a_pipeline_without_our_passes_is_one_step(context):
    text = "builtin.module(cse,func.func(canonicalize),symbol-dce)"
    assert steps(text, context) == [text]


def test_a_nest_is_cut_at_our_pass(context):
    assert steps(
        "builtin.module(cse,func.func(canonicalize,async-pipe-schedule,cse),symbol-dce)", context
    ) == [
        "builtin.module(cse)",
        "builtin.module(func.func(canonicalize))",
        "async-pipe-schedule @ builtin.module/func.func",
        "builtin.module(func.func(cse))",
        "builtin.module(symbol-dce)",
    ]


def test_our_pass_two_levels_down_is_found(context):
    assert steps(
        "builtin.module(gpu.module(gpu.func(async-pipe-schedule),canonicalize))", context
    ) == [
        "async-pipe-schedule @ builtin.module/gpu.module/gpu.func",
        "builtin.module(gpu.module(canonicalize))",
    ]


def test_single_steps_open_up_named_pipelines(context):
    found = steps("builtin.module(cse,gpu.module(cse))", context, single=True)
    assert found == ["builtin.module(cse)", "builtin.module(gpu.module(cse))"]


def test_the_text_of_steps_parses_to_the_same_steps(context):
    text = "builtin.module(cse,func.func(async-pipe-schedule,cse))"
    made = pass_steps.make(pipeline_text.parse(text), context, {}, single=False)
    again = pass_steps.text_of(made, "builtin.module")
    assert again == "builtin.module(cse,func.func(async-pipe-schedule),func.func(cse))"
    assert steps(again, context)[-2:] == steps(text, context)[-2:]


@pytest.mark.parametrize(
    ("text", "code", "column"),
    [
        ("builtin.module(cse,no-such-pass)", "unknown-pass", 20),
        ("builtin.module(cse,async-pipe-no-such-pass)", "unknown-pass", 20),
        ("builtin.module(canonicalize{no-such-option=1})", "bad-pass-options", 16),
        ("builtin.module(canonicalize{max-iterations=x})", "bad-pass-options", 16),
        ("builtin.module(async-pipe-schedule{no-such-option})", "unknown-option", 16),
        ("builtin.module(async-pipe-schedule{num-stages=x})", "bad-option-value", 16),
        ("builtin.module(convert-gpu-to-nvvm)", "bad-pipeline", 16),
    ],
)
def test_what_a_pipeline_may_not_hold_is_refused_at_its_column(text, code, column, context):
    with pytest.raises(UsageError) as caught:
        steps(text, context)
    assert caught.value.code == code
    assert caught.value.diagnostic.place.column == column


def test_defaults_fill_only_options_that_are_not_given(context):
    made = pass_steps.make(
        pipeline_text.parse("builtin.module(async-pipe,async-pipe{chip=sm_90})"),
        context,
        {"chip": "sm_80", "smem_limit": 4096, "no_such_field": 1},
        single=False,
    )
    assert [(step.options.chip, step.options.smem_limit) for step in made] == [
        ("sm_80", 4096),
        ("sm_90", 4096),
    ]
