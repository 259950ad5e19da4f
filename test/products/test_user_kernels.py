"""Every kernel of bench/user_kernels.py, as a user writes it: proven, right on the machine and as PTX, and
wrong as soon as one wait lets one more group in flight.

Covers: bench/user_kernels.py
"""

from __future__ import annotations

import sys
from functools import cache, partial

import numpy as np
import pytest

from helpers.paths import ROOT
from helpers.ptx_machine import COMPLETIONS, Array, Program, launch, memref, parse
from helpers.ptx_of import Ptx, lowered, reads_in_flight
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir, new_context

sys.path.insert(0, str(ROOT / "bench"))

from user_kernels import TARGET, USERS, Result

pytestmark = pytest.mark.slow

UNWRITTEN = -77
# Its loads run ahead into registers: no copy is asynchronous, of two bytes each.
WITHOUT_WAITS = ("textbook GEMM f16 to f32",)


@cache
def ptx(name: str) -> Ptx:
    with new_context():
        module = ir.Module.parse(USERS[name].text())
        pipeline(module, target=TARGET)
        return lowered(module, TARGET)


@cache
def program_of(name: str) -> Program:
    return Program(parse(ptx(name).text), "f")


def given(name: str, steps: int) -> list:
    return list(USERS[name].data(np.random.default_rng(steps), steps))


def check(results: list[np.ndarray], wanted: list) -> None:
    for found, result in zip(results, wanted, strict=True):
        if isinstance(result, Result):
            assert np.abs(found - result.wanted).max() <= result.distance


def run(name: str, steps: int, completion: str, program: Program) -> None:
    kernel, wanted = USERS[name], given(name, steps)
    arrays = [
        Array(np.full(one.wanted.shape, UNWRITTEN, one.wanted.dtype), 16)
        if isinstance(one, Result)
        else Array(np.ascontiguousarray(one), 16, read_only=True)
        for one in wanted
    ]
    flat = [
        part
        for array in arrays
        for part in memref(
            array, array.data.shape, [s // array.data.itemsize for s in array.data.strides]
        )
    ]
    launch(
        program.module, "f", flat, block=(kernel.threads, 1, 1), grid=kernel.grid,
        completion=completion, dynamic_bytes=ptx(name).dynamic_bytes["f"], program=program,
    )  # fmt: skip
    check([array.data for array in arrays], wanted)


@pytest.mark.parametrize("name", USERS)
def test_it_is_proven_and_right_on_the_machine(name: str) -> None:
    kernel, wanted = USERS[name], given(name, 3)
    arguments = [
        np.full(one.wanted.shape, UNWRITTEN, one.wanted.dtype) if isinstance(one, Result) else one
        for one in wanted
    ]
    with new_context():
        module = ir.Module.parse(kernel.text())
        report = pipeline(module, target=TARGET)
        checks = report.of("checks")
        assert checks and all(not (entry.unsafe or entry.unknown) for entry in checks)
        found = machine.run(
            module, "f", arguments, threads=kernel.threads, grid=kernel.grid, completion="late",
            target=TARGET,
        )  # fmt: skip
    assert not found.races
    check(list(found.arrays), wanted)


@pytest.mark.parametrize("name", USERS)
def test_its_ptx_gives_numpys_numbers_under_every_completion(name: str) -> None:
    for completion in COMPLETIONS:
        run(name, 3, completion, program_of(name))
    run(name, 1, "late", program_of(name))


@pytest.mark.parametrize("name", WITHOUT_WAITS)
def test_loads_of_two_bytes_run_ahead_in_registers_and_no_group_is_waited_for(name: str) -> None:
    assert "cp.async" not in ptx(name).text


@pytest.mark.parametrize("name", [name for name in USERS if name not in WITHOUT_WAITS])
def test_every_wait_with_one_group_more_in_flight_is_wrong(name: str) -> None:
    """For some number of steps some thread reads what is still in flight."""
    programs = program_of(name).with_looser_waits()
    assert len(programs) >= 2
    for program in programs:
        runs = [partial(run, name, steps, "late", program) for steps in (3, 1, 2, 4, 5, 6, 7)]
        assert any(map(reads_in_flight, runs))
