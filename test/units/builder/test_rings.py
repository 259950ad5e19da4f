"""Rings of slots: whose they are, which comes next in any control flow, and how loops use them.

Covers: builder/slot_memory.py, builder/pipeline.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.object_kernels import COMPLETIONS, Kernel, kernel, made
from mlir_async_pipe import Pipeline, copy_tile, machine
from mlir_async_pipe.bindings import ir, load
from mlir_async_pipe.bindings.raw_ops import create
from mlir_async_pipe.builder.pipeline import Scope

TARGETS = {"nvvm:sm_80": 32, "rocdl:gfx950": 64}
THREADS = 128


def members(scope: Scope, lanes: int) -> int:
    return {"block": THREADS, "warp": lanes, "thread": 1}[scope]


def written(form: str, scope: Scope, lanes: int) -> Kernel:
    """Each thread adds what its mirror image in its warp (block) copied, row after row."""
    arith, memref = load("dialects.arith"), load("dialects.memref")
    context = kernel([f"memref<?x{THREADS}xf32>", f"memref<{THREADS}xf32>"], THREADS)
    with context as k:
        rows, result = k.arguments
        size = members(scope, lanes)
        pipe = Pipeline(3, scope=scope, lanes=lanes)
        pipe.buffer(size, "f32")
        thread, n = k.thread(), memref.dim(rows, k.number(0))
        first = arith.muli(arith.divui(thread, k.number(size)), k.number(size))
        mirror = arith.subi(k.number(size - 1), arith.remui(thread, k.number(size)))

        def add(row: Any, slot: Any, total: Any) -> Any:
            return arith.addf(total, memref.load(slot, [mirror]))

        def copy(row: Any, slot: Any) -> None:
            copy_tile(rows, slot, at=(row, first))

        with ir.Location.unknown():
            if form == "loop":
                total = pipe.loop(0, n, 1, copy, add, k.real(0.0))
            else:
                total = by_hand(k, pipe, n, copy, add)
            memref.store(total, result, [thread])
        return k


def by_hand(k: Kernel, pipe: Pipeline, n: Any, copy: Any, add: Any) -> Any:
    """Two rows ahead; where there is no such row the group is empty."""
    arith, scf = load("dialects.arith"), load("dialects.scf")
    two = k.number(2)
    for row in (0, 1):
        with pipe.produce() as slot:
            copy(k.number(row), slot)
    loop = scf.ForOp(k.number(0), n, k.number(1), [k.real(0.0)])
    with ir.InsertionPoint(loop.body):
        ahead = arith.addi(loop.induction_variable, two)
        there = arith.cmpi(arith.CmpIPredicate.ult, ahead, n)
        with pipe.produce(when=there) as slot:
            copy(ahead, slot)
        with pipe.consume() as slot:
            total = add(None, slot, loop.inner_iter_args[0])
        scf.yield_([total])
    pipe.tail()
    return loop.results[0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("scope", ["block", "warp", "thread"])
@pytest.mark.parametrize("form", ["loop", "slots"])
def test_both_forms_are_right_in_every_scope(form: str, scope: Scope, target: str) -> None:
    lanes = TARGETS[target]
    module = written(form, scope, lanes).module
    report = mlir_async_pipe.pipeline(module, target=target)
    counts = [wait.count for wait in report.of("waits")]
    if (form, scope) == ("loop", "thread") and target.startswith("rocdl:"):
        # Each thread copies to a view of its own: which lane of a wave copies what is then not known.
        (remark,) = [d for d in report.diagnostics if d.code == "through-registers"]
        assert "views of their own" in remark.message
        assert counts == []
    else:
        assert counts == ([1, 1, 0] if form == "loop" else [2])
    assert [check.unknown for check in report.of("checks")] == [0]
    assert ("gpu.barrier" in str(module)) == (scope != "thread")
    rows = np.random.default_rng(0).random((7, THREADS), dtype=np.float32)
    numbers, size = np.arange(THREADS), members(scope, lanes)
    expected = rows.sum(0)[numbers // size * size + size - 1 - numbers % size]
    for completion in COMPLETIONS:
        arrays = [rows, np.zeros(THREADS, np.float32)]
        done = machine.run(module, "k", arrays, threads=THREADS, completion=completion)
        assert done.races == ()
        np.testing.assert_allclose(done.arrays[1], expected, rtol=1e-5)


def sums_of_two_pipelines() -> Any:
    """Rows of two arrays are added, copied one and two rows ahead by pipelines of their own."""
    arith, memref, scf = (load(f"dialects.{name}") for name in ("arith", "memref", "scf"))
    with kernel([f"memref<?x{THREADS}xf32>"] * 3, THREADS) as k:
        *sources, result = k.arguments
        pipes = [Pipeline(2, queue=0), Pipeline(3, queue=1)]
        n, thread = memref.dim(result, k.number(0)), k.thread()
        mirror = arith.subi(k.number(THREADS - 1), thread)

        def produce(pipe: Pipeline, source: Any, row: Any, when: Any = None) -> None:
            with pipe.produce(when=when) as slot:
                copy_tile(source, slot, at=(row, k.number(0)))

        for pipe, source in zip(pipes, sources, strict=True):
            pipe.buffer(THREADS, "f32")
            for row in range(pipe.depth - 1):
                produce(pipe, source, k.number(row))
        loop = scf.ForOp(k.number(0), n, k.number(1))
        with ir.InsertionPoint(loop.body):
            for pipe, source in zip(pipes, sources, strict=True):
                ahead = arith.addi(loop.induction_variable, k.number(pipe.depth - 1))
                there = arith.cmpi(arith.CmpIPredicate.ult, ahead, n)
                produce(pipe, source, ahead, there)
            with pipes[0].consume() as one:
                left = memref.load(one, [mirror])
            with pipes[1].consume() as other:
                right = memref.load(other, [mirror])
            memref.store(arith.addf(left, right), result, [loop.induction_variable, thread])
            scf.yield_([])
        for pipe in pipes:
            pipe.tail()
    return k.module


@pytest.mark.parametrize("target", TARGETS)
def test_two_pipelines_of_a_kernel_share_the_fifo_of_the_chip(target: str) -> None:
    """Behind the row that is read first: the other's two of before, and both of this iteration; the
    first iteration has fewer."""
    module = sums_of_two_pipelines()
    report = mlir_async_pipe.pipeline(module, target=target)
    assert [wait.count for wait in report.of("waits")] == [3, 3]
    assert [(check.unsafe, check.unknown) for check in report.of("checks")] == [(0, 0)]
    one, other = np.random.default_rng(0).random((2, 5, THREADS), dtype=np.float32)
    for completion in COMPLETIONS:
        arrays = [one, other, np.zeros((5, THREADS), np.float32)]
        done = machine.run(
            module, "k", arrays, threads=THREADS, completion=completion, target=target
        )
        assert done.races == ()
        np.testing.assert_allclose(done.arrays[2], (one + other)[:, ::-1], rtol=1e-6)


def test_without_barriers_the_checker_says_what_is_missing() -> None:
    with kernel(["memref<64xf32>", "memref<64xf32>"]) as k:
        pipe = Pipeline(2, barriers=False)
        pipe.buffer(64, "f32")
        with pipe.produce() as slot:
            copy_tile(k.arguments[0], slot)
        with pipe.consume() as slot:
            arith = load("dialects.arith")
            value = load("dialects.memref").load(slot, [arith.subi(k.number(63), k.thread())])
            load("dialects.memref").store(value, k.arguments[1], [k.thread()])
        with pytest.raises(mlir_async_pipe.AsyncPipeError) as caught:
            mlir_async_pipe.pipeline(k.module, target="nvvm:sm_80")
    assert caught.value.code == "not-visible"
    assert caught.value.diagnostic.place.file == __file__


def test_several_buffers_are_a_tuple() -> None:
    with kernel([]):
        pipe = Pipeline(3)
        pipe.buffer((8, 4), "f16")
        pipe.buffer(16, ir.F32Type.get())
        with pipe.produce() as slots:
            assert [str(slot.type) for slot in slots] == [
                "memref<8x4xf16, strided<[4, 1], offset: ?>, #gpu.address_space<workgroup>>",
                "memref<16xf32, strided<[1], offset: ?>, #gpu.address_space<workgroup>>",
            ]


def test_one_slot_is_the_buffer_itself() -> None:
    with kernel([]):
        pipe = Pipeline(1)
        pipe.buffer((8, 4), "f16")
        with pipe.produce() as slot:
            assert str(slot.type) == "memref<8x4xf16, #gpu.address_space<workgroup>>"


def test_a_slot_of_a_condition_is_counted_on_both_ways() -> None:
    """Every second iteration produces and consumes: the slots go on where they stopped."""
    arith, memref, scf = (load(f"dialects.{name}") for name in ("arith", "memref", "scf"))
    with kernel(["memref<?x64xf32>", "memref<?x64xf32>"]) as k:
        rows, result = k.arguments
        pipe = Pipeline(2)
        pipe.buffer(64, "f32")
        with ir.Location.unknown():
            mirror = arith.subi(k.number(63), k.thread())
            loop = scf.ForOp(k.number(0), memref.dim(rows, k.number(0)), k.number(1))
            with ir.InsertionPoint(loop.body):
                row = loop.induction_variable
                odd = arith.cmpi(arith.CmpIPredicate.eq, arith.remui(row, k.number(2)), k.number(1))
                branch = scf.IfOp(odd)
                with ir.InsertionPoint(branch.then_block):
                    with pipe.produce() as slot:
                        copy_tile(rows, slot, at=(row, 0))
                    with pipe.consume() as slot:
                        value = made("memref.load", [slot, mirror], ir.F32Type.get())
                        at = [value, result, row, k.thread()]
                        create(
                            "memref.store",
                            at,
                            ip=ir.InsertionPoint.current,
                            loc=ir.Location.unknown(),
                        )
                    scf.yield_([])
                scf.yield_([])
        mlir_async_pipe.pipeline(k.module, target="nvvm:sm_80")
        array = np.random.default_rng(0).random((5, 64), dtype=np.float32)
        expected = np.zeros_like(array)
        expected[1::2] = array[1::2, ::-1]
        for completion in COMPLETIONS:
            done = machine.run(
                k.module, "k", [array, np.zeros_like(array)], threads=64, completion=completion
            )
            assert done.races == ()
            assert np.array_equal(done.arrays[1], expected)


def test_a_loop_that_fills_its_slot_only_in_part_is_not_taken_for_granted() -> None:
    """Nobody vouches for memory that `load` did not fill by `copy_tile`."""
    arith, memref = load("dialects.arith"), load("dialects.memref")
    with kernel(["memref<?x64xf32>", "memref<64xf32>"]) as k:
        rows, result = k.arguments
        pipe = Pipeline(3)
        pipe.buffer(128, "f32")

        def load_half(row: Any, slot: Any) -> None:
            half = arith.muli(arith.remui(row, k.number(2)), k.number(64))
            value = memref.load(rows, [row, k.thread()])
            memref.store(value, slot, [arith.addi(half, k.thread())])

        def use(row: Any, slot: Any, total: Any) -> Any:
            return arith.addf(total, memref.load(slot, [k.thread()]))

        with ir.Location.unknown():
            total = pipe.loop(0, memref.dim(rows, k.number(0)), 1, load_half, use, k.real(0.0))
            memref.store(total, result, [k.thread()])
        assert "async_pipe.private" not in str(k.module)
        report = mlir_async_pipe.pipeline(k.module, target="nvvm:sm_80")
    assert "through-registers" in [said.code for said in report.diagnostics]


def test_loads_can_be_asked_to_go_through_registers() -> None:
    with kernel(["memref<?x64xf32>", "memref<64xf32>"]) as k:
        rows, result = k.arguments
        pipe = Pipeline(3)
        pipe.buffer(64, "f32")
        arith, memref = load("dialects.arith"), load("dialects.memref")
        with ir.Location.unknown():
            total = pipe.loop(
                0,
                memref.dim(rows, k.number(0)),
                1,
                lambda row, slot: copy_tile(rows, slot, at=(row, 0)),
                lambda row, slot, sum_: arith.addf(sum_, memref.load(slot, [k.thread()])),
                k.real(0.0),
                stage_through="registers",
            )
            memref.store(total, result, [k.thread()])
        mlir_async_pipe.pipeline(k.module, target="nvvm:sm_80")
        assert "async_pipe.scope" not in str(k.module)
        array = np.random.default_rng(0).random((6, 64), dtype=np.float32)
        done = machine.run(k.module, "k", [array, np.zeros(64, np.float32)], completion="late")
        np.testing.assert_allclose(done.arrays[1], array.sum(0), rtol=1e-6)


@pytest.mark.parametrize(
    ("dtype", "target", "through"),
    [
        # Rows that may begin at any element: not even 4 bytes are sure.
        ("f16", "nvvm:sm_80", True),
        # A chip without copies to LDS.
        ("f32", "rocdl:gfx1100", True),
        ("f64", "nvvm:sm_80", False),
    ],
)
def test_what_cannot_be_asynchronous_goes_through_registers(
    dtype: str, target: str, through: bool
) -> None:
    arith, memref = load("dialects.arith"), load("dialects.memref")
    with kernel([f"memref<?x64x{dtype}>"] * 2) as k:
        rows, result = k.arguments
        pipe = Pipeline(3)
        pipe.buffer(64, dtype)
        mirror = arith.subi(k.number(63), k.thread())
        pipe.loop(
            0,
            memref.dim(rows, k.number(0)),
            1,
            lambda row, slot: copy_tile(rows, slot, at=(row, 0)),
            lambda row, slot: memref.store(memref.load(slot, [mirror]), result, [row, k.thread()]),
        )
        report = mlir_async_pipe.pipeline(k.module, target=target)
        assert ("through-registers" in [said.code for said in report.diagnostics]) == through
        numbers = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype]
        array = np.random.default_rng(0).random((7, 64)).astype(numbers)
        for completion in COMPLETIONS:
            done = machine.run(k.module, "k", [array, np.zeros_like(array)], completion=completion)
            assert done.races == ()
            assert np.array_equal(done.arrays[1], array[:, ::-1])
