"""A barrier in a region of the body orders what the input's other barriers do, if all threads
surely run it.

Covers: facts/loops/statements.py, pipeliner/plan/barrier_pairs.py
"""

import pytest

import mlir_async_pipe
from helpers.control_flow_loops import known, results, scheduled
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.loops.statements import barriers_of, read_body

SURE = ("scf.execute_region", "memref.alloca_scope", "scf.while")
UNSURE = ("scf.if", "scf.index_switch", "scf.for", "cf.cond_br", "func.call")


def kernel(op: str) -> ir.Module:
    """for j: [copy A[j] to B] [op { barrier }] [O[j] = B of another thread] [barrier]"""
    return scheduled(ir.Module.parse(known(op, "plain", "barrier")), "explicit")


def held(module: ir.Module) -> list[str]:
    loops = [
        op for op in walk(module) if op.name == "scf.for" and "async_pipe.stage" in op.attributes
    ]
    return [op.name for op in barriers_of(read_body(loops[0]))]


@pytest.mark.parametrize("op", SURE)
def test_a_barrier_that_a_statement_surely_runs_is_derived_for_the_pipeline(op):
    with new_context():
        module = kernel(op)
        assert held(module) == ["gpu.barrier", op]
        report = mlir_async_pipe.pipeline(module)
        assert [(entry.unsafe, entry.unknown) for entry in report.of("checks")] == [(0, 0)]


def test_the_pipeline_around_such_a_barrier_computes_what_the_loop_did():
    with new_context():
        module = kernel("scf.execute_region")
        scalars = [(0, 2, 3)]
        expected = results(module, "eager", scalars)
        mlir_async_pipe.pipeline(module)
        assert results(module, "late", scalars) == expected
        assert expected[0][1] == ()


@pytest.mark.parametrize("op", UNSURE)
def test_a_barrier_that_may_be_passed_by_orders_nothing(op):
    with new_context():
        assert held(kernel(op)) == ["gpu.barrier"]
