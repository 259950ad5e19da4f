"""A region that ends where control never comes is left by no engine: not by the graph of the
counts, nor that of the checker, nor by `origins`.

Covers: facts/flow/flow_graph.py, facts/flow/region_flow.py, waits/summaries.py, checker/kernel_flow.py
"""

import pytest

from helpers.control_flow_programs import COPY, REGIONS, RESULTS, only, program, result_program
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.bindings.raw_ops import before, create, terminator, walk
from mlir_async_pipe.checker import kernel_flow
from mlir_async_pipe.checker.selection import callable_functions
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.flow.conditions import Conditions
from mlir_async_pipe.facts.flow.flow_graph import FlowGraph
from mlir_async_pipe.facts.flow.region_flow import OUT, origins, targets
from mlir_async_pipe.facts.flow.solver import Semiring, Solver
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.vocabulary.control_flow import DEAD_ENDS, REGION_ROWS, regions_of

WAIT = "\n  nvgpu.device_async_wait %gbefore\n"
# The other branches have code in one region here.
REGIONS_WITH_CODE = {"scf.index_switch": 2, "scf.while": 2}
PLACES = [(name, n) for name in REGIONS for n in range(REGIONS_WITH_CODE.get(name, 1))]


class Comes(Semiring[bool]):
    """Whether control comes through at all."""

    unit, never, outside = True, False, True
    over = staticmethod(lambda item: True)

    def then(self, first, later):
        return first and later

    def join(self, first, second):
        return first or second


def cut(last, end="llvm.unreachable"):
    """Let a block end where control never comes, whether or not its op may hold such an end."""
    create(end, [], ip=before(last), loc=last.location)
    last.erase()


def with_dead_end(name, region, end="llvm.unreachable"):
    """A program with a wait after an op one of whose regions is a dead end."""
    module = program(name, before=COPY, inside=COPY, after=WAIT)
    cut(terminator(only(module, name).regions[region].blocks[0]), end)
    return module


def comes_after(op, dead):
    """What the rows say: whether control comes past an op of which one region is not left. Those
    of other threads, and those that may run no times at all, keep nobody."""
    row = REGION_ROWS[op.name]
    number = len(regions_of(op, row))
    if not targets(row, OUT, number):
        return True
    on = {place: targets(row, place, number) for place in range(number) if place != dead}
    return OUT in reached(targets(row, OUT, number), lambda place: on.get(place, ()))


def comes_in_graph_of_counts(module):
    graph = FlowGraph(module.operation)
    solver = Solver(Conditions(graph), [*graph.commits, *graph.waits], Comes(), lambda root: True)
    (wait,) = graph.waits
    return solver.before.get(wait, False)


def comes_in_graph_of_checker(module):
    kernel = only(module, "func.func")
    flow = kernel_flow.build(kernel, callable_functions(module.operation), has_assembly=False)
    blocks = reached(
        [flow.blocks[0].number],
        lambda number: [edge.target for edge in flow.edges(flow.blocks[number])],
    )
    steps = [step for number in blocks for step in flow.blocks[number].steps]
    return any(step.op.name == "nvgpu.device_async_wait" for step in steps if hasattr(step, "op"))


def count_of(module):
    session = Session()
    found = passes.find("async-pipe-count-waits")
    found.run(module.operation, found.options(), session)
    (wait,) = session.report().of("waits")
    return wait


@pytest.mark.parametrize("name,region", PLACES)
def test_all_engines_agree_on_what_comes_after_a_dead_end(name, region):
    with new_context():
        module = with_dead_end(name, region)
        expected = comes_after(only(module, name), region)
        assert comes_in_graph_of_counts(module) == expected
        assert comes_in_graph_of_checker(module) == expected
        assert (count_of(module).reason != "unreachable") == expected


@pytest.mark.parametrize("end", DEAD_ENDS)
def test_every_dead_end_is_one(end):
    with new_context():
        module = with_dead_end("scf.execute_region", 0, end)
        assert module.operation.verify()
        assert not comes_in_graph_of_counts(module) and not comes_in_graph_of_checker(module)


@pytest.mark.parametrize("end", DEAD_ENDS)
def test_nothing_comes_back_from_a_function_that_is_a_dead_end(end):
    with new_context():
        module = program("func.call", before=COPY, inside=COPY, after=WAIT)
        callee = [op for op in walk(module) if op.name == "func.func"][1]
        cut(terminator(callee.regions[0].blocks[0]), end)
        assert module.operation.verify()
        assert count_of(module).reason == "unreachable"
        assert not comes_in_graph_of_checker(module)


@pytest.mark.parametrize("name", RESULTS)
def test_no_value_comes_from_a_dead_end(name):
    with new_context():
        module = result_program(name)
        op = only(module, name)
        handed = [end for _, end in origins(op.results[0]).entries]
        cut(next(end for end in handed if end != op))
        found = origins(op.results[0])
        assert found.complete and len(found.entries) == len(handed) - 1
