"""Tensor stores that read workgroup memory: waited for before the tile is written anew and before
the block ends, fenced, and never taken for something that later copies do not see.

Covers: checker/phases/block_memory.py, checker/phases/op_effects.py, checker/phase_faults.py,
pipeliner/plan/tensor_tiles.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_module, codes
from helpers.machine_programs import parse
from helpers.tensor_stores import LOOP, WAIT, stores_text
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.session.diagnostics import AsyncPipeError

AT_END = "nvvm.cp.async.bulk.wait_group 0 {read}"
WRONG = {
    "no wait": ({"wait": "gpu.barrier"}, {"source-overwritten", "unwaited-copy"}),
    "no wait before the next": ({"wait": "gpu.barrier", "end": AT_END}, {"source-overwritten"}),
    "one in flight": ({"wait": f"{WAIT}\ngpu.barrier".replace("0", "1")}, {"source-overwritten"}),
    "no barrier before the store": ({"meet": ""}, {"missing-barrier", "missing-fence"}),
    "no fence": ({"fence": ""}, {"missing-fence"}),
}


def found(text: str) -> set[str]:
    return codes(check_module(parse(text)).report)


def raced(text: str, completion: str) -> set[str]:
    schedules = ("lockstep", "backward", "forward")
    results = [
        machine.run(
            parse(text), None, LOOP.arguments(), threads=64, completion=completion, schedule=one
        )
        for one in schedules
    ]
    return {code for result in results for code in result.race_codes}


def test_a_store_that_is_waited_for_is_proven() -> None:
    report = check_module(parse(stores_text())).report
    (check,) = report.of("checks")
    assert (check.unsafe, check.unknown) == (0, 0)


@pytest.mark.parametrize("name", WRONG)
def test_each_way_to_be_wrong_is_named_by_checker_and_machine(name: str) -> None:
    changes, codes = WRONG[name]
    text = stores_text(**changes)
    assert found(text) & codes
    for completion in machine.COMPLETIONS:
        assert raced(text, completion) & codes


@pytest.mark.parametrize("changes", ({"wait": "gpu.barrier"}, {"wait": "", "commit": ""}))
def test_a_loop_that_never_waits_comes_to_the_same_state_again(changes: dict[str, str]) -> None:
    """What is in flight for ever is remembered once, committed or not: it took the whole budget."""
    text = stores_text(wait=changes["wait"])
    if "commit" in changes:
        text = text.replace("nvvm.cp.async.bulk.commit.group\n", "")
    (check,) = check_module(parse(text)).report.of("checks")
    assert check.unsafe
    assert check.states < 200


@pytest.mark.parametrize(
    ("end", "codes"),
    [("", {"unwaited-copy"}), (AT_END, set()), (AT_END.replace(" {read}", ""), set())],
)
def test_a_store_in_flight_when_the_block_ends_is_named(end: str, codes: set[str]) -> None:
    """A block's workgroup memory is the next one's: its reads must be over."""
    start, loop = stores_text(wait="").split("nvvm.cp.async.bulk.commit.group")
    body = start[start.index("%row =") :]
    once = start[: start.index("%r:3")] + body.replace("%tile, ", "%i0, ") + f"\n{loop[-10:]}"
    text = once.replace("%row =", "memref.store %zero, %o[%t] : memref<64xf32, WG>\nFENCE\n%row =")
    text = text.replace("FENCE", stores_text.__kwdefaults__["fence"] + "\ngpu.barrier")
    text = text.replace("return", f"nvvm.cp.async.bulk.commit.group\n{end}\nreturn")
    assert found(text) == codes
    assert raced(text, "late") == codes


def test_a_loop_with_stores_is_pipelined_right() -> None:
    module = parse(stores_text())
    pipeline(module, check="error")
    for completion in machine.COMPLETIONS:
        result = machine.run(module, None, LOOP.arguments(), threads=64, completion=completion)
        assert not result.races
        assert np.array_equal(
            result.arrays[1].reshape(LOOP.output), LOOP.expected(LOOP.arguments())
        )


def test_a_store_may_write_what_a_later_copy_reads() -> None:
    """Its tensor map may be that of the copy's tensor."""
    text = stores_text().replace("async_pipe.independent, ", "")
    with pytest.raises(AsyncPipeError, match="may write what a tensor copy") as refused:
        pipeline(parse(text), check="none")
    assert refused.value.code == "unproven-independence"
