"""What a launch hands over: as many values, of the sizes, that the entry point has; and what fits.

Covers: lowering/lower.py, lowering/scopes/block_sizes.py, lowering/nvvm/lower_nvvm.py
"""

from __future__ import annotations

import ctypes
from types import SimpleNamespace

import numpy as np
import pytest

import mlir_async_pipe
from helpers.paths import ROOT
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.lowering.lower import launch_values, parameters_of
from mlir_async_pipe.session.diagnostics import AsyncPipeError, UsageError

SIZES = {"u64": 8, "s64": 8, "b64": 8, "f64": 8, "u32": 4, "b32": 4, "f32": 4, "u16": 2, "b16": 2}
SIZES |= {"u8": 1, "b8": 1, "b8[2]": 2}
KERNEL = """
gpu.module @m {{
  gpu.func @k({arguments}) kernel attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    gpu.return
  }}
}}"""


def lowered(arguments: str, target: str = "nvvm:sm_80", **options):
    with new_context():
        module = ir.Module.parse(KERNEL.format(arguments=arguments))
        return mlir_async_pipe.lower(module, target=target, **options)


def values_of(arguments: str, values, *, bare: bool = False):
    with new_context():
        module = ir.Module.parse(KERNEL.format(arguments=arguments))
        (parameters,) = parameters_of(module.operation, bare_pointers=bare).values()
    return launch_values(parameters, values)


KINDS = "%a: memref<?x4xf16>, %b: index, %c: i32, %d: f32, %e: f64, %f: i16, %g: i8, %h: i1, %i: f16, %j: memref<f32>"


@pytest.mark.slow
def test_the_entry_point_has_these_parameters_in_this_order():
    code = lowered(KINDS)
    read = code.kernels[0].ptx
    assert [SIZES[kind] for kind in read.parameters] == [p.bytes for p in code.parameters["k"]]
    assert read.threads == (32, 1, 1)
    assert [p.kind for p in code.parameters["k"]][:7] == [
        "pointer", "pointer", "offset", "size", "size", "stride", "stride",
    ]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("name", ["gemm", "attention_tile", "gemm_contract"])
def test_entry_points_of_the_examples_have_these_parameters(name):
    with new_context():
        module = ir.Module.parse((ROOT / "examples" / f"{name}.mlir").read_text())
        mlir_async_pipe.pipeline(module, "nvvm:sm_80")
        code = mlir_async_pipe.lower(module, target="nvvm:sm_80")
    for kernel in code.kernels:
        reported = [p.bytes for p in code.parameters[kernel.name]]
        assert [SIZES[kind] for kind in kernel.ptx.parameters] == reported != []


@pytest.mark.slow
@pytest.mark.parametrize(("target", "emit"), [("nvvm:sm_80", "ptx"), ("rocdl:gfx950", "isa")])
def test_bare_pointers_are_one_parameter_a_memref(target, emit):
    arguments = "%a: memref<4x4xf32>, %b: memref<8xi8>, %n: i32"
    code = lowered(arguments, target, emit=emit, bare_pointers=True)
    assert [p.kind for p in code.parameters["k"]] == ["pointer", "pointer", "number"]
    if emit == "ptx":
        assert code.kernels[0].ptx.parameters == ("u64", "u64", "u32")
    else:
        assert ".kernarg_segment_size: 20" in code.text


@pytest.mark.parametrize(
    "kind",
    ["memref<?xf32>", "memref<4xf32, strided<[2]>>", "memref<4xf32, strided<[1], offset: 2>>"],
)
def test_a_bare_pointer_tells_nothing_but_the_place(kind):
    with pytest.raises(AsyncPipeError) as caught:
        lowered(f"%a: {kind}", bare_pointers=True)
    assert caught.value.code == "launch-argument" and "'k'" in str(caught.value)


def test_values_of_a_descriptor():
    array = np.zeros((6, 4), np.float16)
    found = values_of("%a: memref<?x4xf16>, %n: index", [array, 7])
    where = array.__array_interface__["data"][0]
    assert [value.value for value in found] == [where, where, 0, 6, 4, 4, 1, 7]


def test_strides_are_those_of_the_array_in_elements():
    array = np.zeros((6, 8), np.float32)[:, ::2]
    found = values_of("%a: memref<?x?xf32, strided<[?, ?]>>", [array])
    assert [value.value for value in found][3:] == [6, 4, 8, 2]


def test_an_array_on_a_device_says_where_it_is():
    described = {"data": (4096, False), "shape": (3,), "typestr": "<f4"}
    device = SimpleNamespace(__cuda_array_interface__=described)
    assert [v.value for v in values_of("%a: memref<?xf32>", [device])] == [4096, 4096, 0, 3, 1]
    assert [v.value for v in values_of("%a: memref<3xf32>", [device], bare=True)] == [4096]
    assert [v.value for v in values_of("%a: !llvm.ptr", [4096])] == [4096]


@pytest.mark.parametrize(
    ("kind", "value", "ctype", "held"),
    [
        ("i32", -2, ctypes.c_int32, -2),
        ("i1", True, ctypes.c_bool, True),
        ("f32", 0.5, ctypes.c_float, 0.5),
        ("f64", 0.1, ctypes.c_double, 0.1),
        ("f16", 1.0, ctypes.c_uint16, 0x3C00),
        ("bf16", 1.0, ctypes.c_uint16, 0x3F80),
        ("bf16", 1.00390625, ctypes.c_uint16, 0x3F80),  # 1 + 2^-8: a tie, to even
        ("bf16", 1.01171875, ctypes.c_uint16, 0x3F82),  # 1 + 3 * 2^-8: a tie, to even
    ],
)
def test_numbers_are_handed_over_in_their_type(kind, value, ctype, held):
    (found,) = values_of(f"%a: {kind}", [value])
    assert type(found) is ctype and found.value == held


@pytest.mark.parametrize(
    ("arguments", "values"),
    [
        ("%a: memref<?xf32>", []),
        ("%a: memref<?xf32>", [1]),
        ("%a: memref<?xf32>", [np.zeros((2, 2), np.float32)]),
        ("%a: memref<4xf32>", [np.zeros(5, np.float32)]),
        ("%a: memref<?xf32>", [np.zeros(4, np.float16)]),
        ("%a: i32", ["seven"]),
        ("%a: vector<4xf32>", [np.zeros(4, np.float32)]),
    ],
)
def test_what_does_not_fit_is_refused(arguments, values):
    with pytest.raises(UsageError) as caught:
        values_of(arguments, values)
    assert caught.value.code == "launch-argument"


@pytest.mark.slow
def test_arguments_of_a_kernel_that_is_not_there():
    code = lowered("%n: i32")
    assert [value.value for value in code.arguments("k", [3])] == [3]
    with pytest.raises(UsageError) as caught:
        code.arguments("gemm", [])
    assert caught.value.code == "launch-argument" and "there is k" in str(caught.value)
