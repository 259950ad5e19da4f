"""Makes a folder of kernels that torch-mlir wrote: products, convolutions, pooling, rows, attention.

    pip install torch-mlir
    python bench/torch_mlir_corpus.py FOLDER [--only TEXT]

Programs in the torch dialect go through torch-mlir's own pipeline to linalg, are bufferized, and become
GPU kernels by MLIR's passes for parallel loops, a thread an element: loops that read global memory and
often add to it. One file a kernel that has a loop, for an NVIDIA and an AMD chip, whose code they share;
`bench/real_loops.py` reads the folder. A program that does not compile is named and left out.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from torch_mlir import ir
from torch_mlir.dialects import torch
from torch_mlir.passmanager import PassManager

CHIPS = ("sm_80", "gfx942")
TO_LINALG = (
    "torch-function-to-torch-backend-pipeline{backend-legal-ops=}",
    "torch-backend-to-linalg-on-tensors-backend-pipeline",
)
TO_KERNELS = (
    "one-shot-bufferize{bufferize-function-boundaries "
    "function-boundary-type-conversion=identity-layout-map}",
    "buffer-results-to-out-params{hoist-static-allocs}",
    "func.func(linalg-generalize-named-ops)",
    "convert-linalg-to-parallel-loops",
    "func.func(scf-parallel-loop-tiling{parallel-loop-tile-sizes=32,4,2 no-min-max-bounds=true})",
    "func.func(gpu-map-parallel-loops)",
    "convert-parallel-loops-to-gpu",
    "canonicalize",
    "cse",
    "lower-affine",
    "gpu-launch-sink-index-computations",
    "gpu-kernel-outlining",
    # What is not mapped to threads.
    "gpu.module(gpu.func(scf-parallel-for-to-nested-fors))",
    "canonicalize",
    "cse",
)
# Ops whose result is memory of their first operand.
VIEWS = ("memref.expand_shape", "memref.collapse_shape", "memref.cast", "memref.subview")


def tensor(shape: str, kind: str) -> str:
    """The type of a tensor: tensor("4x?", "f32") is `!torch.vtensor<[4,?],f32>`."""
    return f"!torch.vtensor<[{shape.replace('x', ',')}],{kind}>"


def program(result: str, inputs: dict[str, str], *lines: str) -> str:
    """A function of the inputs, by their names, that returns %r."""
    arguments = ", ".join(f"%{name}: {kind}" for name, kind in inputs.items())
    body = "\n  ".join((*CONSTANTS, *lines))
    return f"func.func @main({arguments}) -> {result} {{\n  {body}\n  return %r : {result}\n}}"


CONSTANTS = (
    *(f"%i{n} = torch.constant.int {n}" for n in (0, 1, 2, 3)),
    "%minus = torch.constant.int -1",
    "%none = torch.constant.none",
    "%true = torch.constant.bool true",
    "%false = torch.constant.bool false",
    "%eps = torch.constant.float 1.0e-05",
)
PAIR = "!torch.list<int>"
LISTS = tuple(
    f"%{name} = torch.prim.ListConstruct {values} : ({types}) -> {PAIR}"
    for name, values, types in (
        ("ones", "%i1, %i1", "!torch.int, !torch.int"),
        ("zeros", "%i0, %i0", "!torch.int, !torch.int"),
        ("twos", "%i2, %i2", "!torch.int, !torch.int"),
        ("threes", "%i3, %i3", "!torch.int, !torch.int"),
        ("one", "%i1", "!torch.int"),
        ("zero", "%i0", "!torch.int"),
        ("empty", "", ""),
    )
)


def product(op: str, left: str, right: str, result: str, kind: str) -> str:
    """A product of two tensors."""
    a, b, r = (tensor(shape, kind) for shape in (left, right, result))
    return program(r, {"a": a, "b": b}, f"%r = torch.aten.{op} %a, %b : {a}, {b} -> {r}")


def convolution(image: str, weights: str, result: str, kind: str, groups: str, size: int) -> str:
    """A convolution of stride 1 without padding, over `size` dimensions."""
    a, w, r = (tensor(shape, kind) for shape in (image, weights, result))
    by, of = ("%ones", "%zeros") if size == 2 else ("%one", "%zero")
    return program(
        r,
        {"a": a, "w": w},
        *LISTS,
        f"%g = torch.constant.int {groups}",
        f"%r = torch.aten.convolution %a, %w, %none, {by}, {of}, {by}, %false, %empty, %g : {a}, {w}, "
        f"!torch.none, {PAIR}, {PAIR}, {PAIR}, !torch.bool, {PAIR}, !torch.int -> {r}",
    )


def row(op: str, operands: str, types: str, shape: str, result: str) -> str:
    """An op along the rows of a matrix, which is %a."""
    a, r = tensor(shape, "f32"), tensor(result, "f32")
    call = f"%r = torch.aten.{op} %a, {operands} : {a}, {types} -> {r}"
    return program(
        r,
        {"a": a},
        *LISTS,
        "%last = torch.prim.ListConstruct %minus : (!torch.int) -> !torch.list<int>",
        call,
    )


def programs() -> Iterator[tuple[str, str]]:
    """All programs, by name."""
    for kind in ("f32", "f16", "bf16"):
        yield f"mm_{kind}", product("mm", "128x256", "256x128", "128x128", kind)
        yield f"mm_odd_{kind}", product("mm", "33x65", "65x47", "33x47", kind)
        yield f"bmm_{kind}", product("bmm", "4x64x128", "4x128x64", "4x64x64", kind)
        yield f"mv_{kind}", product("mv", "256x512", "512", "256", kind)
        yield f"conv2d_{kind}", convolution("1x16x18x18", "32x16x3x3", "1x32x16x16", kind, "1", 2)
    yield "mm_dynamic_f32", product("mm", "?x256", "256x?", "?x?", "f32")
    yield "conv1d_f32", convolution("2x16x66", "32x16x3", "2x32x64", "f32", "1", 1)
    yield "depthwise_f32", convolution("1x16x18x18", "16x1x3x3", "1x16x16x16", "f32", "16", 2)
    image, small = tensor("1x16x32x32", "f32"), tensor("1x16x16x16", "f32")
    yield (
        "max_pool_f32",
        program(
            small,
            {"a": image},
            *LISTS,
            f"%r = torch.aten.max_pool2d %a, %twos, %twos, %zeros, %ones, %false : {image}, "
            f"{PAIR}, {PAIR}, {PAIR}, {PAIR}, !torch.bool -> {small}",
        ),
    )
    yield (
        "avg_pool_f32",
        program(
            small,
            {"a": image},
            *LISTS,
            "%r = torch.aten.avg_pool2d %a, %twos, %twos, %zeros, %false, %true, %none : "
            f"{image}, {PAIR}, {PAIR}, {PAIR}, !torch.bool, !torch.bool, !torch.none -> {small}",
        ),
    )
    for rows in ("128x1024", "100x1000", "?x1024"):
        size = rows.replace("?", "dynamic")
        yield (
            f"softmax_{size}",
            row("softmax.int", "%minus, %none", "!torch.int, !torch.none", rows, rows),
        )
        one = rows.split("x")[0]
        yield (
            f"sum_{size}",
            row(
                "sum.dim_IntList",
                "%last, %false, %none",
                f"{PAIR}, !torch.bool, !torch.none",
                rows,
                one,
            ),
        )
        yield (
            f"mean_{size}",
            row("mean.dim", "%last, %false, %none", f"{PAIR}, !torch.bool, !torch.none", rows, one),
        )
        yield f"max_{size}", row("amax", "%last, %false", f"{PAIR}, !torch.bool", rows, one)
    yield (
        "cumsum_128x256",
        row("cumsum", "%minus, %none", "!torch.int, !torch.none", "128x256", "128x256"),
    )
    a, w = tensor("128x1024", "f32"), tensor("1024", "f32")
    yield (
        "layer_norm_128x1024",
        program(
            a,
            {"a": a, "w": w, "b": w},
            "%n = torch.constant.int 1024",
            f"%sizes = torch.prim.ListConstruct %n : (!torch.int) -> {PAIR}",
            f"%r = torch.aten.layer_norm %a, %sizes, %w, %b, %eps, %false : {a}, {PAIR}, {w}, {w}, "
            f"!torch.float, !torch.bool -> {a}",
        ),
    )
    heads = tensor("1x4x64x32", "f32")
    yield (
        "attention_64_32",
        program(
            heads,
            {"q": heads, "k": heads, "v": heads},
            "%z = torch.constant.float 0.0",
            "%r = torch.aten.scaled_dot_product_attention %q, %k, %v, %none, %z, %false, %none, %false : "
            f"{heads}, {heads}, {heads}, !torch.none, !torch.float, !torch.bool, !torch.none, "
            f"!torch.bool -> {heads}",
        ),
    )
    table, index, rows_ = (
        tensor("1000x64", "f32"),
        tensor("128x16", "si64"),
        tensor("128x64", "f32"),
    )
    found = tensor("128x16x64", "f32")
    yield (
        "embedding_sum",
        program(
            rows_,
            {"t": table, "x": index},
            *LISTS,
            f"%e = torch.aten.embedding %t, %x, %minus, %false, %false : {table}, {index}, !torch.int, "
            f"!torch.bool, !torch.bool -> {found}",
            f"%r = torch.aten.sum.dim_IntList %e, %one, %false, %none : {found}, {PAIR}, !torch.bool, "
            f"!torch.none -> {rows_}",
        ),
    )


def kernels(text: str) -> Iterator[str]:
    """The modules of the kernels that a program becomes, those with a loop."""
    with ir.Context() as context:
        torch.register_dialect(context)
        module = ir.Module.parse(text)
        for passes in (TO_LINALG, TO_KERNELS):
            PassManager.parse(f"builtin.module({','.join(passes)})").run(module.operation)
        functions = {
            ir.StringAttr(op.attributes["sym_name"]).value: op for op in module.body.operations
        }
        for op in functions["main"].regions[0].blocks[0].operations:
            if op.operation.name != "gpu.launch_func":
                continue
            code, _ = str(op.attributes["kernel"]).split("::")
            found = functions[code.removeprefix("@")]
            if "scf.for" in str(found):
                _mark_apart(found, op)
                yield f"module attributes {{gpu.container_module}} {{\n{found}\n}}\n"


def _mark_apart(code: Any, launch: Any) -> None:
    """llvm.noalias for memory that no other argument of the launch is."""
    operands = list(launch.operands)
    sources = [_source(value) for value in operands]
    (kernel,) = [
        op for op in code.regions[0].blocks[0].operations if op.operation.name == "gpu.func"
    ]
    given = len(kernel.regions[0].blocks[0].arguments)
    entries = []
    for source in sources[len(sources) - given :]:
        alone = sources.count(source) == 1 and str(source.type).startswith("memref<")
        entries.append(ir.DictAttr.get({"llvm.noalias": ir.UnitAttr.get()} if alone else {}))
    kernel.attributes["arg_attrs"] = ir.ArrayAttr.get(entries)


def _source(value: Any) -> Any:
    while isinstance(value.owner, ir.Operation) and value.owner.name in VIEWS:
        value = value.owner.operands[0]
    return value


def main() -> None:
    """Write all kernels of all programs."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="programs with this in their names")
    arguments = parser.parse_args()
    folder = arguments.folder
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in programs():
        if arguments.only not in name:
            continue
        try:
            found = list(kernels(text))
        except ir.MLIRError as error:
            print(f"{name}: {str(error).splitlines()[-1][:200]}")
            continue
        for number, kernel in enumerate(found):
            for chip in CHIPS:
                (folder / f"{chip}.{name}.{number}.mlir").write_text(kernel)
    print(f"{len(list(folder.glob('*.mlir')))} kernels")


if __name__ == "__main__":
    main()
