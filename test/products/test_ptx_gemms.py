"""GEMMs of every element type and form as PTX, run by the machine of ptx_machine: right under every
completion, and wrong as soon as one wait lets one more group in flight.

Covers: examples/generate_gemm.py, examples/nvidia_tiles.py, lowering/split_addresses.py
"""

from __future__ import annotations

import sys
from functools import cache, partial
from typing import Any

import numpy as np
import pytest

from helpers.paths import ROOT
from helpers.ptx_machine import COMPLETIONS, Array, Program, launch, memref, parse
from helpers.ptx_of import Ptx, ptx_of, reads_in_flight

sys.path.insert(0, str(ROOT / "examples"))

from generate_gemm import Gemm
from nvidia_tiles import TYPES

pytestmark = pytest.mark.slow

# By name: the element type, and what else the generator is told; bytes of k in a tile are 64.
FORMS: dict[str, tuple[str, dict[str, Any]]] = {
    **{f"{kind} S={stages}": (kind, {"stages": stages}) for kind in TYPES for stages in (2, 4)},
    "f16 nested": ("f16", {"stages": 4, "nested": True}),
    "f16 edges": ("f16", {"stages": 3, "edges": True}),
    "bf16 edges": ("bf16", {"stages": 3, "edges": True}),
}
BYTES = {"f16": 2, "bf16": 2, "tf32": 4, "s8": 1}
TILE = 64


@cache
def ptx(form: str) -> Ptx:
    kind, more = FORMS[form]
    made = Gemm(tile_m=TILE, tile_n=TILE, tile_k=64 // BYTES[kind], types=TYPES[kind], **more)
    assert not made.problems()
    return ptx_of(made.module())


def operands(kind: str, rows: int, k: int) -> tuple[np.ndarray, np.ndarray]:
    """Small integers as the kernel holds them, and as numbers."""
    numbers = np.random.default_rng(rows + k).integers(-4, 5, (rows, k))
    if kind == "bf16":
        return (numbers.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16), numbers
    return numbers.astype({"f16": np.float16, "tf32": np.float32, "s8": np.int8}[kind]), numbers


def whole(data: np.ndarray, align: int, read_only: bool) -> tuple[Array, list]:
    array = Array(np.ascontiguousarray(data), align, read_only)
    return array, memref(array, data.shape, [s // data.itemsize for s in array.data.strides])


@cache
def program_of(form: str) -> Program:
    return Program(parse(ptx(form).text), "gemm")


def run(form: str, steps: int, completion: str, program: Program) -> None:
    """One tile of C over `steps` tiles of k; with edges, a few rows and columns fewer."""
    kind, more = FORMS[form]
    k = steps * 64 // BYTES[kind]
    m, n = (TILE - 3, TILE - 6) if more.get("edges") else (TILE, TILE)
    (a, left), (b, right) = operands(kind, m, k), operands(kind, n, k)
    result = np.zeros((m, n), np.int32 if kind == "s8" else np.float32)
    to, to_arguments = whole(result, 8, read_only=False)
    arguments = [*whole(a, 16, True)[1], *whole(b, 16, True)[1], *to_arguments]
    launch(
        program.module, "gemm", arguments, block=(128, 1, 1), completion=completion,
        dynamic_bytes=ptx(form).dynamic_bytes["gemm"], program=program,
    )  # fmt: skip
    assert np.array_equal(to.data, left @ right.T)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_is_right_under_every_completion(form: str) -> None:
    stages = FORMS[form][1]["stages"]
    assert "cp.async" in ptx(form).text
    for completion in COMPLETIONS:
        run(form, stages + 2, completion, program_of(form))
    run(form, 1, "late", program_of(form))


@pytest.mark.parametrize("form", FORMS)
def test_every_wait_with_one_group_more_in_flight_is_wrong(form: str) -> None:
    """For some length of k some thread reads what is still in flight."""
    programs = program_of(form).with_looser_waits()
    assert len(programs) >= 2
    for program in programs:
        runs = [partial(run, form, steps, "late", program) for steps in (7, 1, 2, 3, 4, 5, 6)]
        assert any(map(reads_in_flight, runs))
