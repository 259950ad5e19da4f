"""A known block size reaches the code as the exact size, whatever else the kernel states; a cluster size
reaches it too.

Covers: lowering/scopes/block_sizes.py, vocabulary/launch_ids.py
"""

from __future__ import annotations

import re

import pytest

import mlir_async_pipe
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.session.diagnostics import LoweringError

pytestmark = pytest.mark.slow

BESIDE = (
    "",
    ", rocdl.max_flat_work_group_size = 64 : i32",
    ', rocdl.flat_work_group_size = "1,256"',
    ", rocdl.reqd_work_group_size = array<i32: 32, 2, 1>",
    ", nvvm.reqntid = array<i32: 32, 2, 1>",
    ", nvvm.maxntid = array<i32: 64, 2, 1>",
)


def code_of(attributes: str, target: str) -> str:
    text = f"""module attributes {{gpu.container_module}} {{ gpu.module @m {{
      gpu.func @k(%x : f32, %a : memref<64xf32>, %i : index) kernel
        attributes {{known_block_size = array<i32: 32, 2, 1>{attributes}}} {{
        memref.store %x, %a[%i] : memref<64xf32>
        gpu.return }} }} }}"""
    with new_context():
        emit = "ptx" if target.startswith("nvvm") else "isa"
        module = ir.Module.parse(text)
        return str(mlir_async_pipe.lower(module, target=target, emit=emit).text)


@pytest.mark.parametrize("beside", BESIDE)
def test_nvidia_requires_the_size(beside: str) -> None:
    code = code_of(beside, "nvvm:sm_80")
    assert re.search(r"\.reqntid 32, 2, 1", code)
    assert ".maxntid" not in code


@pytest.mark.parametrize("beside", BESIDE)
def test_amd_requires_the_size(beside: str) -> None:
    code = code_of(beside, "rocdl:gfx942")
    assert re.search(r"\.reqd_workgroup_size:\s+- 32\s+- 2\s+- 1", code)
    assert re.search(r"\.max_flat_workgroup_size: 64", code)


@pytest.mark.parametrize("target", ["nvvm:sm_80", "rocdl:gfx942"])
@pytest.mark.parametrize(
    "beside",
    [
        ", rocdl.max_flat_work_group_size = 32 : i32",
        ', rocdl.flat_work_group_size = "128,256"',
        ", nvvm.reqntid = array<i32: 64, 1, 1>",
        ", nvvm.maxntid = array<i32: 32, 1, 1>",
    ],
)
def test_another_size_beside_it_is_refused(beside: str, target: str) -> None:
    with pytest.raises(LoweringError) as caught:
        code_of(beside, target)
    assert caught.value.code == "block-size-conflict"


CLUSTER = """
gpu.module @m {
  gpu.func @k() workgroup(%b : memref<2xi64, #gpu.address_space<workgroup>>) kernel
      attributes {SIZE = array<i32: 2, 1, 1>, known_block_size = array<i32: 64, 1, 1>} {
    %i = memref.extract_aligned_pointer_as_index %b : memref<2xi64, #gpu.address_space<workgroup>> -> index
    %i64 = arith.index_cast %i : index to i64
    %p = llvm.inttoptr %i64 : i64 to !llvm.ptr<3>
    %one = arith.constant 1 : i32
    nvvm.mbarrier.init %p, %one : !llvm.ptr<3>, i32
    %rank = nvvm.read.ptx.sreg.cluster.ctarank : i32
    nvvm.cluster.arrive {aligned}
    nvvm.cluster.wait {aligned}
    %q = nvvm.mapa %p, %rank : !llvm.ptr<3> -> !llvm.ptr<7>
    nvvm.mbarrier.arrive %q : !llvm.ptr<7>
    gpu.return
  }
}"""


@pytest.mark.parametrize("attribute", ["known_cluster_size", "nvvm.cluster_dim"])
def test_a_cluster_size_reaches_ptx(attribute: str) -> None:
    with new_context():
        module = ir.Module.parse(CLUSTER.replace("SIZE", attribute))
        code = str(mlir_async_pipe.lower(module, target="nvvm:sm_90a", emit="ptx").text)
    assert re.search(r"\.reqnctapercluster 2, 1, 1", code)
    assert re.search(r"\.reqntid 64, 1, 1", code)
    assert "mapa.shared::cluster" in code
    assert "mbarrier.arrive.shared::cluster" in code


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
def test_ptxas_accepts_a_kernel_of_clusters() -> None:
    with new_context():
        module = ir.Module.parse(CLUSTER.replace("SIZE", "known_cluster_size"))
        assert mlir_async_pipe.lower(module, target="nvvm:sm_90a", emit="cubin").binary
