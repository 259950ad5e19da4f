"""The checker beside the machine, on random kernels that compute places, conditions and bounds in many ways.

Law 1: no run of a kernel that is proven finds a race. Law 2: of a kernel whose numbers are all known, a run finds a race if one
is certain. A run that leaves its arrays counts for neither. What share was proven, is a race, or is unknown is printed.

Covers: checker/conflicts.py, checker/overlap.py, checker/owners.py, checker/footprints.py, checker/thread_grid.py,
checker/arithmetic.py
"""

from __future__ import annotations

import os
from collections import Counter
from itertools import product

import numpy as np
import pytest

from helpers.check_harness import RACES, check_text
from helpers.random_thread_kernels import ThreadKernel, grid_kernel, thread_kernel
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context

EACH = 100 if os.environ.get("ASYNC_PIPE_NIGHTLY") else 12
FIRST = int(os.environ.get("ASYNC_PIPE_SEED", "0")) * 1000
PARTS = range(6)
# Of `n` and `p`: the first run is the longest.
NUMBERS = tuple(product((5, 3, 2, 0, 1), (1, 0, 6)))
HARMFUL = RACES | {"cross-block", "divergent-barrier"}
MAKERS = {"threads": thread_kernel, "blocks": grid_kernel}


def races(kernel: ThreadKernel, *, closed: bool) -> set[str] | None:
    """What runs find; None if one leaves its arrays."""
    floats = [np.arange(256, dtype=np.float32), np.arange(512, dtype=np.float16)]
    flags = [np.arange(1024) * 37 % 100 - 50]
    if "memref.load %B" in kernel.text:
        # Of these, which are conditions, all are one way.
        flags += [np.ones(1024), np.zeros(1024)]
    given = [[*floats, flag.astype(np.int8)] for flag in flags]
    if kernel.globals:
        given = [[np.zeros(shape, np.float32) for shape in kernel.globals]]
    found: set[str] = set()
    with new_context():
        module = ir.Module.parse(kernel.text)
        for arrays, numbers in product(given, [()] if closed else NUMBERS):
            run = machine.run(
                module,
                "k",
                [*arrays, *numbers],
                threads=kernel.block,
                grid=(kernel.grid, 1, 1),
                completion="late",
                step_limit=100_000,
            )
            if "out-of-bounds" in run.race_codes:
                return None
            found |= run.race_codes & HARMFUL
            if found:
                break
    return found


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "open"])
@pytest.mark.parametrize("kind", MAKERS)
def test_what_is_proven_never_races_and_what_certainly_races_does(
    kind: str, closed: bool, part: int
) -> None:
    share: Counter[str] = Counter()
    for seed in range(FIRST + part * EACH, FIRST + (part + 1) * EACH):
        kernel = MAKERS[kind](seed, closed=closed)
        checked = check_text(kernel.text, "nvvm:sm_80")
        found = races(kernel, closed=closed)
        if found is None:
            share["out of bounds"] += 1
            continue
        verdict = "race" if checked.unsafe else "unknown" if checked.unknown else "proven"
        share[f"{verdict}, {'found' if found else 'not found'}"] += 1
        assert not (verdict == "proven" and found), f"seed {seed}: {found}"
        # A function with copies is checked alone, too, for blocks of any size.
        certain = verdict == "race" and closed and "call @" not in kernel.text
        assert not (certain and not found), f"seed {seed}: {checked.unsafe}"
    print(f"\n{kind}: {dict(share)}")
    assert sum(share.values()) == EACH
