"""What somebody meets in the first hour: wrong calls are told what is wrong, and help shows names.

Covers: api.py, facts/loops/annotations.py, session/passes.py, passes.py
"""

from __future__ import annotations

import dataclasses
import inspect

import numpy as np
import pytest

import mlir_async_pipe
from helpers.driver_process import opt
from helpers.paths import ROOT
from mlir_async_pipe import api, bindings, machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import InputError, LoweringError, UsageError

EXAMPLES = ROOT / "examples"
ADD_ONE = (EXAMPLES / "add_one.mlir").read_text()

BETWEEN_TILES = """
gpu.module @kernels {
  gpu.func @move(%to: memref<64xf32>) workgroup(
      %a: memref<64xf32, #gpu.address_space<workgroup>>,
      %b: memref<64xf32, #gpu.address_space<workgroup>>) kernel
      attributes {known_block_size = array<i32: 1, 1, 1>} {
    %c0 = arith.constant 0 : index
    %one = arith.constant 1.0 : f32
    memref.store %one, %a[%c0] : memref<64xf32, #gpu.address_space<workgroup>>
    %copy = nvgpu.device_async_copy %a[%c0], %b[%c0], 1 : memref<64xf32, #gpu.address_space<workgroup>> to memref<64xf32, #gpu.address_space<workgroup>>
    %group = nvgpu.device_async_create_group %copy
    nvgpu.device_async_wait %group
    %v = memref.load %b[%c0] : memref<64xf32, #gpu.address_space<workgroup>>
    memref.store %v, %to[%c0] : memref<64xf32>
    gpu.return
  }
}
"""


@pytest.fixture(autouse=True)
def context():
    with new_context() as entered:
        yield entered


def test_a_copy_between_tiles_is_no_cp_async():
    module = ir.Module.parse(BETWEEN_TILES)
    with pytest.raises(LoweringError, match="reads workgroup memory") as raised:
        mlir_async_pipe.lower(module, target="nvvm:sm_80", emit="llvm")
    assert raised.value.code == "copy-spaces"


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"num_stages": 0}, "num-stages-too-small"),
        ({"num_stages": 2, "epilogue": "never"}, "bad-annotation"),
        ({"num_stages": 2, "stage": [0, 1]}, "conflicting-annotations"),
        ({"num_stages": 2, "depth": "3"}, "unknown-annotation"),
    ],
)
def test_a_refused_annotation_leaves_the_loop_as_it_was(wrong, code):
    module = ir.Module.parse(ADD_ONE)
    before = str(module)
    (loop,) = mlir_async_pipe.find_loops(module)
    with pytest.raises(InputError) as raised:
        mlir_async_pipe.annotate(loop, **wrong)
    assert raised.value.code == code
    assert str(module) == before


@pytest.mark.parametrize("call", ["pipeline", "count_waits", "check"])
@pytest.mark.parametrize("nothing", [None, ADD_ONE])
def test_what_is_no_module_is_reported(call, nothing):
    with pytest.raises(UsageError) as raised:
        getattr(mlir_async_pipe, call)(nothing)
    assert raised.value.code == "not-a-module"


def test_a_function_is_pipelined_as_its_module_is():
    """In place, with what its module says of launches; one that no module holds as well."""
    text = (EXAMPLES / "gemm.mlir").read_text()
    with new_context():
        whole, parts = ir.Module.parse(text), ir.Module.parse(text)
        (function,) = (op for op in walk(parts.operation) if op.name == "gpu.func")
        alone = function.clone(ip=False).operation
        for root in (whole, function, alone):
            mlir_async_pipe.pipeline(root, target="nvvm:sm_80")
        assert str(parts) == str(whole)
        waits = [str(op) for op in walk(alone) if op.name == "nvgpu.device_async_wait"]
        assert waits and all("numGroups" in wait for wait in waits)


def test_lowering_what_is_no_module_is_reported():
    with pytest.raises(UsageError, match=r"ir\.Module"):
        mlir_async_pipe.lower(None, target="nvvm:sm_80")


def test_a_kind_of_record_that_nobody_makes_is_an_error():
    report = mlir_async_pipe.check(ir.Module.parse(ADD_ONE))
    assert report.of("races") == ()
    with pytest.raises(UsageError, match="did you mean 'waits'"):
        report.of("wait")


def test_the_machine_takes_the_block_size_that_the_kernel_states():
    ones = np.ones(8192, np.float32)
    module = ir.Module.parse(ADD_ONE)
    done = machine.run(module, "add_one", [ones, np.zeros_like(ones)], target="nvvm:sm_80")
    assert np.array_equal(done.arrays[1], ones + 1)
    few = machine.run(module, "add_one", [ones, np.zeros_like(ones)], threads=1)
    assert not np.array_equal(few.arrays[1], ones + 1)


def test_the_tool_runs_with_the_block_size_that_the_kernel_states():
    ended = opt(
        "--run=add_one", "--arg=8192xf32", "--arg=zeros:8192xf32", EXAMPLES / "add_one.mlir"
    )
    assert ended.code == 0
    assert "races: 0" in ended.out
    assert "last 0\n" not in ended.out


@pytest.mark.parametrize(
    ("flag", "advice"),
    [("--mlir-print-ir-after-al", "'--mlir-print-ir-after-all'"), ("--mlir-frobnicate", "--help")],
)
def test_unknown_options_of_mlir_are_no_passes(flag, advice):
    ended = opt(flag, EXAMPLES / "add_one.mlir")
    assert ended.code == 1
    assert f"unknown option '{flag}'" in ended.err
    assert advice in ended.err


def test_dumps_after_all_passes_go_down_to_code():
    ended = opt(
        EXAMPLES / "add_one.mlir", "--async-pipe", "--target=nvvm:sm_80", "--emit=llvm",
        "--mlir-print-ir-after-all",
    )  # fmt: skip
    assert ended.code == 0
    assert "IR Dump After async-pipe-count-waits" in ended.err


def test_names_are_listed():
    assert set(mlir_async_pipe.__all__) <= set(dir(mlir_async_pipe))
    assert "importlib" not in dir(mlir_async_pipe)


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ("pipeline", "async-pipe"),
        ("count_waits", "async-pipe-count-waits"),
        ("check", "async-pipe-check"),
    ],
)
def test_keywords_of_a_call_are_the_options_of_its_pass(call, name):
    fields = {f.name: f.default for f in dataclasses.fields(passes.find(name).options)}
    parameters = inspect.signature(getattr(api, call)).parameters.values()
    keywords = {p.name: p.default for p in parameters if p.kind is p.KEYWORD_ONLY}
    # The chip is that of the target; witnesses are an option of the session, not of a pass, and
    # whether an answer is kept one of the call.
    of_session = {} if call == "check" else {"witnesses": True}
    of_call = {"cache": True} if call == "pipeline" else {}
    assert {**keywords, "chip": ""} == {**fields, **of_session, **of_call}


def test_a_kernel_made_by_op_classes_reaches_code():
    gpu = bindings.load("dialects.gpu")
    module = ir.Module.parse("gpu.module @kernels {}")
    block = module.body.operations[0].regions[0].blocks[0]
    with ir.InsertionPoint(block), ir.Location.unknown():
        kind = ir.FunctionType.get([ir.MemRefType.get([16], ir.F32Type.get())], [])
        gpu.GPUFuncOp(kind, sym_name="f", kernel=True, body_builder=lambda *_: gpu.ReturnOp([]))
    lowered = mlir_async_pipe.lower(module, target="nvvm:sm_80", emit="llvm")
    assert lowered.text.count("gpu.kernel") == 1


@pytest.mark.skipif(
    "flydsl" not in [stack.name for stack in bindings.installed()], reason="flydsl is not installed"
)
def test_bindings_that_cannot_convert_to_nvvm_are_reported():
    ended = opt(
        EXAMPLES / "add_one.mlir", "--bindings=flydsl", "--target=nvvm:sm_80", "--async-pipe",
        "--emit=ptx",
    )  # fmt: skip
    assert ended.code == 1
    assert "bindings-incomplete" in ended.err
