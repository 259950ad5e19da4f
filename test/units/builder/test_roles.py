"""A thread that copies by tensor maps and threads that consume: right in every order, on the machine.

Covers: builder/roles.py
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import mlir_async_pipe
from helpers.object_kernels import COMPLETIONS, kernel
from mlir_async_pipe import RolePipeline, copy_tile, machine
from mlir_async_pipe.bindings import ir, load
from mlir_async_pipe.bindings.raw_ops import create
from mlir_async_pipe.session.diagnostics import LoweringError, UsageError

MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, "
    "oob = zero, interleave = none>"
)
SCHEDULES = ("lockstep", "forward", "backward", "random")


def described(pointer: Any) -> Any:
    kind = [ir.Type.parse(MAP)]
    ip, loc = ir.InsertionPoint.current, ir.Location.unknown()
    name = "builtin.unrealized_conversion_cast"
    return create(name, [pointer], kind, ip=ip, loc=loc).results[0]


def mirrored(depth: int, *, tail: bool = True) -> Any:
    """Two consumer warps write each tile of 64 from its end to its begin; two rings of a slot."""
    arith, memref, scf = (load(f"dialects.{name}") for name in ("arith", "memref", "scf"))
    arguments = ["!llvm.ptr", "!llvm.ptr", "memref<?x64xf32>"]
    with kernel(arguments, known=False) as k:
        sources = [described(pointer) for pointer in list(k.arguments)[:2]]
        result = k.arguments[2]
        pipe = RolePipeline(depth, consumers=64)
        for _ in sources:
            pipe.buffer(64, "f32")
        zero, one, n = k.number(0), k.number(1), memref.dim(result, k.number(0))
        thread = k.thread()
        with pipe.producer():
            loop = scf.ForOp(zero, n, one)
            with ir.InsertionPoint(loop.body):
                at = arith.muli(loop.induction_variable, k.number(64))
                with pipe.produce() as slots:
                    for source, slot in zip(sources, slots, strict=True):
                        copy_tile(source, slot, at=[at])
                scf.yield_([])
            if tail:
                pipe.tail()
        with pipe.consumer():
            loop = scf.ForOp(zero, n, one)
            with ir.InsertionPoint(loop.body):
                with pipe.consume() as slots:
                    mirror = arith.subi(k.number(63), thread)
                    total = arith.addf(*(memref.load(slot, [mirror]) for slot in slots))
                memref.store(total, result, [loop.induction_variable, thread])
                scf.yield_([])
        return k.module


@pytest.mark.parametrize("depth", [2, 3])
@pytest.mark.parametrize("tiles", [1, 2, 7])
def test_right_in_every_order(depth: int, tiles: int) -> None:
    module = mirrored(depth)
    random = np.random.default_rng(0)
    arrays = [random.random(tiles * 64, dtype=np.float32) for _ in range(2)]
    expected = (arrays[0] + arrays[1]).reshape(tiles, 64)[:, ::-1]
    with module.context:
        mlir_async_pipe.pipeline(module, target="nvvm:sm_90")
        assert "memref.alloca" not in str(module)
        (found,) = mlir_async_pipe.check(module).of("checks")
        assert found.accesses > 0 and (found.unsafe, found.unknown) == (0, 0)
        for completion in COMPLETIONS:
            for schedule in SCHEDULES:
                done = machine.run(
                    module,
                    "k",
                    [*arrays, np.zeros((tiles, 64), np.float32)],
                    completion=completion,
                    schedule=schedule,
                )
                assert done.races == (), (completion, schedule)
                np.testing.assert_array_equal(done.arrays[2], expected)


def test_as_code_for_sm_90() -> None:
    module = mirrored(3)
    with module.context:
        mlir_async_pipe.pipeline(module, target="nvvm:sm_90")
        text = mlir_async_pipe.lower(module, target="nvvm:sm_90", emit="ptx").text
    for expected in ("mbarrier.try_wait.parity", "cp.async.bulk.tensor.1d", ".reqntid 96"):
        assert expected in text


@pytest.mark.parametrize(
    ("target", "emit", "code"),
    [("nvvm:sm_80", "ptx", "no-tensor-copies"), ("rocdl:gfx950", "isa", "foreign-op")],
)
def test_chips_without_tensor_copies_refuse_at_the_users_line(
    target: str, emit: Any, code: str
) -> None:
    module = mirrored(3)
    with module.context:
        mlir_async_pipe.pipeline(module, target=target)
        with pytest.raises(LoweringError) as caught:
            mlir_async_pipe.lower(module, target=target, emit=emit)
    assert caught.value.code == code
    assert caught.value.diagnostic.place.file == __file__


def in_a_row(order: str, *, known: bool, produced: int = 0) -> Any:
    """Two rings, a result each, in the order of roles (p, c) and rings (0, 1); the second produces so
    many tiles more than its consumers take."""
    arith, memref, scf = (load(f"dialects.{name}") for name in ("arith", "memref", "scf"))
    arguments = ["!llvm.ptr", "!llvm.ptr", "memref<?x64xf32>", "memref<?x64xf32>"]
    with kernel(arguments, known=False) as k:
        sources = [described(pointer) for pointer in list(k.arguments)[:2]]
        results = list(k.arguments)[2:]
        pipes = [RolePipeline(2, consumers=64) for _ in sources]
        for pipe in pipes:
            pipe.buffer(64, "f32")
        zero, one, thread = k.number(0), k.number(1), k.thread()
        for role, number in zip(order[::2], map(int, order[1::2]), strict=True):
            pipe, source, result = pipes[number], sources[number], results[number]
            n = k.number(3) if known else memref.dim(result, zero)
            more = number * produced if role == "p" else 0
            with pipe.producer() if role == "p" else pipe.consumer():
                loop = scf.ForOp(zero, arith.addi(n, k.number(more)), one)
                with ir.InsertionPoint(loop.body):
                    if role == "p":
                        at = arith.muli(loop.induction_variable, k.number(64))
                        with pipe.produce() as slot:
                            copy_tile(source, slot, at=[at])
                    else:
                        with pipe.consume() as slot:
                            value = memref.load(slot, [arith.subi(k.number(63), thread)])
                        memref.store(value, result, [loop.induction_variable, thread])
                    scf.yield_([])
                if role == "p":
                    pipe.tail()
        return k.module


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("order", ["p0c0p1c1", "p0p1c0c1", "c0p0c1p1"])
def test_two_in_a_row_are_right_and_proven(order: str, known: bool) -> None:
    """The lanes of the producer's warp that do nothing keep nobody from acting for it; what the first
    ring hands on is no number of all threads."""
    module = in_a_row(order, known=known)
    arrays = [np.arange(192, dtype=np.float32) + n for n in range(2)]
    with module.context:
        mlir_async_pipe.pipeline(module, target="nvvm:sm_90")
        (found,) = mlir_async_pipe.check(module).of("checks")
        assert found.accesses > 0 and (found.unsafe, found.unknown) == (0, 0)
        for completion in COMPLETIONS:
            results = [np.zeros((3, 64), np.float32) for _ in arrays]
            done = machine.run(module, "k", [*arrays, *results], completion=completion)
            assert done.races == ()
            for array, result in zip(arrays, done.arrays[2:], strict=True):
                np.testing.assert_array_equal(result, array.reshape(3, 64)[:, ::-1])


@pytest.mark.parametrize("produced", [1, -1])
def test_the_second_in_a_row_must_hand_on_as_many_tiles_too(produced: int) -> None:
    module = in_a_row("p0c0p1c1", known=True, produced=produced)
    with module.context, pytest.raises(mlir_async_pipe.AsyncPipeError) as caught:
        mlir_async_pipe.pipeline(module, target="nvvm:sm_90")
    assert caught.value.code == "deadlock"


def produce_outside(pipe: RolePipeline) -> None:
    with pipe.produce():
        pass


def consume_as_producer(pipe: RolePipeline) -> None:
    with pipe.producer(), pipe.consume():
        pass


def tail_twice(pipe: RolePipeline) -> None:
    with pipe.producer():
        pipe.tail()
    with pipe.producer():
        pipe.tail()


def produce_after_tail(pipe: RolePipeline) -> None:
    with pipe.producer():
        pipe.tail()
        with pipe.produce():
            pass


def tail_of_consumer(pipe: RolePipeline) -> None:
    with pipe.consumer():
        pipe.tail()


def role_in_role(pipe: RolePipeline) -> None:
    with pipe.producer(), pipe.consumer():
        pass


def no_copy(pipe: RolePipeline) -> None:
    with pipe.producer(), pipe.produce():
        pass


def odd_tile(pipe: RolePipeline) -> None:
    pipe.buffer(3, "f32")
    with pipe.producer():
        pass


@pytest.mark.parametrize(
    ("misused", "code"),
    [
        (produce_outside, "role-missing"),
        (consume_as_producer, "role-missing"),
        (tail_of_consumer, "role-missing"),
        (role_in_role, "role-missing"),
        (tail_twice, "pipeline-closed"),
        (produce_after_tail, "pipeline-closed"),
        (no_copy, "tile-missing"),
        (odd_tile, "bad-argument"),
        (lambda pipe: pipe.try_wait(), "no-try-wait"),
        (lambda pipe: RolePipeline(1, 64), "bad-argument"),
        (lambda pipe: RolePipeline(2, 33), "bad-argument"),
        (lambda pipe: RolePipeline(2, 1024), "bad-argument"),
    ],
)
def test_misuse_is_said_at_the_users_line(
    misused: Callable[[RolePipeline], object], code: str
) -> None:
    with kernel([], known=False):
        pipe = RolePipeline(2, consumers=64)
        pipe.buffer(64, "f32")
        with pytest.raises(UsageError) as caught:
            misused(pipe)
    assert caught.value.code == code
    assert caught.value.diagnostic.place.file == __file__


@pytest.mark.parametrize(("produced", "consumed"), [(1, 2), (2, 3), (3, 0), (3, 1), (0, 1)])
def test_roles_that_do_not_hand_on_as_many_slots_wait_for_ever(
    produced: int, consumed: int
) -> None:
    """A ring of two: who waits for a slot that nobody fills or gives back is named."""
    with kernel(["!llvm.ptr", "memref<64xf32>"], known=False) as k:
        source, pipe = described(k.arguments[0]), RolePipeline(2, consumers=64)
        pipe.buffer(64, "f32")
        memref = load("dialects.memref")
        if produced:
            with pipe.producer():
                for _ in range(produced):
                    with pipe.produce() as slot:
                        copy_tile(source, slot, at=[k.number(0)])
                pipe.tail()
        if consumed:
            with pipe.consumer():
                for _ in range(consumed):
                    with pipe.consume() as slot:
                        value = memref.load(slot, [k.thread()])
                        memref.store(value, k.arguments[1], [k.thread()])
        with pytest.raises(mlir_async_pipe.AsyncPipeError) as caught:
            mlir_async_pipe.pipeline(k.module, target="nvvm:sm_90a")
    assert caught.value.code == "deadlock"
    assert caught.value.diagnostic.place.file == __file__
