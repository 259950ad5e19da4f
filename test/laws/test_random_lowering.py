"""Random kernels from annotations to PTX, run by a machine that shares no module with the package.

ptx_report.py runs thousands of them; ASYNC_PIPE_SAMPLES sets how many here.

Covers: lowering/nvvm/to_nvvm.py, lowering/scopes/abstract_ops.py, test/helpers/random_lowering
"""

from __future__ import annotations

import os

import pytest

from helpers.ptx_machine import Program, PtxFault, parse
from helpers.ptx_of import ptx_of
from helpers.random_lowering.judge import judge, run_kernel
from helpers.random_lowering.kernel_text import Kernel
from helpers.random_lowering.lines import module_text
from helpers.random_lowering.model import make_case
from helpers.random_lowering.spec import Spec, choose

SAMPLES = int(os.environ.get("ASYNC_PIPE_SAMPLES", "40"))


@pytest.mark.parametrize("samples", [10, SAMPLES])
def test_random_kernels_are_right_and_their_counts_exact(samples: int) -> None:
    """Law: what is not refused is right under every completion; one more group is wrong."""
    table = judge(list(range(samples)), batch=30, mutate=True)
    assert table.wrong == []
    assert table.missed == []
    assert not table.unknown
    assert table.pipelined >= 0.5 * table.kernels
    assert table.mutants["caught"] >= 0.5 * table.kernels
    # What the generator gives is legal: refusals are the pipeliner's, for reasons it documents.
    assert "crash" not in table.refused
    assert "unknown-annotation" not in table.refused


def first(copy: str) -> Spec:
    """The first random kernel of this form whose threads read what others copied."""
    return next(
        spec
        for spec in (choose(seed, "kernel") for seed in range(10_000))
        if [source.copy for source in spec.sources] == [copy]
        and (spec.partner, spec.trips, spec.scratch, spec.call) == ("reverse", 4, 0, False)
    )


@pytest.mark.parametrize("copy", ["async", "masked", "transfer-edge", "if"])
def test_the_judge_sees_missing_barriers(copy: str) -> None:
    spec = first(copy)
    text = module_text([Kernel(spec).text()])
    ptx, case = ptx_of(text, pipelined=False), make_case(spec)
    program = Program(parse(ptx.text), spec.name)
    assert run_kernel(spec, case, ptx, program, "late")[0] == ""
    unordered = Program(parse(ptx.text.replace("bar.sync", "membar.cta; //")), spec.name)
    with pytest.raises(PtxFault):
        run_kernel(spec, case, ptx, unordered, "late")


def test_a_load_that_the_back_end_moves_above_its_branch_is_distinguished() -> None:
    """Seed 20263207: LLVM loads the slot of the second iteration before the loop, and uses what it
    finds only where a copy has been there."""
    table = judge([20263207], batch=1)
    assert (table.wrong, table.speculative) == ([], 1)


def test_a_kernel_that_uses_what_nobody_wrote_is_wrong() -> None:
    """Its first store into the tile is gone: the results depend on what stood there."""
    spec = first("async")
    text = module_text([Kernel(spec).text()])
    ptx, case = ptx_of(text, pipelined=False), make_case(spec)
    without = Program(parse(ptx.text.replace("cp.async.ca", "// cp.async.ca")), spec.name)
    with pytest.raises(PtxFault) as fault:
        run_kernel(spec, case, ptx, without, "late")
    assert fault.value.kind == "uninitialised"
    assert run_kernel(spec, case, ptx, without, "late", unwritten=0x3C)[0]
