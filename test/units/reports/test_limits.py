"""What --explain tells of accesses, blocks and units.

Covers: reports/limits.py, tool/explain.py
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from helpers.gemm_kernels import gemm_text
from helpers.hopper_gemms import HopperGemm
from mlir_async_pipe import pipeline
from mlir_async_pipe.bindings import ir, new_context, passmanager
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.facts.costs.cost_model import CostModel
from mlir_async_pipe.lowering.nvvm.cubin import MachineKernel, MachineLoop
from mlir_async_pipe.lowering.nvvm.ptxas import Resources
from mlir_async_pipe.reports import limits
from mlir_async_pipe.session.diagnostics import Diagnostic
from mlir_async_pipe.session.report import Session


class Kernel:
    """What was read of a kernel's code."""

    def __init__(
        self, registers: int, shared: int, *loops: MachineLoop, name: str = "gemm"
    ) -> None:
        self.name, self.dynamic_shared_bytes = name, 0
        self.resources = Resources(registers, 0, 0, 0, shared)
        self.vector_registers, self.workgroup_bytes = registers, shared
        self.machine = MachineKernel(self.name, (), 0, loops)


def told(
    text: str, *kernels: Kernel, target: str = "nvvm:sm_80", cost: str = ""
) -> dict[str, list[Diagnostic]]:
    """The remarks of a pipelined module by their codes."""
    with new_context():
        module = ir.Module.parse(text)
        report = pipeline(module, target=target)
        known = Target.parse(target)
        session = Session(
            target=known, records={"loops": list(report.of("loops")), "kernels": list(kernels)}
        )
        found: dict[str, list[Diagnostic]] = {}
        for one in limits.remarks(module.operation, session, CostModel.parse(cost, known)):
            found.setdefault(one.code, []).append(one)
        return found


@pytest.fixture(scope="module")
def gemm() -> str:
    """128x128x64 with three stages: 96 KiB."""
    return gemm_text("--tile-k=64")


def notes(one: Diagnostic) -> list[str]:
    return [note.message for note in one.notes]


def test_one_slot_less_makes_room_for_a_second_block(gemm: str) -> None:
    (one,) = told(gemm, Kernel(242, 98304))["resident-blocks"]
    assert one.message == (
        "a multiprocessor of sm_80 holds 1 block of 'gemm', bound by workgroup memory: workgroup memory "
        "(98304 bytes) 1, registers (242 a thread) 2, threads (128) 16, blocks 32"
    )
    assert notes(one) == ["with one slot less of each buffer, 65536 bytes, it holds 2"]


@pytest.mark.parametrize(
    ("registers", "shared", "expected"),
    [
        # 65536 / (4 warps * 32 * 168) is 3; 128 registers and less are 4 blocks.
        (180, 16384, ["with 168 registers a thread it holds 3"]),
        (168, 16384, []),  # four blocks need 40 less
        (242, 33000, []),  # 3 blocks need 168
        (250, 98304, ["with one slot less of each buffer, 65536 bytes, it holds 2"]),
        # Both bind: neither alone helps.
        (255, 65536 + 16384, []),
    ],
)
def test_a_note_tells_of_one_block_more_and_only_then(
    gemm: str, registers: int, shared: int, expected: list[str]
) -> None:
    (one,) = told(gemm, Kernel(registers, shared))["resident-blocks"]
    assert notes(one) == expected


def test_without_code_registers_are_no_limit_and_that_is_said(gemm: str) -> None:
    (one,) = told(gemm)["resident-blocks"]
    assert "registers" not in one.message
    assert notes(one)[0] == "registers are known where code is made: --emit=cubin"


def test_the_swizzle_decides_what_binds(gemm: str) -> None:
    swizzled = told(gemm)
    assert "bank-conflicts" not in swizzled and "partial-sectors" not in swizzled
    (bound,) = swizzled["limits"]
    assert bound.message == "tensor binds: 1024 cycles an iteration of a block"
    plain = told(re.sub(r"arith.xori (%\w+), %\w+", r"arith.ori \1, \1", gemm))
    (bound,) = plain["limits"]
    # 16 copies and 32 ldmatrix of 16 cycles, these eight times over.
    assert bound.message == "load/store binds: 4352 cycles an iteration of a block"
    (one,) = plain["bank-conflicts"]
    assert one.message == (
        "'nvgpu.ldmatrix' takes 32 wavefronts of workgroup memory where 4 would do: 8 rows meet in one bank"
    )
    assert notes(one) == ["the same here"] * 4 + ["and 27 more"]


UNKNOWN = "copies to mbarriers of which no bytes or cycles are known are not in it"


def test_tensor_copies_take_what_their_boxes_take() -> None:
    """Two boxes of 16 KiB an iteration, 128 bytes a cycle; beside products of 512 cycles."""
    (bound,) = told(HopperGemm().module(), target="nvvm:sm_90a")["limits"]
    assert bound.message == "tensor binds: 512 cycles an iteration of a block"
    assert "tensor copy: 256 cycles" in notes(bound) and UNKNOWN not in notes(bound)
    (bound,) = told(HopperGemm().module(), target="nvvm:sm_90a", cost="unit.tensor.copy=1")[
        "limits"
    ]
    assert bound.message == "tensor copy binds: 2048 cycles an iteration of a block"


def test_tensor_copies_without_figures_are_named() -> None:
    (bound,) = told(HopperGemm().module(), target="nvvm:sm_90a", cost="unit.tensor.copy=0")[
        "limits"
    ]
    assert UNKNOWN in notes(bound)
    assert not [note for note in notes(bound) if note.startswith("tensor copy")]


def test_costs_of_the_command_line_count(gemm: str) -> None:
    (bound,) = told(gemm, cost="unit.nvgpu.mma.sync=1")["limits"]
    assert bound.message == "load/store binds: 768 cycles an iteration of a block"
    assert "tensor: 128 cycles" in notes(bound)


def test_issue_slots_are_the_instructions_of_the_loop_that_runs_ahead(gemm: str) -> None:
    ahead, short = MachineLoop((1,), 1, 16, 128, 230), MachineLoop((0,), 2, 16, 128, 300)
    (bound,) = told(gemm, Kernel(242, 98304, short, ahead))["limits"]
    assert "issue: 230 cycles (230 instructions of machine code)" in notes(bound)
    # Two that may be the one say nothing.
    (bound,) = told(gemm, Kernel(242, 98304, ahead, MachineLoop((1,), 1, 16, 128, 240)))["limits"]
    assert not any("instructions" in note for note in notes(bound))


def test_without_a_target_nothing_is_told(gemm: str) -> None:
    with new_context():
        module = ir.Module.parse(gemm)
        pipeline(module)
        assert limits.remarks(module.operation, Session(), CostModel.parse("")) == []


def test_compute_units_whose_waves_are_not_known_are_not_counted() -> None:
    text = (Path(__file__).parents[3] / "examples" / "one_loop.mlir").read_text()
    (one,) = told(text, target="rocdl:gfx1250")["resident-blocks"]
    assert one.message == "how many blocks a compute unit of gfx1250 holds is not known here"


LAUNCH = """
#wg = #gpu.address_space<workgroup>
func.func @host(%from: memref<1024x32xf32> {llvm.noalias}, %to: memref<32x32xf32> {llvm.noalias}) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  %c1024 = arith.constant 1024 : index
  gpu.launch blocks(%bx, %by, %bz) in (%gx = %c1, %gy = %c1, %gz = %c1)
             threads(%t, %ty, %tz) in (%sx = %c32, %sy = %c1, %sz = %c1) {
    %tile = memref.alloc() : memref<32x32xf32, #wg>
    scf.for %k = %c0 to %c1024 step %c32 {
      %row = arith.addi %k, %t : index
      %v = memref.load %from[%row, %c0] : memref<1024x32xf32>
      memref.store %v, %tile[%t, %c0] : memref<32x32xf32, #wg>
      gpu.barrier
      %w = memref.load %tile[%c0, %t] : memref<32x32xf32, #wg>
      memref.store %w, %to[%c0, %t] : memref<32x32xf32>
      gpu.barrier
    } {async_pipe.num_stages = 3 : i64}
    gpu.terminator
  }
  return
}
"""


def test_a_launch_is_a_kernel_of_its_function() -> None:
    found = told(LAUNCH)
    (one,) = found["resident-blocks"]
    assert "of 'host'" in one.message
    assert notes(one)[1].startswith("with one slot less of each buffer")
    (one,) = found["bank-conflicts"]
    assert "takes 32 wavefronts of workgroup memory where 1 would do: 32 rows" in one.message


def test_ops_without_places_are_told_apart() -> None:
    session = Session(target=Target.parse("nvvm:sm_80"))
    with new_context():
        module = ir.Module.parse(LAUNCH)
        passmanager.PassManager.parse("builtin.module(strip-debuginfo)").run(module.operation)
        said = limits.remarks(module.operation, session, CostModel())
    (one,) = (entry for entry in said if entry.code == "memory-accesses")
    assert one.place.line == 0
    assert one.message == (
        "2 accesses to workgroup memory, 1 with bank conflicts; 2 accesses to global memory, 1 with partial sectors"
    )


def on_grid(text: str, grid: str) -> str:
    size = "known_block_size = array<i32: 128, 1, 1>"
    assert size in text
    return text.replace(size, f"{size}, known_grid_size = array<i32: {grid}>")


def test_a_wave_of_blocks_shares_rows_and_columns(gemm: str) -> None:
    """216 blocks of 32x32: 7 rows of tiles of A, 32 of B; 14 and 16 in columns of 16."""
    found = told(on_grid(gemm, "32, 32, 1"), Kernel(168, 65536))
    (one,) = found["shared-reads"]
    assert one.message == (
        "a wave of 216 blocks (2 a multiprocessor) reads 7.1 MB an iteration, 0.6 MB of them different: L2 serves 81 %"
    ).replace("81", str(100 * (432 - 39) // 432))
    assert notes(one) == [
        "3.5 MB of argument %arg0, 0.1 MB different",
        "3.5 MB of argument %arg1, 0.5 MB different",
        "in groups of 16 blocks along y 0.5 MB would be different",
    ]
    (bound,) = found["limits"]
    # 39 * 16384 bytes of memory, 432 * 16384 of the cache, of 216 blocks; 200 and 43 cycles for 16 bytes of 128 threads.
    assert "memory: 289 cycles" in notes(bound)
    assert "second-level cache: 688 cycles" in notes(bound)


def test_without_the_grid_it_is_said_which_blocks_read_the_same(gemm: str) -> None:
    (one,) = told(gemm)["shared-reads"]
    assert one.message == (
        "what blocks that run at once read together is not known: the size of the grid is not known "
        "(`known_grid_size`, or a launch with constants)"
    )
    assert notes(one) == [
        "blocks along x read the same of argument %arg0",
        "blocks along y read the same of argument %arg1",
    ]


@pytest.mark.parametrize(
    ("target", "more", "why"),
    [
        ("nvvm:sm_86", "", "how many multiprocessors of sm_86 share a cache is not known here"),
        (
            "nvvm:sm_90",
            ", known_cluster_size = array<i32: 2, 1, 1>",
            "blocks of clusters do not start in the order of their numbers",
        ),
    ],
)
def test_no_wave_is_counted_whose_blocks_are_not_known(
    gemm: str, target: str, more: str, why: str
) -> None:
    text = on_grid(gemm_text("--tile-k=32"), f"32, 32, 1>{more}".rstrip(">"))
    text = text.replace("1>>", "1>")
    (one,) = told(text, target=target)["shared-reads"]
    assert one.message == f"what blocks that run at once read together is not known: {why}"


def test_an_order_of_its_own_is_not_known_where_sizes_decide_it() -> None:
    (one,) = told(on_grid(gemm_text("--persistent"), "216, 1, 1"))["shared-reads"]
    assert "a subscript is no sum of what ids decide" in one.message
