"""Random kernels as PTX, raised to ops again: they compute the same on the machine for MLIR, under every
completion, are proven or not decided, and with one more group in flight never proven.

Covers: ptx/raise_ptx.py, ptx/instructions.py, ptx/function_writer.py, ptx/divisions.py
"""

from __future__ import annotations

import os
import re
from collections import Counter
from typing import Any

import numpy as np
import pytest

import mlir_async_pipe as ap
from helpers.ptx_machine import Program, PtxFault, parse
from helpers.ptx_of import Ptx, lowered
from helpers.random_lowering.judge import TARGET, Subject, Table, pipeline_subject, run_kernel
from helpers.random_lowering.kernel_text import Kernel
from helpers.random_lowering.lines import module_text
from helpers.random_lowering.model import Case, make_case, source_columns
from helpers.random_lowering.spec import Spec, choose
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.ptx.raise_ptx import raise_ptx
from mlir_async_pipe.session.diagnostics import AsyncPipeError

SEED = int(os.environ.get("ASYNC_PIPE_SEED", "1"))
COUNT = 200 if os.environ.get("ASYNC_PIPE_NIGHTLY") else 12
COMPLETIONS = ("late", "eager", "random:1")


def ptx_of(seed: int) -> tuple[Spec, Ptx] | None:
    """A random kernel and its PTX, pipelined where it can be; None where the chip refuses it."""
    spec = choose(seed, f"k{seed}")
    subject = Subject(spec, Kernel(spec).text())
    pipeline_subject(subject, Table())
    try:
        with new_context():
            return spec, lowered(ir.Module.parse(module_text([subject.code])), TARGET)
    except AsyncPipeError:
        return None


def run_raised(spec: Spec, ptx: Ptx, case: Case, module: Any, completion: str) -> tuple[Any, str]:
    """The result of the machine, and how the output differs from what it must be."""
    rows = spec.blocks * spec.outer * spec.trips
    arguments: list[Any] = []
    for data, source in zip(case.inputs, spec.sources, strict=True):
        array = data.copy()
        arguments += [
            array,
            array,
            source.offset,
            rows,
            source_columns(spec, source),
            source.stride,
            1,
        ]
    to = case.output.copy()
    arguments += [to, to, 0, to.size, 1]
    if case.scratch is not None:
        end = np.zeros_like(case.scratch)
        arguments += [end, end, 0, end.size, 1]
    result = machine.run(
        module, spec.name, [*arguments, spec.bound, spec.trips],
        threads=spec.block, grid=spec.blocks, completion=completion,
        dynamic_shared_bytes=ptx.dynamic_bytes[spec.name],
    )  # fmt: skip
    # An input is seven arguments; of the two pointers of a descriptor PTX reads the second.
    found = result.arrays[7 * len(case.inputs) + 1]
    return result, "" if np.array_equal(found, case.expected) else "other numbers"


@pytest.mark.parametrize("seed", range(SEED, SEED + COUNT))
def test_a_raised_kernel_computes_what_its_ptx_does(seed: int) -> None:
    found = ptx_of(seed)
    if found is None:
        return
    spec, ptx = found
    case = make_case(spec)
    module = raise_ptx(ptx.text, new_context(), "k.ptx")
    for completion in COMPLETIONS:
        result, wrong = run_raised(spec, ptx, case, module, completion)
        assert not wrong and not result.races


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(SEED, SEED + COUNT // 2))
def test_one_more_group_in_flight_is_never_proven(seed: int) -> None:
    """Where the machine for PTX finds a wrong result or a read in flight, so does the one for MLIR, and the
    checker does not call the kernel right."""
    found = ptx_of(seed)
    if found is None:
        return
    spec, ptx = found
    case = make_case(spec)
    for wait in re.finditer(r"cp\.async\.wait_group\s+(\d+);", ptx.text):
        more = f"cp.async.wait_group {int(wait[1]) + 1};"
        text = ptx.text[: wait.start()] + more + ptx.text[wait.end() :]
        if not _fails(spec, ptx, case, text):
            continue
        module = raise_ptx(text, new_context(), "k.ptx")
        runs = [run_raised(spec, ptx, case, module, completion) for completion in COMPLETIONS]
        assert any(wrong or result.races for result, wrong in runs)
        (reported,) = ap.check(module, assume_noalias_arguments=True).of("checks")
        assert reported.unsafe + reported.unknown > 0


def _fails(spec: Spec, ptx: Ptx, case: Case, text: str) -> bool:
    program = Program(parse(text), spec.name)
    try:
        return bool(run_kernel(spec, case, ptx, program, "late")[0])
    except PtxFault:
        return True


@pytest.mark.slow
def test_a_share_of_the_kernels_is_proven() -> None:
    """Counted, so that a reader of PTX that understands nothing does not pass."""
    reported: Counter[str] = Counter()
    for seed in range(1, 9):
        found = ptx_of(seed)
        if found is not None:
            module = raise_ptx(found[1].text, new_context(), "k.ptx")
            (one,) = ap.check(module, assume_noalias_arguments=True).of("checks")
            reported["unsafe" if one.unsafe else "unknown" if one.unknown else "proven"] += 1
    assert not reported["unsafe"] and reported["proven"] >= 3, reported
