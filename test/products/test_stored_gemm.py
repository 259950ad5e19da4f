"""GEMMs whose tiles of C go out by TMA: NumPy's on the machine, proven, slots for stores in flight, code
without spills; each part that is left out is found.

Covers: examples/generate_hopper_gemm.py, examples/tensor_sums.py, pipeliner/expand/stores_pass.py
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from helpers.hopper_gemms import HopperGemm, run_gemm
from helpers.machine_programs import parse
from helpers.ptxas_remarks import remarks_on_products
from mlir_async_pipe import check, lower, machine, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import set_integer, walk
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool

SMALL = HopperGemm(tile_m=64, tile_n=64, store="tma")
MANY = replace(SMALL, persistent=True)
# What the generator is asked for, and how many stores stay in flight.
FORMS = {
    "one tile, f32": (SMALL, 0),
    "one tile, f16": (replace(SMALL, out="f16", tile_n=128), 0),
    "bf16 by n, two parts": (replace(SMALL, types="bf16", out="bf16", b="n", tile_m=128), 0),
    "f16 sums": (replace(SMALL, sums="f16"), 0),
    "s8": (replace(SMALL, types="s8", tile_k=128), 0),
    "persistent": (MANY, 1),
    "persistent, two warpgroups, f16": (replace(MANY, tile_m=128, warpgroups=2, out="f16"), 1),
    "roles": (replace(SMALL, roles="specialised"), 0),
    "ping-pong, f16": (replace(MANY, roles="ping-pong", out="f16", stages=2), 0),
    "roles, persistent, groups of rows": (
        replace(MANY, roles="specialised", out="f16", stages=2, group=2),
        1,
    ),
    "roles, persistent, f16": (replace(MANY, roles="specialised", out="f16", stages=2), 1),
}
LARGE = {
    "together": HopperGemm(store="tma", out="f16", persistent=True),
    "two warpgroups": HopperGemm(store="tma", out="f16", tile_n=256, warpgroups=2, persistent=True),
    "roles": HopperGemm(store="tma", out="f16", persistent=True, roles="specialised", stages=2),
    "ping-pong": HopperGemm(store="tma", out="f16", persistent=True, roles="ping-pong"),
    "ping-pong, 64x256x64": HopperGemm(
        store="tma", out="f16", persistent=True, roles="ping-pong", tile_m=64, tile_n=256
    ),
}


@cache
def pipelined(form: str) -> str:
    """A form as it is after all passes but the proof."""
    module = parse(FORMS[form][0].module())
    pipeline(module, check="none")
    return str(module)


def is_proven(module: ir.Module) -> bool:
    return all((found.unsafe, found.unknown) == (0, 0) for found in check(module).of("checks"))


@pytest.mark.parametrize("form", FORMS)
def test_the_product_that_goes_out_by_tma_is_numpy_s(form: str) -> None:
    made, in_flight = FORMS[form]
    module = parse(made.module())
    report = pipeline(module)
    (found,) = report.of("checks")
    assert (found.unsafe, found.unknown) == (0, 0)
    assert [stores.in_flight for stores in report.of("stores")] == [in_flight] * (in_flight > 0)
    tiles = (3, 2) if made.persistent else (1, 1)
    for number, completion in enumerate(machine.COMPLETIONS):
        schedule = machine.SCHEDULES[number] if made.roles != "together" else "lockstep"
        assert run_gemm(module, made, completion, tiles, 100, schedule) == (True, set())


@pytest.mark.parametrize("form", ["one tile, f32", "persistent", "roles, persistent, f16"])
def test_that_c_is_neither_a_nor_b_is_the_author_s_word(form: str) -> None:
    module = parse(re.sub(r"async_pipe\.independent( = \d+ : i64)?(, )?", "", pipelined(form)))
    assert {found.reason for found in check(module).of("hazards")} == {"may-alias"}
    (found,) = check(module, assume_noalias_maps=True).of("checks")
    assert (found.unsafe, found.unknown) == (0, 0)


def test_sums_of_f32_are_stored_as_f16_from_registers_too() -> None:
    made = replace(SMALL, store="registers", out="f16")
    module = parse(made.module())
    pipeline(module)
    assert run_gemm(module, made, "late") == (True, set())
    assert replace(made, sums="f16", out="f32").problems()


def near_the_store(module: ir.Module, name: str, step: int = -1) -> Any:
    """The op of a name that is nearest to the tensor store, before or after it."""
    found = list(walk(module.operation))
    (store,) = [n for n, op in enumerate(found) if op.name == "nvgpu.tma.async.store"]
    side = found[:store] if step < 0 else found[store:]
    return next(op for op in side[::step] if name in op.name)


def waits(module: ir.Module) -> list[Any]:
    """The wait of the tiles, and the one after all of them."""
    return [op for op in walk(module.operation) if op.name == "nvvm.cp.async.bulk.wait_group"]


def one_more(module: ir.Module) -> None:
    set_integer(waits(module)[0], "group", 2, 32)


MUTANTS: dict[str, Callable[[ir.Module], None]] = {
    "no fence": lambda module: near_the_store(module, "nvvm.fence.proxy").erase(),
    "no barrier before the store": lambda module: near_the_store(module, "barrier").erase(),
    "no barrier after the wait": lambda module: near_the_store(module, "barrier", 1).erase(),
    "one more in flight": one_more,
    "none waited for at the end": lambda module: waits(module)[1].erase(),
}


@pytest.mark.parametrize(
    ("mutant", "form"),
    [
        *((mutant, "persistent") for mutant in MUTANTS),
        ("no fence", "roles, persistent, f16"),
        ("no barrier after the wait", "roles, persistent, f16"),
    ],
)
def test_each_part_that_is_left_out_is_found(mutant: str, form: str) -> None:
    module = parse(pipelined(form))
    with module.context:
        MUTANTS[mutant](module)
    assert not is_proven(module)
    runs = (
        run_gemm(module, FORMS[form][0], completion, (5, 2), k, schedule)
        # Without iterations no barrier of the k loop stands in for one that is left out.
        for k in (0, 100)
        for completion in ("late", "eager", "random")
        for schedule in machine.SCHEDULES
    )
    assert any(run != (True, set()) for run in runs)


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize("form", LARGE)
def test_the_machine_code_stores_a_tile_at_once(form: str, tmp_path: Path) -> None:
    made = LARGE[form]
    with new_context():
        module = ir.Module.parse(made.module())
        pipeline(module, target="nvvm:sm_90a", check="none")
        text = lower(module, target="nvvm:sm_90a", emit="ptx").text
        (kernel,) = lower(module, target="nvvm:sm_90a", emit="cubin").kernels
    assert remarks_on_products(text, tmp_path) == []
    assert text.count("cp.async.bulk.tensor.3d.global.shared") == 1
    assert kernel.resources.spill_store_bytes == kernel.resources.spill_load_bytes == 0
    (loop,) = [found for found in kernel.machine.loops if found.multiplications]
    # No more than without such an epilogue (test_hopper_gemm.py).
    assert loop.instructions < 76
