"""Loops of tensor copies as other front ends hand them on: in the nvvm dialect, by pointers.

Upstream's own conversion makes them of the loops of `tensor_loops`. It drops the types of tensor
maps: `typed` puts them back as casts; else the arrays are passed as `machine.TensorMap`.
"""

from __future__ import annotations

import random
import re
from typing import Any

from helpers.machine_programs import parse
from helpers.tensor_loop_text import map_type
from helpers.tensor_loops import TensorLoop, random_loop
from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import passmanager

# With clean-ups addresses of tiles and mbarriers leave the loop.
CONVERSIONS = ("convert-nvgpu-to-nvvm", "convert-nvgpu-to-nvvm,canonicalize,cse")


def nvvm_text(loop: TensorLoop, conversion: str, *, typed: bool) -> str:
    """The annotated module in nvvm's form."""
    module = parse(loop.text())
    passmanager.PassManager.parse(f"builtin.module({conversion})", module.context).run(
        module.operation
    )
    text = str(module)
    if not typed:
        return text
    casts = []
    for n, box in enumerate(loop.boxes):
        kind = map_type(loop, box)
        text = re.sub(rf"(bulk\.tensor[^\n]*), %arg{n}, ", rf"\1, %map{n}, ", text)
        casts += [
            f"%typed{n} = builtin.unrealized_conversion_cast %arg{n} : !llvm.ptr to {kind}",
            f"%map{n} = builtin.unrealized_conversion_cast %typed{n} : {kind} to !llvm.ptr",
        ]
    head = re.search(r"func\.func @f.*\{\n", text)
    assert head is not None
    return text[: head.end()] + "\n".join(casts) + "\n" + text[head.end() :]


def converted(module: Any, conversion: str) -> str:
    """What upstream makes of a module, with the types of its tensor maps put back as casts."""
    cast = r"unrealized_conversion_cast (%\w+) : !llvm.ptr to (!nvgpu.tensormap[^\n]*)"
    kinds, casts = dict(re.findall(cast, str(module))), ""
    passmanager.PassManager.parse(f"builtin.module({conversion})", module.context).run(
        module.operation
    )
    text = str(module)
    for pointer, kind in kinds.items():
        name = pointer[1:]
        for copy in (r"shared.cluster.global %\w+, ", "global.shared.cta "):
            text = re.sub(rf"({copy}){pointer}\b", rf"\1%map_{name}", text)
        casts += (
            f"%typed_{name} = builtin.unrealized_conversion_cast {pointer} : !llvm.ptr to {kind}\n"
            f"%map_{name} = builtin.unrealized_conversion_cast %typed_{name} : {kind} to !llvm.ptr\n"
        )
    return re.sub(r"(func\.func @\w+.*\{\n)", lambda head: head[1] + casts, text, count=1)


def judge_nvvm(loop: TensorLoop, conversion: str, *, typed: bool) -> list[str]:
    """What is wrong with the pipelined form, for the machine or for the checker: it proves the
    kernel if it sees what the maps describe, and says nothing if it does not."""
    module = parse(nvvm_text(loop, conversion, typed=typed))
    (check,) = pipeline(module, check="warn").of("checks")
    unproven = check.unsafe or (typed and check.unknown)
    found = [f"the checker: {check}"] if unproven else []
    arguments: list[Any] = loop.arguments()
    if not typed:
        for n, box in enumerate(loop.boxes):
            shape = (box.rows, box.columns)
            arguments[n] = machine.TensorMap(arguments[n], shape, box.swizzle)
    found += [loop.right(module, c, arguments=arguments) for c in machine.COMPLETIONS]
    return [f"{loop}: {why}" for why in found if why]


def judge_random(seed: int) -> list[str]:
    """What is wrong with a random loop of loads, plain or by ldmatrix, in nvvm's form."""
    pick = random.Random(f"nvvm {seed}")
    loop = random_loop(seed)
    while loop.reader not in ("loads", "matrices") or loop.stored:
        seed += 10**9
        loop = random_loop(seed)
    return judge_nvvm(loop, pick.choice(CONVERSIONS), typed=pick.random() < 0.5)
