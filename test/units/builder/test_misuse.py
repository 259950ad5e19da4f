"""What a pipeline is asked in the wrong order is an error at the line of Python that asked it.

Covers: builder/pipeline.py, builder/caller.py
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

import mlir_async_pipe
from helpers.object_kernels import Kernel, kernel, made
from mlir_async_pipe import Pipeline, copy_tile
from mlir_async_pipe.bindings import ir, load
from mlir_async_pipe.session.diagnostics import AsyncPipeError, UsageError


def pipeline(depth: int = 2) -> Pipeline:
    pipe = Pipeline(depth)
    pipe.buffer(64, "f32")
    return pipe


def produced(pipe: Pipeline) -> None:
    with pipe.produce():
        pass


def twice(k: Kernel, pipe: Pipeline) -> None:
    with pipe.produce(), pipe.produce():  # here
        pass


def consume_inside(k: Kernel, pipe: Pipeline) -> None:
    with pipe.produce(), pipe.consume():  # here
        pass


def consume_first(k: Kernel, pipe: Pipeline) -> None:
    with pipe.consume():  # here
        pass


def consume_twice(k: Kernel, pipe: Pipeline) -> None:
    produced(pipe)
    with pipe.consume():
        pass
    with pipe.consume():  # here
        pass


def consume_three_of_two(k: Kernel, pipe: Pipeline) -> None:
    produced(pipe)
    produced(pipe)
    with pipe.consume(), pipe.consume(), pipe.consume():  # here
        pass


def too_many(k: Kernel, pipe: Pipeline) -> None:
    produced(pipe)
    produced(pipe)
    with pipe.produce():  # here
        pass


def late_buffer(k: Kernel, pipe: Pipeline) -> None:
    produced(pipe)
    pipe.buffer(8, "f32")  # here


def late_copy(k: Kernel, pipe: Pipeline) -> None:
    with pipe.produce() as slot:
        pass
    copy_tile(k.arguments[0], slot)  # here


def late_use(k: Kernel, pipe: Pipeline) -> None:
    produced(pipe)
    with pipe.consume() as slot:
        pass
    made("memref.load", [slot, k.number(0)], ir.F32Type.get())
    pipe.tail()  # here


def after_tail(k: Kernel, pipe: Pipeline) -> None:
    pipe.tail()
    with pipe.produce():  # here
        pass


def slots_then_loop(k: Kernel, pipe: Pipeline) -> None:
    produced(pipe)
    pipe.loop(0, 8, 1, lambda i, slot: None, lambda i, slot: None)  # here


def loop_then_slots(k: Kernel, pipe: Pipeline) -> None:
    pipe.loop(0, 8, 1, lambda i, slot: None, lambda i, slot: None)
    with pipe.produce():  # here
        pass


def loop_inside(k: Kernel, pipe: Pipeline) -> None:
    def load(i: Any, slot: Any) -> None:
        pipe.loop(0, 8, 1, load, load)  # here

    pipe.loop(0, 8, 1, load, load)


def tail_inside(k: Kernel, pipe: Pipeline) -> None:
    with pipe.produce():
        pipe.tail()  # here


def forgotten_result(k: Kernel, pipe: Pipeline) -> None:
    def use(i: Any, slot: Any, total: Any) -> None:  # here
        return None

    pipe.loop(0, 8, 1, lambda i, slot: None, use, k.real(0.0))


def asked_whether_it_arrived(k: Kernel, pipe: Pipeline) -> None:
    produced(pipe)
    pipe.try_wait()  # here


def wrong_shape(k: Kernel, pipe: Pipeline) -> None:
    pipe.buffer((8, 0), "f32")  # here


def wrong_type(k: Kernel, pipe: Pipeline) -> None:
    pipe.buffer((8, 8), "float32")  # here


def wrong_scope(k: Kernel, pipe: Pipeline) -> None:
    Pipeline(2, scope="cluster")  # type: ignore[arg-type]  # here


CASES: dict[Callable[[Kernel, Pipeline], None], str] = {
    twice: "slot-open",
    consume_inside: "slot-open",
    consume_first: "consume-without-produce",
    consume_twice: "consume-without-produce",
    consume_three_of_two: "consume-without-produce",
    too_many: "depth-exceeded",
    late_buffer: "buffer-too-late",
    late_copy: "slot-closed",
    late_use: "slot-closed",
    after_tail: "pipeline-closed",
    slots_then_loop: "forms-mixed",
    loop_then_slots: "forms-mixed",
    loop_inside: "slot-open",
    tail_inside: "slot-open",
    forgotten_result: "loop-results",
    asked_whether_it_arrived: "no-try-wait",
    wrong_shape: "bad-argument",
    wrong_type: "bad-argument",
    wrong_scope: "bad-argument",
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_misuse_is_said_at_the_line_that_is_wrong(case: Callable[[Kernel, Pipeline], None]) -> None:
    lines, first = inspect.getsourcelines(case)
    marked = next(number for number, line in enumerate(lines, first) if "# here" in line)
    with kernel(["memref<64xf32>"]) as k:
        with pytest.raises(UsageError) as caught:
            case(k, pipeline())
        assert caught.value.code == CASES[case]
        place = caught.value.diagnostic.place
        assert (place.file, place.line) == (__file__, marked)
        assert place.column > 0


@pytest.mark.parametrize("location", ["user.py", None])
def test_a_late_use_is_found_where_its_op_says(location: str | None) -> None:
    with kernel(["memref<64xf32>"]) as k:
        pipe = pipeline()
        produced(pipe)
        with pipe.consume() as slot:
            pass
        place = ir.Location.file(location, 7, 3) if location else ir.Location.unknown()
        with place:
            load("dialects.memref").load(slot, [k.number(0)])
        with pytest.raises(UsageError) as caught:
            pipe.tail()
    found = caught.value.diagnostic
    assert (found.place.file, found.place.line) == (("user.py", 7) if location else (
        __file__, found.place.line
    ))  # fmt: skip
    assert found.notes[0].place.file == __file__


@pytest.mark.parametrize("role", ["produce", "consume"])
def test_a_late_use_after_the_last_with_is_found_by_the_pass(role: str) -> None:
    """Nothing asks the pipeline again; a tile of another one that is held longer is none."""
    memref = load("dialects.memref")
    with kernel(["memref<64xf32>"]) as k:
        outer, inner = pipeline(), pipeline()
        produced(outer)
        produced(inner)
        with outer.consume() as kept:
            with inner.consume() as slot:
                memref.load(slot, [k.number(0)])
            memref.load(kept, [k.number(0)])
        if role == "produce":
            with outer.produce() as slot:
                pass
        late = inspect.currentframe().f_lineno + 2  # type: ignore[union-attr]
        with ir.Location.file("user.py", late, 1):
            memref.load(slot, [k.number(0)])
        with pytest.raises(AsyncPipeError) as caught:
            mlir_async_pipe.pipeline(k.module, target="nvvm:sm_80")
    assert caught.value.code == "slot-closed"
    found = caught.value.diagnostic
    assert (found.place.file, found.place.line) == ("user.py", late)
    assert [note.message for note in found.notes][:2] == [
        "the slot was taken here",
        "and given away here",
    ]


def test_outside_of_an_insertion_point_nothing_can_be_written() -> None:
    with pytest.raises(UsageError) as caught:
        produced(pipeline())
    assert caught.value.code == "no-insertion-point"


def test_what_is_found_on_paths_is_at_the_users_line_too() -> None:
    """Three slots of two, but only in the second iteration: the count pass says so."""
    with kernel(["memref<64xf32>"]) as k:
        pipe = pipeline()
        scf = load("dialects.scf")
        loop = scf.ForOp(k.number(0), k.number(8), k.number(1))
        with ir.InsertionPoint(loop.body):
            line = inspect.currentframe().f_lineno + 1  # type: ignore[union-attr]
            with pipe.produce() as slot:
                copy_tile(k.arguments[0], slot)
            scf.yield_([])
        with pytest.raises(AsyncPipeError) as caught:
            mlir_async_pipe.pipeline(k.module, target="nvvm:sm_80")
    assert caught.value.code == "depth-exceeded"
    assert caught.value.diagnostic.place.file == __file__
    assert caught.value.diagnostic.place.line == line


def condition(k: Kernel) -> Any:
    arith, memref = load("dialects.arith"), load("dialects.memref")
    several = memref.dim(k.arguments[0], k.number(0))
    return arith.cmpi(arith.CmpIPredicate.ugt, several, k.number(1))


def in_both_branches(k: Kernel, pipe: Pipeline) -> None:
    """Whichever side runs, the slot that is consumed was not produced."""
    branch = load("dialects.scf").IfOp(condition(k), has_else=True)
    with ir.InsertionPoint(branch.then_block):
        produced(pipe)
        load("dialects.scf").yield_([])
    with ir.InsertionPoint(branch.else_block):
        consumed(pipe)
        load("dialects.scf").yield_([])


def in_one_branch(k: Kernel, pipe: Pipeline) -> None:
    branch = load("dialects.scf").IfOp(condition(k))
    with ir.InsertionPoint(branch.then_block):
        produced(pipe)
        load("dialects.scf").yield_([])
    consumed(pipe)


def in_a_loop(k: Kernel, pipe: Pipeline) -> None:
    """The second of three iterations finds no slot."""
    produced(pipe)
    loop = load("dialects.scf").ForOp(k.number(0), k.number(3), k.number(1))
    with ir.InsertionPoint(loop.body):
        consumed(pipe)
        load("dialects.scf").yield_([])


def filled_in_a_loop(k: Kernel, pipe: Pipeline) -> None:
    loop = load("dialects.scf").ForOp(k.number(0), k.number(2), k.number(1))
    with ir.InsertionPoint(loop.body):
        produced(pipe)
        load("dialects.scf").yield_([])
    consumed(pipe)
    consumed(pipe)


def consumed(pipe: Pipeline) -> None:
    with pipe.consume():
        pass


@pytest.mark.parametrize(
    ("program", "severity"),
    [
        (in_both_branches, "error"),
        (in_one_branch, "warning"),
        (in_a_loop, "error"),
        (filled_in_a_loop, ""),
    ],
)
def test_a_slot_that_was_never_filled_is_reported_on_paths_too(
    program: Callable[[Kernel, Pipeline], None], severity: str
) -> None:
    with kernel(["memref<?xf32>"]) as k:
        program(k, pipeline())
        if severity == "error":
            with pytest.raises(AsyncPipeError) as caught:
                mlir_async_pipe.pipeline(k.module, target="nvvm:sm_80")
            reported = [caught.value.diagnostic]
        else:
            reported = list(mlir_async_pipe.pipeline(k.module, target="nvvm:sm_80").diagnostics)
    assert [entry.code for entry in reported] == ["consumer-ahead"] * bool(severity)
    assert all(entry.severity == severity and entry.place.file == __file__ for entry in reported)


def test_a_slot_that_is_all_of_the_memory_may_be_used_again() -> None:
    with kernel(["memref<64xf32>"]) as k:
        pipe = pipeline(depth=1)
        for _ in range(3):
            with pipe.produce() as slot:
                copy_tile(k.arguments[0], slot)
            with pipe.consume() as slot:
                made("memref.load", [slot, k.number(0)], ir.F32Type.get())
        pipe.tail()


def test_a_pipeline_can_have_three_loops() -> None:
    with kernel(["memref<64xf32>"]) as k:
        pipe = pipeline()

        def use(i: Any, slot: Any) -> None:
            made("memref.load", [slot, i], ir.F32Type.get())

        for _ in range(3):
            pipe.loop(0, 8, 1, lambda i, slot: copy_tile(k.arguments[0], slot), use)


def test_a_second_consume_inside_of_one_takes_the_next_slot() -> None:
    with kernel(["memref<64xf32>"]):
        pipe = pipeline()
        produced(pipe)
        produced(pipe)
        with pipe.consume() as one, pipe.consume() as other:
            assert ir.Value(one) != ir.Value(other)
