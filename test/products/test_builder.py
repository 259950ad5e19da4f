"""The `Pipeline` builder: what it emits is counted, checked, and right under every completion.

Covers: builder, examples/pipelined_sum.py
"""

from __future__ import annotations

import importlib.util
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.paths import ROOT
from mlir_async_pipe import Pipeline, machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import integer_attribute, walk
from mlir_async_pipe.session.diagnostics import AsyncPipeError, UsageError

EXAMPLE = ROOT / "examples" / "pipelined_sum.py"


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("pipelined_sum", EXAMPLE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def counted(module: Any) -> list[int | None]:
    mlir_async_pipe.count_waits(module)
    waits = [op for op in walk(module) if op.name == "async_pipe.consumer_wait"]
    return [integer_attribute(wait, "count") for wait in waits]


def written(steps: list[str], depth: int = 2) -> Any:
    """A function in which the named calls of a Pipeline follow each other."""
    module = ir.Module.parse("func.func @f() {\n  return\n}")
    block = module.body.operations[0].regions[0].blocks[0]
    pipe = Pipeline(depth)
    with ir.Location.unknown(), ir.InsertionPoint(block.operations[0]):
        for step in steps:
            getattr(pipe, step)()
    return module


def test_the_sum_leaves_one_copy_in_flight_in_the_loop_and_none_after_it() -> None:
    with new_context():
        assert counted(example().build()) == [1, 0]


@pytest.mark.parametrize("batches", [1, 2, 5])
@pytest.mark.parametrize("completion", ["eager", "late", "random"])
def test_the_sum_is_right_whenever_copies_arrive(completion: str, batches: int) -> None:
    values = np.arange(batches * 16, dtype=np.float32).reshape(batches, 16)
    with new_context():
        module = example().build()
        mlir_async_pipe.count_waits(module)
        done = machine.run(
            module, "sum", [values, np.zeros(1, np.float32)], completion=completion, seed=3
        )
    assert done.races == ()
    assert done.arrays[1][0] == values.sum()


def test_the_sum_has_no_hazards() -> None:
    with new_context():
        module = example().build()
        mlir_async_pipe.count_waits(module)
        report = mlir_async_pipe.check(module)
    assert [d for d in report.diagnostics if d.severity == "error"] == []


def test_a_third_slot_of_two_is_refused() -> None:
    with new_context():
        module = written(["producer_acquire", "commit"] * 3)
        with pytest.raises(AsyncPipeError) as caught:
            mlir_async_pipe.count_waits(module)
    assert caught.value.code == "depth-exceeded"


def test_a_released_slot_can_be_acquired_again() -> None:
    with new_context():
        produce, consume = ["producer_acquire", "commit"], ["consumer_wait", "consumer_release"]
        assert counted(written([*produce, *produce, *consume, *produce, *consume])) == [1, 1]


def test_produce_emits_acquire_scope_and_commit_in_this_order() -> None:
    with new_context():
        module = ir.Module.parse("func.func @f() {\n  return\n}")
        block = module.body.operations[0].regions[0].blocks[0]
        pipe = Pipeline(depth=3, queue=4)
        with ir.Location.unknown(), ir.InsertionPoint(block.operations[0]), pipe.produce():
            pass
        ops = [op for op in walk(module) if op.name.startswith("async_pipe.")]
        assert [op.name.removeprefix("async_pipe.") for op in ops] == [
            "producer_acquire",
            "scope",
            "yield",
            "commit_queue",
        ]
        assert {integer_attribute(op, "queue") for op in ops if op.name != "async_pipe.yield"} == {
            4
        }


def test_a_token_can_be_waited_for_by_name() -> None:
    with new_context():
        module = ir.Module.parse("func.func @f() {\n  return\n}")
        block = module.body.operations[0].regions[0].blocks[0]
        pipe = Pipeline(depth=2)
        with ir.Location.unknown(), ir.InsertionPoint(block.operations[0]):
            first = pipe.commit()
            pipe.commit()
            pipe.wait(first)
        mlir_async_pipe.count_waits(module)
        (wait,) = (op for op in walk(module) if op.name == "async_pipe.wait_queue")
        assert integer_attribute(wait, "count") == 1


@pytest.mark.parametrize(("depth", "queue"), [(0, 0), (-1, 0), (2, -1)])
def test_a_pipeline_without_slots_or_with_a_negative_queue_is_refused(
    depth: int, queue: int
) -> None:
    with pytest.raises(UsageError) as caught:
        Pipeline(depth, queue)
    assert caught.value.code == "bad-argument"
