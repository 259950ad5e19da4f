"""Kernels written with `Pipeline` for tests: an empty one, and one that adds tiles."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

import mlir_async_pipe
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, load, new_context
from mlir_async_pipe.bindings.raw_ops import create

COMPLETIONS = ("eager", "late", "random")


@dataclass(frozen=True)
class Kernel:
    """A module with a kernel @k, its arguments, and how constants are written in it."""

    module: Any
    arguments: Any

    def number(self, value: int) -> Any:
        """An index constant."""
        return load("dialects.arith").constant(ir.IndexType.get(), value)

    def real(self, value: float) -> Any:
        """An f32 constant."""
        return load("dialects.arith").constant(ir.F32Type.get(), value)

    def thread(self) -> Any:
        """The thread's number along x."""
        dimension = {"dimension": ir.Attribute.parse("#gpu<dim x>")}
        return made("gpu.thread_id", [], ir.IndexType.get(), dimension)


def made(name: str, operands: list[Any], kind: Any, attributes: Any = None) -> Any:
    """The result of an op at the current insertion point."""
    ip, loc = ir.InsertionPoint.current, ir.Location.unknown()
    return create(name, operands, [kind], attributes, ip=ip, loc=loc).results[0]


@contextmanager
def kernel(arguments: list[str], threads: int = 64, known: bool = True) -> Iterator[Kernel]:
    """An empty kernel, with its end as the insertion point; verified when it is left."""
    listed = ", ".join(f"%{i} : {kind} {{llvm.noalias}}" for i, kind in enumerate(arguments))
    size = f"known_block_size = array<i32: {threads}, 1, 1>" if known else ""
    with new_context():
        module = ir.Module.parse(
            f"gpu.module @kernels {{ gpu.func @k({listed}) kernel attributes {{{size}}} "
            "{ gpu.return } }"
        )
        block = module.body.operations[0].regions[0].blocks[0].operations[0].regions[0].blocks[0]
        with ir.Location.unknown(), ir.InsertionPoint(block.operations[0]):
            yield Kernel(module, block.arguments)
        assert module.operation.verify()


def copied(
    copy: Callable[[Any, Any], None],
    shape: tuple[int, ...],
    array: Any,
    source: str,
    *,
    threads: int = 64,
    target: str = "nvvm:sm_80",
    **options: Any,
) -> tuple[Any, Any, Any]:
    """What a slot of `shape` holds after `copy(%array, slot)`, the module as it was written and
    as it is pipelined; under every completion, without races."""
    whole = int(np.prod(shape))
    with kernel([source, f"memref<{whole}xf32>"], threads) as k:
        pipe = mlir_async_pipe.Pipeline(2, **options)
        pipe.buffer(shape, "f32")
        with pipe.produce() as slot:
            copy(k.arguments[0], slot)
        with pipe.consume() as slot:
            _write_out(k, slot, shape, threads)
        text = str(k.module)
        mlir_async_pipe.pipeline(k.module, target=target)
        for completion in COMPLETIONS:
            arrays = [array, np.full(whole, -1.0, np.float32)]
            done = machine.run(k.module, "k", arrays, threads=threads, completion=completion)
            assert done.races == ()
        return done.arrays[1].reshape(shape), text, str(k.module)


def _write_out(k: Kernel, slot: Any, shape: tuple[int, ...], threads: int) -> None:
    """Every thread writes out the elements whose numbers are its own modulo the threads, from the
    last one on, so that it reads what others copied."""
    arith, scf = load("dialects.arith"), load("dialects.scf")
    whole = int(np.prod(shape))
    loop = scf.ForOp(k.thread(), k.number(whole), k.number(threads))
    with ir.InsertionPoint(loop.body):
        number = arith.subi(k.number(whole - 1), loop.induction_variable)
        at, rest = [], number
        for size in reversed(shape):
            at.insert(0, arith.remui(rest, k.number(size)))
            rest = arith.divui(rest, k.number(size))
        value = made("memref.load", [slot, *at], ir.F32Type.get())
        create(
            "memref.store",
            [value, k.arguments[1], number],
            ip=ir.InsertionPoint.current,
            loc=ir.Location.unknown(),
        )
        scf.yield_([])
