"""How wide the copies of a scope are, from what is known about alignment; what the vectoriser
writes (transfers) is a copy like loads and stores.

Covers: lowering/scopes/scope_copies.py, lowering/nvvm/shared_memory.py, lowering/rocdl/to_rocdl.py,
lowering/scopes/masked_loads.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, walk
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.nvvm.shared_memory import align_workgroup_buffers
from mlir_async_pipe.lowering.rocdl.rocdl_copies import WaveCopies
from mlir_async_pipe.lowering.scopes.abstract_ops import lower_abstract_ops
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

WG = "#gpu.address_space<workgroup>"
A = "memref<128x64xf32>"
TILE = f"memref<128x4xf32, {WG}>"
ROW = "vector<4xf32>"
INSIDE = "{in_bounds = [true]}"
STORE = f"vector.store %v, %tile[%t, %c0] : {TILE}, {ROW}"
READ = f"%v = vector.transfer_read %A[%t, %c4], %zero {INSIDE} : {A}, {ROW}"
WRITE = f"vector.transfer_write %v, %tile[%t, %c0] {INSIDE} : {ROW}, {TILE}"


def kernel(body: str, argument: str = "", tile: str = "") -> str:
    return f"""
gpu.module @kernels {{
  gpu.func @kernel(%A : {A} {argument}) workgroup(%tile : {TILE} {tile}) kernel
      attributes {{known_block_size = array<i32: 128, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c2 = arith.constant 2 : index
    %c4 = arith.constant 4 : index
    %zero = arith.constant 0.0 : f32
    %m = vector.create_mask %c2 : vector<4xi1>
    %t = gpu.thread_id x
    %turned = arith.subi %c4, %t : index
    "async_pipe.scope"() ({{
      {body}
      "async_pipe.yield"() : () -> ()
    }}) {{queue = 0 : i64}} : () -> ()
    gpu.return
  }}
}}"""


def copies(text: str, chip: str) -> tuple[list[int], dict[str, str]]:
    """The bytes of each copy that the scope became, and the remarks by code."""
    with new_context():
        module = ir.Module.parse(text)
        session = Session(Target.of_chip(chip))
        align_workgroup_buffers(module.operation)
        refuse = WaveCopies(module.operation, CHIPS[chip]).refuse
        lower_abstract_ops(module.operation, CHIPS[chip], session, strict=False, refuse=refuse)
        sizes = [
            4 * (integer_attribute(op, "dstElements") or 0)
            for op in walk(module)
            if op.name == "nvgpu.device_async_copy"
        ]
        return sizes, {d.code: d.message for d in session.diagnostics.items}


@pytest.mark.parametrize("known, sizes", [(4, [4] * 4), (8, [8] * 2), (16, [16]), (32, [16])])
def test_an_argument_that_says_its_alignment_gives_wide_copies(
    known: int, sizes: list[int]
) -> None:
    found, remarks = copies(kernel(f"{READ}\n{WRITE}", f"{{llvm.align = {known} : i64}}"), "sm_80")
    assert found == sizes
    assert ("narrow-copies" in remarks) == (sizes[0] < 16)


def test_a_load_that_says_its_alignment_gives_wide_copies() -> None:
    load = f"%v = vector.load %A[%t, %c4] {{alignment = 16 : i64}} : {A}, {ROW}"
    assert copies(kernel(f"{load}\n{STORE}"), "sm_80") == ([16], {})


def test_an_assertion_in_the_function_gives_wide_copies() -> None:
    load = f"%v = vector.load %B[%t, %c4] : {A}, {ROW}"
    asserted = f"%B = memref.assume_alignment %A, 16 : {A}"
    assert copies(kernel(f"{asserted}\n{load}\n{STORE}"), "sm_80")[0] == [16]


def test_the_remark_names_the_access_that_narrows() -> None:
    wide = f"%v = vector.load %A[%t, %c0] {{alignment = 16 : i64}} : {A}, {ROW}"
    odd = f"vector.store %v, %tile[%t, %c2] : {TILE}, {ROW}"
    sizes, remarks = copies(kernel(f"{wide}\n{odd}"), "sm_80")
    assert sizes == [8, 8]
    assert "'vector.store'" in remarks["narrow-copies"]


def test_a_workgroup_buffer_begins_where_wide_copies_may_write() -> None:
    with new_context():
        module = ir.Module.parse(
            kernel("", tile="{llvm.align = 64 : i64}")
            + f"\nmemref.global @s : memref<4xf32, {WG}>\nmemref.global @g : memref<4xf32>"
        )
        align_workgroup_buffers(module.operation)
        ops = {
            str(op.attributes["sym_name"]).strip('"'): op
            for op in walk(module)
            if "sym_name" in op.attributes
        }
        assert integer_attribute(ops["s"], "alignment") == 16
        assert "alignment" not in ops["g"].attributes
        assert "llvm.align = 64" in str(ops["kernel"].attributes["workgroup_attrib_attrs"])


@pytest.mark.parametrize(
    "write",
    [
        f"vector.transfer_write %v, %tile[%t, %c2] : {ROW}, {TILE}",
        f"vector.transfer_write %v, %tile[%t, %c0], %m {INSIDE} : {ROW}, {TILE}",
        "vector.transfer_write %v, %tile[%c0, %c2] {in_bounds = [true], permutation_map = "
        f"affine_map<(i, j) -> (i)>}} : {ROW}, {TILE}",
    ],
    ids=["may end early", "masked", "down a column"],
)
def test_a_write_that_leaves_elements_out_runs_in_place(write: str) -> None:
    sizes, remarks = copies(kernel(f"{READ}\n{write}"), "sm_80")
    assert sizes == []
    assert "sync-fallback" in remarks


@pytest.mark.parametrize("chip, sizes", [("gfx950", [16]), ("gfx942", [16]), ("gfx1250", [4] * 4)])
def test_lanes_side_by_side_copy_whole_rows_from_any_dword(chip: str, sizes: list[int]) -> None:
    """The LDS DMA of gfx9 reads from multiples of 4 bytes; what it cannot copy at once is cut
    later, lane by lane."""
    assert copies(kernel(f"{READ}\n{WRITE}"), chip)[0] == sizes


@pytest.mark.parametrize("chip", ["gfx950", "gfx942"])
def test_lanes_that_leave_gaps_copy_in_place(chip: str) -> None:
    load = f"%v = memref.load %A[%t, %c4] : {A}"
    store = f"memref.store %v, %tile[%t, %c0] : {TILE}"
    sizes, remarks = copies(kernel(f"{load}\n{store}"), chip)
    assert sizes == []
    assert "sync-fallback" in remarks
    assert copies(kernel(f"{load}\n{store}"), "gfx1250")[0] == [4]


def test_pass_aligns_and_widens() -> None:
    with new_context():
        module = ir.Module.parse(kernel(f"{READ}\n{WRITE}", "{llvm.align = 16 : i64}"))
        session = Session(Target.of_chip("sm_80"))
        lowering = passes.find("async-pipe-to-nvvm")
        lowering.run(module, lowering.options(), session)
        assert "cp.async.shared.global" in str(module) and ", 16" in str(module)


def test_an_offset_of_the_argument_narrows_the_copies() -> None:
    """The pointer is 16-aligned, the first element 12 bytes further on."""
    kind = "memref<128x64xf32, strided<[64, 1], offset: 3>>"
    read = f"%v = vector.load %A[%t, %c4] : {kind}, {ROW}"
    text = kernel(f"{read}\n{STORE}", "{llvm.align = 16 : i64}").replace(
        f"%A : {A}", f"%A : {kind}"
    )
    sizes, remarks = copies(text, "sm_80")
    assert sizes == [4, 4, 4, 4]
    assert "narrow-copies" in remarks
