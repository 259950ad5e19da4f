"""Boxes of one to five dimensions, copied and stored by TMA in nvgpu's and nvvm's form: pipelined,
by warps of their own too, proven, right on the machine, lowered. Boxes in im2col mode are refused.

Covers: pipeliner/plan/tensor_tiles.py, machine/dialects/tma.py, vocabulary/mbarrier_ops.py,
checker/phases/op_effects.py, test/helpers/box_loops.py
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from helpers.box_loops import BOXES, TRIPS, boxes_text, expected_of, map_type, tensor_of
from helpers.check_harness import check_module
from helpers.machine_programs import parse
from helpers.nvvm_tensor_loops import CONVERSIONS
from mlir_async_pipe import Target, lower, machine, pipeline
from mlir_async_pipe.bindings import passmanager
from mlir_async_pipe.session.diagnostics import MachineError


def wrong_runs(module: Any, rank: int, *, typed: bool = True) -> list[str]:
    """What goes wrong in some completion and order of the warps."""
    box, found = BOXES[rank], []
    threads = int(re.findall(r"known_block_size = array<i32: (\d+)", str(module))[0])
    for completion in machine.COMPLETIONS:
        for schedule in machine.SCHEDULES:
            tensors = [tensor_of(box), np.zeros_like(tensor_of(box))]
            given = tensors if typed else [machine.TensorMap(t, box, "none") for t in tensors]
            result = machine.run(
                module,
                None,
                [*given, TRIPS],
                threads=threads,
                completion=completion,
                schedule=schedule,
            )
            found += sorted(result.race_codes)
            if not np.array_equal(result.arrays[1], expected_of(box)):
                found.append("another result")
    return found


@pytest.mark.parametrize("roles", ["", "specialised"])
@pytest.mark.parametrize("rank", BOXES)
def test_boxes_of_each_rank_are_pipelined_proven_and_right(rank: int, roles: str) -> None:
    module = parse(boxes_text(BOXES[rank], roles))
    assert wrong_runs(module, rank) == []
    report = pipeline(module, check="error")
    (check,) = report.of("checks")
    assert (check.unsafe, check.unknown) == (0, 0)
    assert len(report.of("stores")) == 1
    assert wrong_runs(module, rank) == []


def nvvm_text(rank: int, conversion: str, *, typed: bool) -> str:
    """What upstream makes of the loop; `typed` maps are cast from nvgpu's."""
    module = parse(boxes_text(BOXES[rank]))
    manager = passmanager.PassManager.parse(f"builtin.module({conversion})", module.context)
    manager.run(module.operation)
    text = str(module)
    if not typed:
        return text
    kind, casts = map_type(BOXES[rank]), ""
    for n, place in enumerate(
        (r"(shared.cluster.global %\w+, )%arg0", r"(global.shared.cta )%arg1")
    ):
        text = re.sub(place, rf"\1%map{n}", text)
        casts += (
            f"%typed{n} = builtin.unrealized_conversion_cast %arg{n} : !llvm.ptr to {kind}\n"
            f"%map{n} = builtin.unrealized_conversion_cast %typed{n} : {kind} to !llvm.ptr\n"
        )
    return re.sub(r"(func.func @f.*\{\n)", lambda head: head[1] + casts, text, count=1)


@pytest.mark.parametrize("typed", [True, False], ids=["typed maps", "opaque maps"])
@pytest.mark.parametrize("conversion", CONVERSIONS)
@pytest.mark.parametrize("rank", BOXES)
def test_boxes_in_nvvms_form_are_pipelined_and_right(
    rank: int, conversion: str, typed: bool
) -> None:
    """Proven where the types of the maps are to be seen."""
    module = parse(nvvm_text(rank, conversion, typed=typed))
    report = pipeline(module, check="warn")
    (check,) = report.of("checks")
    assert check.unsafe == 0
    assert not (typed and check.unknown)
    assert len(report.of("stores")) == 1
    assert wrong_runs(module, rank, typed=typed) == []


@pytest.mark.parametrize("rank", BOXES)
def test_boxes_of_each_rank_are_lowered(rank: int) -> None:
    text = boxes_text(BOXES[rank]).replace("func.func @f(", "gpu.module @k {\ngpu.func @f(")
    text = text.replace("return\n}", "gpu.return\n}\n}").replace(
        "memref.alloc()", "memref.alloca()"
    )
    module = parse(text.replace("attributes {gpu.known", "kernel attributes {known"))
    target = Target.parse("nvvm:sm_90a")
    pipeline(module, target=target)
    text = lower(module, target=target, emit="ptx").text
    loads = re.findall(r"cp.async.bulk.tensor.(\d)d.shared::cluster", text)
    stores = re.findall(r"cp.async.bulk.tensor.(\d)d.global", text)
    assert (set(loads), set(stores)) == ({str(rank)}, {str(rank)})
    assert re.findall(r"bulk.wait_group.read\s+(\d)", text) == ["1", "0"]
    if rank == max(BOXES):
        (kernel,) = lower(module, target=target, emit="cubin").kernels
        assert kernel.resources.spill_store_bytes == 0


@pytest.mark.parametrize("rank", BOXES)
@pytest.mark.parametrize("announced", [-4, 4])
def test_bytes_that_are_no_whole_boxes_are_found(rank: int, announced: int) -> None:
    """By the checker and the machine, of each rank, and the first before anything is written."""
    module = parse(boxes_text(BOXES[rank]))
    pipeline(module, check="none")
    changed = re.sub(r"constant 256 : index", f"constant {256 + announced} : index", str(module))
    found = {entry.code for entry in check_module(parse(changed)).report.diagnostics}
    assert found & {"wrong-bytes", "deadlock"}
    try:
        assert wrong_runs(parse(changed), rank) != []
    except MachineError as error:
        assert error.code == "deadlock"


def test_boxes_in_im2col_mode_are_followed_by_nobody() -> None:
    """The checker cannot tell how many bytes they bring, and the machine wants a map for that mode."""
    text = nvvm_text(3, CONVERSIONS[0], typed=True)
    text, times = re.subn(
        r"(shared.cluster.global .*box\[[^\]]*\])( predicate = %\w+)",
        r"\1 im2col[%none]\2 {mode = #nvvm.tma_load_mode<im2col>}",
        text,
    )
    assert times == 1
    text = re.sub(r"(func.func @f.*\{\n)", r"\1%none = arith.constant 0 : i16\n", text, count=1)
    text = text.replace("async_pipe.num_stages = 3 : i64, ", "").replace(
        "async_pipe.independent, ", ""
    )
    (check,) = check_module(parse(text)).report.of("checks")
    assert (check.unsafe, bool(check.unknown)) == (0, True)
    with pytest.raises(
        MachineError, match="mode 'im2col' by a tensor map for another one"
    ) as refused:
        machine.run(parse(text), None, [tensor_of(BOXES[3])] * 2 + [TRIPS], threads=64)
    assert refused.value.code == "unsupported-op"
