"""Warps that only copy are ahead of what writes the copied memory before the loop and in the loops
around: that is refused, and goes wrong on the machine where it is not.

Covers: pipeliner/plan/tensor_tiles.py
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers.machine_programs import parse
from helpers.stored_loops import stored_text
from helpers.tensor_loops import Box, TensorLoop
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.session.diagnostics import AsyncPipeError

COLUMNS = 192
STORE = """%to_col = arith.addi %base, %t : index
%to_col64 = arith.index_cast %to_col : index to i64
%to = llvm.getelementptr %m0_[%to_col64] : (!llvm.ptr, i64) -> !llvm.ptr, f32
llvm.store %value, %to : f32, !llvm.ptr
gpu.barrier"""
INNER, AROUND = "} {async_pipe.num_stages", "scf.yield %r#1 : i1\n}"
BEFORE = "nvvm.fence.mbarrier.init\ngpu.barrier"
NEXT = "%e1 = arith.addi %e, %i1 : index\n%base = arith.muli %e1, %i64 : index"


def text_of(roles: str, place: str, executions: int = 2, store: str = STORE) -> str:
    """Tiles of 64 columns, two an execution; what an execution adds up is written to the first row of
    what the next one copies (`place` is "after" the loop), or zeros to what this one does ("before"
    it, or before the loop "around")."""
    loop = TensorLoop((Box(2, 32),), roles=roles, static=True, executions=executions, trips=2)
    text = loop.text()
    stored = re.search(r"memref.store (%\w+), %out\[%tile, %t\] : .*", text)
    assert stored is not None
    text = text.replace(stored[0], f"%acc = arith.addf %sum, {stored[1]} : f32")
    text = text.replace("%sum = %i0) -> (index, i1, index)", "%sum = %zero) -> (index, i1, f32)")
    text = text.replace("%flip, %sum : index, i1, index", "%flip, %acc : index, i1, f32")
    if executions == 1:
        after = f"%base = arith.addi %i0, %i64 : index\n{store}\nreturn"
        return text.replace("return", after.replace("%value", "%r#2"))
    if place == "after":
        lines = f"{NEXT}\n{store}".replace("%value", "%r#2")
        return text.replace(AROUND, f"{lines}\n{AROUND}")
    lines = store.replace("%value", "%zero")
    if place == "around":
        at_start = lines.replace("%base", "%i0")
        return text.replace(BEFORE, f"{BEFORE}\n{at_start}")
    lines = f"%base = arith.muli %e, %i64 : index\n{lines}"
    return text.replace("%r:3 = scf.for", f"{lines}\n%r:3 = scf.for")


def copied_after(text: str, completion: str = "eager", schedule: str = "lockstep"):
    """The array that is copied, and written, after a run."""
    array = (np.arange(2 * COLUMNS, dtype=np.float32) % 7).reshape(2, COLUMNS)
    threads = int(re.search(r"known_block_size = array<i32: (\d+)", text)[1])
    out = np.zeros((8, 64), np.float32)
    result = machine.run(
        parse(text), None, [array, out], threads=threads, completion=completion, schedule=schedule
    )
    return result.arrays[0]


def pipelined(text: str) -> str:
    module = parse(text)
    pipeline(module, check="none")
    return str(module)


def refused(text: str) -> AsyncPipeError:
    module = parse(text)
    kept = str(module)
    with pytest.raises(AsyncPipeError) as error:
        pipeline(module, check="none")
    assert error.value.code == "unproven-independence"
    assert str(module) == kept
    return error.value


@pytest.mark.parametrize("roles", ["specialised", "ping-pong"])
@pytest.mark.parametrize("place", ["after", "before"])
def test_what_a_loop_around_writes_is_refused(roles, place):
    text = text_of(roles, place)
    diagnostic = refused(text).diagnostic
    line = 1 + text[: text.index("llvm.store")].count("\n")
    assert diagnostic.place.line == line
    assert "which warps of their own do not order" in diagnostic.message
    assert diagnostic.notes[0].message == "the copy"


def test_what_comes_before_the_loop_around_is_refused_too():
    text = text_of("specialised", "around")
    assert "after it reads" in refused(text).diagnostic.message
    refused(text.replace(AROUND, f"{AROUND} {{async_pipe.independent}}"))


def test_a_tensor_store_in_the_loop_around_is_refused():
    loop = TensorLoop((Box(2, 32),), roles="specialised", stored="after", executions=2)
    text = stored_text(loop)
    pipelined(text)
    assert "tma.async.store" in str(refused(text.replace("} {async_pipe.independent}", "}")))


def test_where_the_author_is_wrong_the_machine_reads_old_values():
    """Which is what the refusal is for."""
    text = text_of("specialised", "after")
    asserted = text.replace(AROUND, f"{AROUND} {{async_pipe.independent}}")
    asserted = asserted.replace(INNER, "} {async_pipe.independent, async_pipe.num_stages")
    assert not np.array_equal(copied_after(text), copied_after(pipelined(asserted)))


def test_one_of_the_loops_says_nothing_of_the_other():
    text = text_of("specialised", "after")
    refused(text.replace(INNER, "} {async_pipe.independent, async_pipe.num_stages"))
    pipelined(text.replace(AROUND, f"{AROUND} {{async_pipe.independent}}"))


def test_the_advice_works():
    text = text_of("specialised", "after")
    notes = [note.message for note in refused(text).diagnostic.notes]
    assert any("on each loop around this op" in note for note in notes)
    pipelined(text.replace(AROUND, f"{AROUND} {{async_pipe.independent}}"))
    early = text_of("specialised", "before")
    notes = [note.message for note in refused(early).diagnostic.notes]
    assert any("write it after the copies, or through an argument" in note for note in notes)
    apart = re.sub(
        r"%to_col64.*\n.*\nllvm.store %zero.*",
        "memref.store %zero, %out[%e, %t] : memref<?x64xf32>",
        early,
    )
    pipelined(apart)


@pytest.mark.parametrize("roles", ["specialised", "together"])
def test_what_an_iteration_writes_before_it_copies_must_be_apart_whatever_is_asserted(roles):
    """Copies of later iterations are issued before it, and that of its own, too."""
    text = text_of(roles, "after", executions=1)
    lines = STORE.replace("%base", "%i64").replace("%value", "%zero")
    early = text.replace("nvgpu.mbarrier.arrive", f"{lines}\nnvgpu.mbarrier.arrive")
    early = early.replace(INNER, "} {async_pipe.independent, async_pipe.num_stages")
    assert "after it reads" in refused(early).diagnostic.message
    wait = "nvgpu.mbarrier.try_wait"
    late = text.replace(wait, f"{lines}\n{wait}").replace(
        INNER, "} {async_pipe.independent, async_pipe.num_stages"
    )
    pipelined(late)


def test_after_the_only_loop_anything_may_be_written():
    text = text_of("specialised", "after", executions=1)
    kept = copied_after(text)
    written = pipelined(text)
    for completion in machine.COMPLETIONS:
        assert np.array_equal(kept, copied_after(written, completion, "backward"))


@pytest.mark.parametrize("place", ["after", "before", "around"])
def test_where_all_warps_copy_the_next_tiles_are_copied_after_the_stores(place):
    text = text_of("together", place)
    kept = copied_after(text)
    written = pipelined(text)
    for completion in machine.COMPLETIONS:
        assert np.array_equal(kept, copied_after(written, completion))


def test_loops_around_that_are_made_one_are_left_alone():
    """`overlap-outer` begins no copies to mbarriers before the stores of the tile before."""
    text = text_of("together", "after")
    module = parse(text)
    pipeline(module, check="none", overlap_outer=True)
    assert np.array_equal(copied_after(text), copied_after(str(module)))
