"""Every op that the GPU dialects of an installed stack register is known, or opaque for a reason.

Covers: vocabulary/pure_ops.py, vocabulary/memory_ops.py
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from pathlib import Path

import pytest

from mlir_async_pipe.bindings import STACKS, ir, new_context
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.vocabulary import ROWS, is_pure, named_row
from mlir_async_pipe.vocabulary.async_ops import ASYNC_ROWS, INTRINSIC_ROWS
from mlir_async_pipe.vocabulary.mbarrier_ops import PHASE_ROWS
from mlir_async_pipe.vocabulary.memory_ops import MEMORY_ROWS, VENDOR_ROWS
from mlir_async_pipe.vocabulary.op_table import UNKNOWN
from mlir_async_pipe.vocabulary.ptx_rows import PTX_ROWS
from mlir_async_pipe.vocabulary.pure_ops import (
    OPAQUE_ROWS,
    PURE_ROWS,
    is_opaque_code,
    is_pure_intrinsic,
)
from mlir_async_pipe.vocabulary.tensor_memory import TENSOR_ROWS

DIALECTS = ("gpu", "nvgpu", "amdgpu", "nvvm", "rocdl", "vector", "memref", "llvm.intr")


@dataclass(frozen=True)
class Named:
    """All that the vocabulary asks of an op to call it pure."""

    name: str


def registered() -> dict[str, str]:
    """The ops of the dialects by name, each with a stack that has it."""
    found: dict[str, str] = {}
    for stack in STACKS:
        top, *rest = stack.prefix.split(".")
        spec = importlib.util.find_spec(top)
        for place in (spec.submodule_search_locations or []) if spec else []:
            for dialect in DIALECTS:
                module = dialect.partition(".")[0]
                file = Path(place, *rest, "dialects", f"_{module}_ops_gen.py")
                text = file.read_text() if file.exists() else ""
                for name in re.findall(r'OPERATION_NAME = "([^"]+)"', text):
                    found.setdefault(name, stack.name)
    return found


OPS = registered()
# Of the nvvm dialect of CuTe DSL 4.8 alone, which is installed in an environment of its own.
OF_CUTE = {
    "nvvm.mbarrier.wait",
    "nvvm.mbarrier.wait.parity",
    "nvvm.mbarrier.try_wait.timelimit",
    "nvvm.mbarrier.try_wait.parity.timelimit",
}


def test_the_installed_stacks_register_ops_of_every_dialect():
    assert {name.partition(".")[0] for name in OPS} == {d.partition(".")[0] for d in DIALECTS}
    assert len(OPS) > 500


@pytest.mark.parametrize("dialect", DIALECTS)
def test_every_registered_op_is_known_or_opaque_for_a_reason(dialect):
    unknown = {name for name in OPS if named_row(name).does == "unknown"}
    assert {name for name in unknown if name.startswith(f"{dialect}.")} == set()


def test_an_op_that_nobody_has_looked_at_is_found():
    made_up = Named("rocdl.load.from.nowhere")
    assert named_row(made_up.name) is UNKNOWN
    assert not is_pure(made_up)


@pytest.mark.parametrize("name", sorted(name for name, row in ROWS.items() if row.opaque))
def test_an_opaque_row_has_a_reason_and_stands_for_an_op_that_some_stack_has(name):
    assert ROWS[name].opaque.why
    instructions = {row.op for row in PTX_ROWS}
    known = {*OPS, *OF_CUTE, *instructions}
    assert any(op.startswith(name) if name[-1] in "._" else op == name for op in known)


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("nvvm.tcgen05.mma.sp", "nvvm.tcgen05.mma.sp"),
        ("nvvm.tcgen05.mma.of.tomorrow", "nvvm.tcgen05.mma."),
        ("nvvm.tcgen05.of.tomorrow", "nvvm.tcgen05."),
        ("gpu.spmm_buffer_size", "gpu.spmm_"),
    ],
)
def test_an_op_without_a_row_has_that_of_the_longest_family(name, row):
    assert named_row(name) is ROWS[row]


def test_no_op_has_two_rows():
    tables = [INTRINSIC_ROWS, ASYNC_ROWS, MEMORY_ROWS, VENDOR_ROWS]
    names = [name for table in tables for name in table]
    names += [row.op for row in (*PHASE_ROWS, *PTX_ROWS, *TENSOR_ROWS, *OPAQUE_ROWS, *PURE_ROWS)]
    assert len(names) == len(set(names))
    assert set(names) == set(ROWS)


def test_who_knows_no_phases_finds_them_opaque():
    """Copies that complete on an mbarrier, and what takes columns, say which memory they touch."""
    unseen = {name for name, row in ROWS.items() if (row.phase or row.tensor) and not row.opaque}
    assert unseen == {name for name, row in ROWS.items() if row.phase == "copy"} | {
        "nvvm.tcgen05.alloc"
    }


@pytest.mark.parametrize(
    "name", ["rocdl.mfma.f32.16x16x16f16", "rocdl.mbcnt.lo", "nvvm.shfl.sync", "gpu.ballot"]
)
def test_what_crosses_lanes_is_pure_and_differs(name):
    assert is_pure(Named(name))
    assert named_row(name).agree == "differs"


@pytest.mark.parametrize(
    "name",
    [
        "arith.addi",
        "rocdl.cvt.pkrtz",
        "rocdl.readfirstlane",
        "llvm.intr.maxnum",
        "llvm.intr.vp.add",
    ],
)
def test_what_stays_in_its_lane_differs_as_its_operands_do(name):
    assert is_pure(Named(name))
    assert named_row(name).agree == "operands"


@pytest.mark.parametrize(
    "name",
    [
        "llvm.maxnum.f32",
        "llvm.vector.reduce.fadd.v4f32",
        "llvm.nvvm.ex2.approx.ftz.f",
        "llvm.nvvm.read.ptx.sreg.tid.x",
        "llvm.nvvm.shfl.sync.bfly.i32",
        "llvm.amdgcn.mfma.f32.16x16x16f16",
        "llvm.amdgcn.rcp.f32",
        "llvm.amdgcn.perm",
        "llvm.amdgcn.sad.u8",
    ],
)
def test_intrinsics_that_only_compute_are_pure(name):
    assert is_pure_intrinsic(name)


@pytest.mark.parametrize(
    "name",
    [
        "llvm.masked.load.v4f32.p1",
        "llvm.vp.load.v4f32.p1",
        "llvm.memcpy.p1.p1.i64",
        "llvm.nvvm.ldu.global.f.f32.p1",
        "llvm.nvvm.barrier0",
        "llvm.nvvm.fence.sc.cluster",
        "llvm.nvvm.wmma.m16n16k16.load.a.row.f16.p3",
        "llvm.amdgcn.s.barrier",
        "llvm.amdgcn.permlane.of.mine",
        "llvm.amdgcn.raw.ptr.buffer.load.f32",
        "nothing.of.ours",
    ],
)
def test_intrinsics_that_touch_memory_or_wait_are_not_pure(name):
    assert not is_pure_intrinsic(name)


@pytest.mark.parametrize(
    ("text", "computes"),
    [
        ("v_mfma_f32_16x16x128_f8f6f4 $0, $1, $1, $0", True),
        ("v_cmp_lt_i32_e64 $0, $1, 8\\0A\\09v_add_u32 $0, $1, $1", True),
        ("s_nop 7", True),
        ("", False),
        ("v_cmpx_lt_i32_e64 $0, $1, 8", False),
        ("v_mov_b32 $0, lds_direct", False),
        ("v_mov_b32 $0, $1\\0As_barrier", False),
        ("ds_read_b32 $0, $1", False),
        ("s_waitcnt vmcnt(0)", False),
    ],
)
def test_assembly_of_amd_that_touches_registers_alone_computes(text: str, computes: bool) -> None:
    """Whatever is said of its side effects."""
    line = f'llvm.inline_asm has_side_effects "{text}", "=v,v" %0 : (i32) -> i32'
    program = f"llvm.func @f(%0: i32) {{ %1 = {line}\nllvm.return }}"
    with new_context():
        module = ir.Module.parse(program)
        found = [op for op in walk(module.operation) if op.name == "llvm.inline_asm"]
        assert [is_pure(op) for op in found] == [computes]


def test_what_an_intrinsic_or_assembly_computes_may_differ_between_threads():
    with new_context(), ir.Location.unknown():
        kind = ir.F32Type.get()
        named = {"intrin": ir.StringAttr.get("llvm.nvvm.ex2.approx.f")}
        call = ir.Operation.create("llvm.call_intrinsic", results=[kind], attributes=named)
        assert is_pure(call) and not is_opaque_code(call)
        assert named_row(call.name).agree == "differs"
