"""An annotated loop around an op that moves control is refused, with a place and a code, or its
result is proven and, where the machine can run it, right under late completion.

A refusal leaves the module as it was. With ASYNC_PIPE_NIGHTLY every op that the dialects register
stands around every part of the body; otherwise each one around some part.

Covers: pipeliner/expand/expand_pass.py, pipeliner/dependence/memory_dependences.py, vocabulary/control_flow.py
"""

import itertools
import os

import pytest

import mlir_async_pipe
from helpers.check_harness import check_module
from helpers.control_flow_loops import AROUND, FORMS, SCHEDULES, known, results, scheduled, unknown
from helpers.control_flow_programs import BRANCHES, REGIONS, registered
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError, HazardError
from mlir_async_pipe.vocabulary.control_flow import EXIT_OPS

NIGHTLY = os.environ.get("ASYNC_PIPE_NIGHTLY") == "1"
PLACES = [
    case
    for case in itertools.product(FORMS, AROUND, SCHEDULES)
    if case[:2] != ("plain", "wait")  # A copy by elements has no wait.
]
TABLE = (*REGIONS, *BRANCHES, "func.call")
# An op that ends a block cannot stand in the middle of a loop body.
ELSEWHERE = [op for op in registered() if op[0] not in EXIT_OPS]


def generic(module):
    """The module in the generic form: the printers of some ops crash on what does not verify."""
    return module.operation.get_asm(print_generic_op_form=True)


def judged(module):
    """The report of a pipelined module, or the refusal, which has a place and a code and leaves
    the module as it was."""
    text = generic(module)
    try:
        return mlir_async_pipe.pipeline(module)
    except AsyncPipeError as error:
        assert generic(module) == text
        assert error.code
        assert error.diagnostic.place.line > 0
        return error


def totals(report):
    return [(entry.unsafe, entry.unknown) for entry in report.of("checks")]


@pytest.mark.parametrize("form,place,schedule", PLACES)
@pytest.mark.parametrize("name", TABLE)
def test_loop_around_a_row_is_refused_or_right(name, form, place, schedule):
    with new_context():
        module = scheduled(ir.Module.parse(known(name, form, place)), schedule)
        plain = ir.Module.parse(str(module))
        answer = judged(module)
        if isinstance(answer, HazardError):
            # Proven wrong: the input's own race.
            assert any(unsafe for unsafe, _ in totals(check_module(plain).report))
            return
        if isinstance(answer, AsyncPipeError):
            return
        assert totals(answer) == [(0, 0)]
        # %p true would never leave the scf.while.
        scalars = [(0, 0, 0), (int(name != "scf.while"), 2, 3)]
        try:
            expected = results(plain, "eager", scalars)
        except AsyncPipeError as error:
            assert error.code == "unsupported-op"
            return
        assert [values for values, _ in expected] == [
            values for values, _ in results(module, "late", scalars)
        ]
        assert all(races == () for _, races in results(module, "late", scalars))


def places_of(number):
    """All places, or two of them by turns."""
    if NIGHTLY:
        return PLACES
    return [PLACES[(2 * number + more) % len(PLACES)] for more in (0, 1)]


@pytest.mark.parametrize("number", range(len(ELSEWHERE)), ids=[op[0] for op in ELSEWHERE])
def test_loop_around_an_unknown_op_is_refused_or_never_unsafe(number):
    for form, place, schedule in places_of(number):
        with new_context():
            module = scheduled(unknown(*ELSEWHERE[number], form, place), schedule)
            answer = judged(module)
            if not isinstance(answer, AsyncPipeError):
                assert all(unsafe == 0 and unknown > 0 for unsafe, unknown in totals(answer))


@pytest.mark.parametrize("name", ("scf.if", "scf.for", "scf.index_switch"))
@pytest.mark.parametrize("place", ("copy", "consumer", "beside"))
def test_usual_rows_are_pipelined(name, place):
    with new_context():
        module = scheduled(ir.Module.parse(known(name, "plain", place)), "num_stages")
        assert [loop.stages for loop in judged(module).of("loops")] == [3]
