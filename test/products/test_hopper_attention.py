"""Attention by tensor copies and wgmma: NumPy's result on the machine, proven, one product in flight.

Covers: examples/generate_hopper_attention.py, examples/tensor_tiles.py, examples/online_softmax.py, pipeliner/plan/tensor_tiles.py, pipeliner/expand/write/write_roles.py, lowering/nvvm/opaque_assembly.py
"""

from __future__ import annotations

import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, Literal

import pytest

from helpers.hopper_attention import wrong_by
from helpers.paths import ROOT
from helpers.ptxas_remarks import remarks_on_products
from mlir_async_pipe import check, lower, machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, set_integer, walk
from mlir_async_pipe.lowering.nvvm.cubin import disassemble
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.pipeliner.ask_checker.attach_tokens import relax
from mlir_async_pipe.session.report import Session

sys.path.insert(0, str(ROOT / "examples"))

from generate_hopper_attention import HopperAttention

TARGET = "nvvm:sm_90a"
WAIT, BARRIER = "nvvm.wgmma.wait.group.sync.aligned", "gpu.barrier"
FENCE = "nvvm.wgmma.fence.aligned"
SMALL = HopperAttention()
SHAPES = {
    "64x64, 64 features": SMALL,
    "64x64, 128 features": replace(SMALL, features=128),
    "128x128, 64 features": replace(SMALL, keys=128, warpgroups=2),
    "128x64, 128 features": replace(SMALL, features=128, warpgroups=2, stages=2),
    "128x128, 128 features": replace(SMALL, features=128, keys=128, warpgroups=2, stages=2),
    "64x64, 64 features, causal": replace(SMALL, causal=True),
    "128x128, 128 features, causal": replace(
        SMALL, features=128, keys=128, warpgroups=2, stages=2, causal=True
    ),
    "64x64, 64 features, P in memory": replace(SMALL, weights="memory"),
    "128x64, 128 features, P in memory": replace(
        SMALL, features=128, warpgroups=2, stages=2, weights="memory"
    ),
}
SMALL_ONES = [name for name, made in SHAPES.items() if (made.keys, made.features) == (64, 64)]
IN_MEMORY = "64x64, 64 features, P in memory"


@cache
def pipelined(shape: str, roles: Literal["auto", "specialised"] = "auto") -> str:
    """The pipelined module, which the checker proves."""
    with new_context():
        module = ir.Module.parse(SHAPES[shape].module())
        (checks,) = pipeline(module, target=TARGET, check="error", roles=roles).of("checks")
        assert (checks.unsafe, checks.unknown) == (0, 0)
        return str(module)


def counts(module: Any) -> list[int | None]:
    return [integer_attribute(op, "group") for op in walk(module.operation) if op.name == WAIT]


def loop_ops(module: Any, name: str) -> list[Any]:
    (loop,) = [op for op in walk(module.operation) if op.name == "scf.for"]
    return [op for op in walk(loop) if op.name == name]


@pytest.mark.parametrize("completion", machine.COMPLETIONS)
@pytest.mark.parametrize("tiles", [1, 2, 5])
@pytest.mark.parametrize("shape", SMALL_ONES)
def test_attention_is_numpy_s(shape: str, tiles: int, completion: str) -> None:
    with new_context():
        module = ir.Module.parse(pipelined(shape))
        error, races = wrong_by(SHAPES[shape], module, 64 * tiles, completion)
    assert error < 1e-3 and races == set()


@pytest.mark.parametrize("completion", machine.COMPLETIONS)
@pytest.mark.parametrize("tiles", [1, 4])
@pytest.mark.parametrize("shape", SMALL_ONES)
def test_attention_by_roles_is_numpy_s(shape: str, tiles: int, completion: str) -> None:
    """What the warps that compute say to each other are barriers of theirs; by registers they say nothing."""
    text = pipelined(shape, "specialised")
    with new_context():
        error, races = wrong_by(SHAPES[shape], ir.Module.parse(text), 64 * tiles, completion, 128)
    assert error < 1e-3 and races == set()
    assert text.count("gpu.barrier") == 1
    assert (text.count("nvvm.barrier ") > 1) == SHAPES[shape].in_memory


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("shape", SHAPES)
def test_ptxas_does_not_serialise_attention_by_roles(shape: str, tmp_path: Path) -> None:
    with new_context():
        module = ir.Module.parse(pipelined(shape, "specialised"))
        made = lower(module, target=TARGET, emit="cubin")
        text = lower(module, target=TARGET, emit="ptx").text
    assert remarks_on_products(text, tmp_path) == []
    assert made.kernels[0].resources.spill_store_bytes == 0


@pytest.mark.slow
@pytest.mark.parametrize("shape", SHAPES)
def test_attention_of_a_large_tile_is_numpy_s(shape: str) -> None:
    with new_context():
        for text in (SHAPES[shape].module(), pipelined(shape)):
            error, races = wrong_by(SHAPES[shape], ir.Module.parse(text), 256, "late")
            assert error < 1e-3 and races == set()


def test_no_barrier_is_added_where_one_ends_the_iteration() -> None:
    """It says that the tiles may be overwritten, and where P goes through memory that P is written."""
    with new_context():
        for shape in (IN_MEMORY, "64x64, 64 features"):
            for text in (SHAPES[shape].module(), pipelined(shape)):
                assert len(loop_ops(ir.Module.parse(text), BARRIER)) == 1


@pytest.mark.parametrize(("number", "count"), [(0, 1), (1, 2), (2, 1), (3, 1)])
def test_a_wait_that_leaves_one_more_is_called_unsafe(number: int, count: int) -> None:
    """In order: the first scores, those of the next tile, the output, and the last one's."""
    with new_context():
        module = ir.Module.parse(pipelined("64x64, 64 features"))
        assert counts(module) == [0, 1, 0, 0]
        wait = [op for op in walk(module.operation) if op.name == WAIT][number]
        set_integer(wait, "group", count, 64)
        report = check(module, target=TARGET)
    assert "read-in-flight" in [entry.code for entry in report.diagnostics]


@pytest.mark.parametrize(
    ("gone", "number", "code"),
    [(FENCE, 0, "unknown-hazard"), (FENCE, 1, ""), (WAIT, -1, "source-overwritten")],
    ids=["fence", "fence of the second half", "wait"],
)
def test_registers_of_p_need_a_fence_and_a_wait(gone: str, number: int, code: str) -> None:
    """A wait before they are written again; which registers the scores get, and who read these before, nobody knows. The
    fence of the first half is one for the registers of the second, which nobody writes in between."""
    with new_context():
        module = ir.Module.parse(pipelined("64x64, 64 features"))
        assert len(loop_ops(module, FENCE)) == 2
        loop_ops(module, gone)[number].operation.erase()
        report = check(module, target=TARGET)
    found = [entry.code for entry in report.diagnostics]
    assert code in found if code else not found


def test_waits_for_everything_are_relaxed_to_these_counts() -> None:
    with new_context():
        module = ir.Module.parse(pipelined("64x64, 64 features"))
        for wait in (op for op in walk(module.operation) if op.name == WAIT):
            set_integer(wait, "group", 0, 64)
        (one,) = relax(module.operation, None, Session())
        assert counts(module) == [0, 1, 0, 0]
    assert (one.queue, one.before, one.after) == ("wgmma", 0, 1)


@pytest.mark.slow
def test_without_the_barrier_that_ends_the_iteration_one_is_added() -> None:
    """A barrier before the last wait: tiles are still read after it."""
    with new_context():
        module = ir.Module.parse(SHAPES[IN_MEMORY].module())
        (wait,) = loop_ops(module, WAIT)[1:]
        last = loop_ops(module, BARRIER)[-1]
        wait.operation.move_after(last)
        pipeline(module, target=TARGET, check="none")
        assert len(loop_ops(module, BARRIER)) == 2


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("shape", SHAPES)
def test_the_machine_code_has_these_waits_and_no_spills(shape: str, tmp_path: Path) -> None:
    made = SHAPES[shape]
    with new_context():
        module = ir.Module.parse(pipelined(shape))
        (kernel,) = lower(module, target=TARGET, emit="cubin").kernels
        ptx = lower(module, target=TARGET, emit="ptx").text
    loop = min(
        (found for found in kernel.machine.loops if found.tensor_copies == 2),
        key=lambda found: found.instructions,
    )
    assert loop.product_waits == (1, 0)
    assert (loop.expects, loop.phase_waits, loop.barriers) == (1, 1, 1)
    assert loop.multiplications == made.scores.a.steps + made.output.a.steps
    assert kernel.resources.spill_store_bytes == 0
    assert remarks_on_products(ptx, tmp_path) == []


@pytest.mark.skipif(find_tool("nvdisasm") is None, reason="nvdisasm is not installed")
@pytest.mark.parametrize("shape", SHAPES)
def test_a_product_is_in_flight_beside_the_whole_softmax(shape: str) -> None:
    """In machine code too: ptxas moves arithmetic over waits, but neither stores of its results nor what is held there."""
    with new_context():
        found = lower(ir.Module.parse(pipelined(shape)), target=TARGET, emit="cubin")
    after_one = disassemble(found.binary).split("DEPBAR.LE gsb0, 0x1")[1]
    beside = after_one.split("DEPBAR.LE gsb0, 0x0")[0]
    # A weight for each of a thread's scores, and a factor for each of its two rows.
    assert beside.count("MUFU.EX2") == SHAPES[shape].keys // 2 + 2
    assert beside.count("STS") == SHAPES[shape].in_memory * SHAPES[shape].keys // 4


@pytest.mark.parametrize(
    "wrong",
    [
        {"features": 96},
        {"keys": 32},
        {"stages": 0},
        {"warpgroups": 0},
        {"causal": True, "keys": 128},
    ],
)
def test_what_cannot_be_made_is_said(wrong: dict[str, int]) -> None:
    assert replace(SMALL, **wrong).problems()
