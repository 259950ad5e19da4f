"""Statements and their numbers, the op form, and the schedule that num_stages stands for.

Covers: pipeliner/schedule/schedule_pass.py, pipeliner/schedule/by_count.py,
facts/loops/statements.py, facts/loops/annotations.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe import annotate, bindings, find_loops
from mlir_async_pipe.facts.loops.statements import read_body
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import InputError
from mlir_async_pipe.session.report import Session

ir = bindings.ir

FUNCTION = """
#wg = #gpu.address_space<workgroup>
func.func @f(%A : memref<64xf32> {{llvm.noalias}}, %C : memref<64xf32> {{llvm.noalias}},
             %x : f32, %rows : memref<16xindex> {{llvm.noalias}}) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %S = memref.alloca() : memref<4xf32, #wg>
  scf.for %i = %c0 to %c16 step %c1 {{
    {body}
  }} {attributes}
  return
}}
"""
COPY = "%t = nvgpu.device_async_copy %A[{row}], %S[%c0], 4 : memref<64xf32> to memref<4xf32, #wg>"
READ = "%s = memref.load %S[%c0] : memref<4xf32, #wg>"
WRITE = "memref.store {value}, %C[%i] : memref<64xf32>"
ROW = "%row = memref.load %rows[%i] : memref<16xindex>"


def parse(body: list[str], attributes: str = ""):
    """The module, and its loop."""
    text = FUNCTION.format(
        body="\n    ".join(body), attributes=f"{{{attributes}}}" if attributes else ""
    )
    module = ir.Module.parse(text, bindings.new_context())
    (function,) = module.body.operations
    loop = next(
        op.operation
        for op in function.regions[0].blocks[0].operations
        if op.operation.name == "scf.for"
    )
    return module, loop


def scheduled(body: list[str], attributes: str):
    """(op name, stage, order, async) of each statement after the schedule pass."""
    module, loop = parse(body, attributes)
    found = passes.find("async-pipe-schedule")
    found.run(module.operation, found.options(), Session())
    return [
        (
            op.operation.name.partition(".")[2],
            ir.IntegerAttr(op.attributes["async_pipe.stage"]).value,
            ir.IntegerAttr(op.attributes["async_pipe.order"]).value,
            "async_pipe.async" in op.attributes,
        )
        for op in loop.regions[0].blocks[0].operations
        if "async_pipe.stage" in op.attributes
    ]


def names(body: list[str]) -> list[str]:
    _, loop = parse(body)
    return [s.op.name for s in read_body(loop).statements]


def test_pure_ops_groups_waits_and_barriers_have_no_number():
    body = [
        COPY.format(row="%i"),
        "%g = nvgpu.device_async_create_group %t",
        "nvgpu.device_async_wait %g",
        "gpu.barrier",
        READ,
        "%sum = arith.addf %s, %x : f32",
        WRITE.format(value="%sum"),
        "gpu.barrier",
    ]
    assert names(body) == ["nvgpu.device_async_copy", "memref.load", "memref.store"]


def test_an_op_with_regions_is_one_statement():
    body = ["%c = arith.cmpi eq, %i, %c0 : index", "scf.if %c {", WRITE.format(value="%x"), "}"]
    assert names(body) == ["scf.if"]


def test_a_stage_makes_a_pure_op_a_statement():
    body = ["%y = arith.addf %x, %x {async_pipe.stage = 0} : f32", WRITE.format(value="%y")]
    assert names(body) == ["arith.addf", "memref.store"]


def test_arrays_go_to_the_statements():
    body = [READ, "%y = arith.addf %s, %x : f32", WRITE.format(value="%y")]
    given = "async_pipe.stage = [0, 1], async_pipe.order = [1, 0], async_pipe.async_stages = [1]"
    assert scheduled(body, given) == [("load", 0, 1, False), ("store", 1, 0, True)]


def test_order_is_textual_where_it_is_absent():
    body = [READ, WRITE.format(value="%s")]
    assert scheduled(body, "async_pipe.stage = array<i64: 0, 2>") == [
        ("load", 0, 0, False),
        ("store", 2, 1, False),
    ]


@pytest.mark.parametrize("stages", [2, 3, 5])
def test_num_stages_puts_copies_first_and_the_rest_last(stages):
    body = [READ, WRITE.format(value="%s"), COPY.format(row="%i")]
    assert scheduled(body, f"async_pipe.num_stages = {stages}") == [
        ("load", stages - 1, 1, False),
        ("store", stages - 1, 2, False),
        ("device_async_copy", 0, 0, True),
    ]


def test_num_stages_takes_an_index_that_is_loaded_along_a_stage_before():
    body = [WRITE.format(value="%x"), ROW, COPY.format(row="%row"), READ]
    assert scheduled(body, "async_pipe.num_stages = 3") == [
        ("store", 2, 2, False),
        ("load", 0, 0, False),
        ("device_async_copy", 1, 1, True),
        ("load", 2, 3, False),
    ]


def test_num_stages_finds_a_load_and_a_store_that_are_a_copy():
    body = [
        "%a = memref.load %A[%i] : memref<64xf32>",
        "memref.store %a, %S[%c0] : memref<4xf32, #wg>",
        READ,
        WRITE.format(value="%s"),
    ]
    assert [
        (stage, is_async) for _, stage, _, is_async in scheduled(body, "async_pipe.num_stages = 2")
    ] == [(0, True), (0, True), (1, False), (1, False)]


def test_a_loop_in_op_form_is_left_as_it_is():
    body = [
        "%s = memref.load %S[%c0] {async_pipe.stage = 0} : memref<4xf32, #wg>",
        "memref.store %s, %C[%i] {async_pipe.stage = 1} : memref<64xf32>",
    ]
    module, _ = parse(body)
    before = str(module)
    found = passes.find("async-pipe-schedule")
    found.run(module.operation, found.options(), Session())
    assert str(module) == before


def test_annotate_writes_what_find_loops_finds():
    module, loop = parse([READ, WRITE.format(value="%s")])
    assert find_loops(module) == []
    annotate(loop, stage=[0, 1], async_stages=[0], wait_at="consumer", independent=True)
    assert find_loops(module) == [loop]
    assert "async_pipe.independent" in loop.attributes


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ({"stage": [0, 1], "num_stages": 2}, "conflicting-annotations"),
        ({"stage": [0, 1], "wait_at": "never"}, "bad-annotation"),
        ({"stage": [0, 1], "waits": "late"}, "unknown-annotation"),
    ],
)
def test_annotate_refuses(arguments, code):
    _, loop = parse([READ, WRITE.format(value="%s")])
    with pytest.raises(InputError) as refusal:
        annotate(loop, **arguments)
    assert refusal.value.code == code


def test_annotate_takes_loops_only():
    module, loop = parse([READ, WRITE.format(value="%s")])
    first = loop.regions[0].blocks[0].operations[0]
    with pytest.raises(InputError) as refusal:
        annotate(first, num_stages=2)
    assert refusal.value.code == "not-a-loop"
    assert module.operation.verify()


@pytest.mark.parametrize(
    "attributes",
    [
        "async_pipe.stage = [0]",
        "async_pipe.stage = [0, -1]",
        "async_pipe.stage = [0, 1], async_pipe.order = [0, 0]",
        "async_pipe.stage = [0, 1], async_pipe.async_stages = [2]",
        "async_pipe.num_stages = 0",
    ],
)
def test_a_refused_loop_leaves_the_module_unchanged(attributes):
    module, _ = parse([READ, WRITE.format(value="%s")], attributes)
    before = str(module)
    found = passes.find("async-pipe-schedule")
    with pytest.raises(InputError):
        found.run(module.operation, found.options(), Session())
    assert str(module) == before
