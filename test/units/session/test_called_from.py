"""Errors and returned diagnostics of modules that are in no file name the line of Python that made the call.

Covers: session/called_from.py
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from mlir_async_pipe import api, machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError, PipelineError

TEXT = """func.func @outer(%m: memref<8xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c8 = arith.constant 8 : index
  scf.for %i = %c0 to %c8 step %c1 {
    %v = memref.load %m[%i] : memref<8xf32>
    memref.store %v, %m[%c0] : memref<8xf32>
  } {async_pipe.num_stages = 2 : i64}
  return
}
"""


def line() -> int:
    """The line after that of the call."""
    return sys._getframe(1).f_lineno + 1


def module(text: str = TEXT) -> ir.Module:
    return ir.Module.parse(text, new_context())


def test_a_module_parsed_from_a_string_keeps_its_lines_and_names_the_call():
    parsed = module()
    with pytest.raises(PipelineError) as refused:
        at = line()
        api.pipeline(parsed)
    reported = refused.value.diagnostic
    assert reported.place.line == 6
    assert (reported.notes[-1].place.file, reported.notes[-1].place.line) == (__file__, at)
    assert f"{__file__}:{at}:9: note: called from here" in str(refused.value)


def test_an_error_without_a_place_has_that_of_the_call():
    parsed = module()
    with pytest.raises(AsyncPipeError) as refused:
        at = line()
        machine.run(parsed, "nope")
    assert refused.value.code == "no-function"
    assert str(refused.value).startswith(f"{__file__}:{at}:9: error: no function 'nope'")


def test_a_wrong_argument_has_the_place_of_the_call():
    with pytest.raises(AsyncPipeError) as refused:
        at = line()
        machine.run(module(), "outer", [np.zeros(7, np.float32)])
    assert (refused.value.diagnostic.place.file, refused.value.diagnostic.place.line) == (
        __file__,
        at,
    )
    assert refused.value.diagnostic.notes == ()


def test_diagnostics_of_a_returned_report_name_the_call():
    one_stage = TEXT.replace("num_stages = 2", "num_stages = 1")
    # The second result is kept from the first call.
    for parsed in (module(one_stage), module(one_stage)):
        at = line()
        (reported,) = api.pipeline(parsed).diagnostics
        assert (reported.code, reported.place.line) == ("one-stage", 5)
        assert reported.notes[-1].message.startswith("called from here")
        assert (reported.notes[-1].place.file, reported.notes[-1].place.line) == (__file__, at)


def test_a_file_of_its_own_needs_no_call():
    with new_context() as context:
        placed = ir.Module.parse(TEXT)
        text = placed.operation.get_asm(enable_debug_info=True).replace('"-"', '"k.mlir"')
        named = ir.Module.parse(text, context)
    with pytest.raises(PipelineError) as refused:
        api.pipeline(named)
    assert refused.value.diagnostic.place.file == "k.mlir"
    assert "called from" not in str(refused.value)


def test_a_module_without_locations_is_told_how_to_have_them():
    text = module().operation.get_asm(enable_debug_info=True).replace('"-":', '"":')
    lines = [f"#loc{entry.split('#loc')[1].split('=')[0].strip()} = loc(unknown)"
             if entry.startswith("#loc") else entry for entry in text.splitlines()]  # fmt: skip
    with pytest.raises(PipelineError) as refused:
        at = line()
        api.pipeline(module("\n".join(lines)))
    assert str(refused.value).startswith(f"{__file__}:{at}:")
    assert "ir.loc_tracebacks()" in str(refused.value)


@pytest.mark.skipif(not hasattr(ir, "loc_tracebacks"), reason="the bindings have no tracebacks")
def test_ops_built_with_tracebacks_are_found_where_they_were_built():
    with new_context(), ir.loc_tracebacks():
        built = ir.Module.create()
        with ir.InsertionPoint(built.body):
            at = line()
            ir.Operation.create("scf.for")
    from mlir_async_pipe.session.diagnostics import Place

    (op,) = built.body.operations
    assert (Place.of(op).file, Place.of(op).line) == (__file__, at)


@pytest.mark.parametrize(
    ("call", "wrong", "meant"),
    [(machine.run, "blocks", "grid"), (machine.run, "thread", "threads"),
     (api.pipeline, "stages", "num_stages"), (api.lower, "bare_pointer", "bare_pointers")],
)  # fmt: skip
def test_a_wrong_name_of_an_argument_is_answered(call, wrong, meant):
    with pytest.raises(TypeError, match=f"no argument '{wrong}'; did you mean '{meant}'"):
        call(module(), **{wrong: 2})


def test_options_of_any_pass_are_handed_on():
    report = api.run_pass("async-pipe-check", module(), chip="sm_80")
    assert report.of("checks") == ()
