"""The ways between an op and its regions: complete for every row that says how control moves.

Covers: facts/flow/region_flow.py, facts/flow/flow_graph.py
"""

import pytest

from helpers.control_flow_programs import BRANCHES, OTHERWISE, only, program, result_program
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import operations, walk_named
from mlir_async_pipe.facts.flow.algorithms import reached
from mlir_async_pipe.facts.flow.flow_graph import connect, forwarded_along, item_with_frames
from mlir_async_pipe.facts.flow.region_flow import (
    OUT,
    UNKNOWN,
    leaves,
    origins,
    repeated_in,
    runs_again,
    sources,
    successors,
    targets,
)
from mlir_async_pipe.vocabulary.control_flow import REGION_ROWS, RegionRow

IN_PLACE = ("for", "while", "branch", "once")
FOLLOWED = [row.op for row in REGION_ROWS.values() if row.flow in IN_PLACE]
ALONE = [RegionRow("my.op", "unknown"), *(r for r in REGION_ROWS.values() if r.op not in FOLLOWED)]
SHOWN = [name for name in FOLLOWED if name not in OTHERWISE]


@pytest.mark.parametrize("name", FOLLOWED)
@pytest.mark.parametrize("regions", (1, 2, 3))
def test_every_region_is_entered_and_left(name, regions):
    row = REGION_ROWS[name]
    regions = {"for": 1, "once": 1, "while": 2}.get(row.flow, regions)
    places = {*range(regions), OUT}
    assert reached(targets(row, OUT, regions), lambda at: targets(row, at, regions)) == places
    assert reached(sources(row, OUT, regions), lambda at: sources(row, at, regions)) == places


@pytest.mark.parametrize("row", ALONE, ids=[row.op for row in ALONE])
def test_regions_of_other_threads_and_unknown_ones_have_no_ways(row):
    assert [*sources(row, OUT, 2), *sources(row, 0, 2), *targets(row, OUT, 2)] == []


@pytest.mark.parametrize("name", SHOWN)
def test_frames_are_those_regions_that_may_run(name):
    with new_context():
        module = program(name)
        item = item_with_frames(only(module, name))
        assert [len(frame.nodes) for frame in item.frames] in ([1], [1, 0], [1, 1])
        assert all(node.exits for frame in item.frames for node in frame.nodes)


def what_result_may_be(name):
    """What the result of an op that hands on %c0 or %n may come from, by its name."""
    module = result_program(name)
    op = only(module, name)
    found = origins(op.results[0])
    values = set(found.values)
    for value in found.values:
        values |= set(origins(value).values)
    arguments = op.block.arguments
    names = {arguments[number]: text for number, text in ((1, "%n"), (2, "%c0"))}
    assert found.complete
    return {names[value] for value in values if value in names}


@pytest.mark.parametrize("name", [row.op for row in REGION_ROWS.values() if row.carries])
def test_results_of_every_row_that_carries_come_from_where_it_says(name):
    with new_context():
        expected = {"%n"} if name == "memref.alloca_scope" else {"%n", "%c0"}
        assert what_result_may_be(name) == expected


def test_values_of_an_unknown_op_come_from_nowhere():
    with new_context():
        text = 'func.func @f() { %r = "my.op"() ({ ^a(%x: index): "my.end"(%x) : (index) -> () }) : () -> index return }'
        module = ir.Module.parse(text)
        op = only(module, "my.op")
        assert origins(op.results[0]) == UNKNOWN
        assert origins(op.regions[0].blocks[0].arguments[0]) == UNKNOWN


@pytest.mark.parametrize("name", BRANCHES)
def test_branch_leads_to_its_blocks_and_stays_in_its_region(name):
    with new_context():
        module = program(name)
        op = only(module, name)
        frame = item_with_frames(op.parent).frames[0]
        nodes = {node.block: node for node in frame.nodes}
        connect(frame, nodes, lambda node: operations(node.block)[-1])
        assert not leaves(op) and not frame.entry.exits
        along = forwarded_along(frame.entry, op)
        assert [(node.block, given) for node, given in along] == [
            (block, []) for block in successors(op.block)
        ]


@pytest.mark.parametrize(
    "text,left", (("llvm.unreachable", False), ('"my.end"() : () -> ()', True))
)
def test_control_leaves_by_what_may_return(text, left):
    with new_context():
        module = ir.Module.parse(f"llvm.func @f() {{ {text} }}")
        assert leaves(operations(module.body.operations[0].regions[0].blocks[0])[-1]) == left


STRUCTURES = {
    "straight code": (False, "{}"),
    "a branch": (False, "scf.if %p {{ {} }}"),
    "a loop": (True, "scf.for %i = %c0 to %n step %c1 {{ {} }}"),
    "a branch in a loop": (True, "scf.for %i = %c0 to %n step %c1 {{ scf.if %p {{ {} }} }}"),
    "threads": (True, "scf.parallel (%i) = (%c0) to (%n) step (%c1) {{ {} scf.reduce }}"),
    "blocks": (False, "cf.br ^one\n^one: {} cf.cond_br %p, ^two, ^end\n^two: cf.br ^end\n^end:"),
    "a loop of blocks": (True, "cf.br ^one\n^one: {} cf.cond_br %p, ^one, ^end\n^end:"),
    "before a loop of blocks": (False, "{} cf.br ^one\n^one: cf.cond_br %p, ^one, ^end\n^end:"),
    "a branch in a loop of blocks": (
        *(True, "cf.br ^one\n^one: scf.if %p {{ {} }} cf.cond_br %p, ^one, ^end\n^end:"),
    ),
    "a loop of blocks in a region": (
        True,
        "scf.execute_region {{ cf.br ^one\n^one: {} cf.cond_br %p, ^one, ^end\n^end: scf.yield }}",
    ),
    "regions of which nothing is known": (
        True,
        '"my.op"() ({{ {} "my.end"() : () -> () }}) : () -> ()',
    ),
}


AROUND = """func.func @f(%p: i1, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  {}
  return
}}"""


@pytest.mark.parametrize("name", STRUCTURES)
def test_control_comes_back_by_loops_of_any_kind(name):
    again, around = STRUCTURES[name]
    with new_context() as context:
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(AROUND.format(around.format("gpu.barrier")))
        (barrier,) = walk_named(module, "gpu.barrier".__eq__)
        assert runs_again(barrier) == again


def test_the_outermost_op_in_which_control_comes_back_is_named():
    around = "scf.for %i = %c0 to %n step %c1 {{ scf.if %p {{ scf.for %j = %c0 to %n step %c1 {{ {} }} }} }}"
    with new_context():
        module = ir.Module.parse(AROUND.format(around.format("gpu.barrier")))
        (barrier,) = walk_named(module, "gpu.barrier".__eq__)
        outer, inner = walk_named(module, "scf.for".__eq__)
        assert repeated_in(barrier) == repeated_in(inner) == outer and repeated_in(outer) is None
