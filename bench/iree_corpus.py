"""Makes a folder of kernels that IREE wrote: matrices, rows, windows, attention, for each chip.

    python -m venv iree && iree/bin/pip install iree-base-compiler==3.13.0
    python bench/iree_corpus.py iree/bin FOLDER [--jobs 2]

One file a dispatch: IREE's own IR before it lowers to LLVM, its own pipelining off, in a gpu.module
of upstream dialects (examples/iree/transcribe.py). A program that IREE does not compile for a chip,
or that is no kernel of one function, is named and left out. `bench/real_loops.py` reads the folder.
"""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
TRANSCRIBE = ROOT / "examples" / "iree" / "transcribe.py"
LAST = "iree-codegen-gpu-check-resource-usage"
CHIPS = {"sm_80": "cuda", "gfx942": "hip", "gfx950": "hip"}
ACCUMULATOR = {"f32": "f32", "f16": "f32", "bf16": "f32", "i8": "i32"}
ZERO = {"f32": "0.0 : f32", "i32": "0 : i32"}


@dataclass(frozen=True)
class Program:
    """One function of tensors."""

    name: str
    text: str


def contraction(name: str, op: str, kind: str, left: str, right: str, result: str) -> Program:
    """`result = op(left, right)`, with sums in single precision or 32 bits."""
    out = ACCUMULATOR[kind]
    a, b, c = (
        f"tensor<{shape}x{of}>" for shape, of in ((left, kind), (right, kind), (result, out))
    )
    sizes, arguments = dynamic(result)
    return Program(
        f"{name}_{kind}",
        f"""func.func @main(%a: {a}, %b: {b}{arguments}) -> {c} {{
  %zero = arith.constant {ZERO[out]}
  %empty = tensor.empty({sizes}) : {c}
  %init = linalg.fill ins(%zero : {out}) outs(%empty : {c}) -> {c}
  %c = {op} ins(%a, %b : {a}, {b}) outs(%init : {c}) -> {c}
  return %c : {c}
}}""",
    )


def dynamic(shape: str) -> tuple[str, str]:
    """The operands of tensor.empty for a shape, and the arguments that they are."""
    names = [f"%d{n}" for n, size in enumerate(shape.split("x")) if size == "?"]
    return ", ".join(names), "".join(f", {name}: index" for name in names)


def reduction(name: str, rows: int, columns: int, body: str) -> Program:
    """One number a row."""
    return Program(
        f"{name}_f32",
        f"""func.func @main(%a: tensor<{rows}x{columns}xf32>) -> tensor<{rows}xf32> {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : tensor<{rows}xf32>
  %init = linalg.fill ins(%zero : f32) outs(%empty : tensor<{rows}xf32>) -> tensor<{rows}xf32>
  %c = linalg.generic {{
      indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d0)>],
      iterator_types = ["parallel", "reduction"]}}
      ins(%a : tensor<{rows}x{columns}xf32>) outs(%init : tensor<{rows}xf32>) {{
    ^bb0(%x: f32, %sum: f32):
      {body}
      linalg.yield %r : f32
  }} -> tensor<{rows}xf32>
  return %c : tensor<{rows}xf32>
}}""",
    )


def softmax(rows: int, columns: int) -> Program:
    kind = f"tensor<{rows}x{columns}xf32>"
    return Program(
        f"softmax_{columns}_f32",
        f"""func.func @main(%a: {kind}) -> {kind} {{
  %empty = tensor.empty() : {kind}
  %c = linalg.softmax dimension(1) ins(%a : {kind}) outs(%empty : {kind}) -> {kind}
  return %c : {kind}
}}""",
    )


def window(name: str, op: str, attributes: str, image: str, filter: str, result: str) -> Program:
    out = f"tensor<{result}xf32>"
    image, filter = f"tensor<{image}xf32>", f"tensor<{filter}xf32>"
    return Program(
        f"{name}_f32",
        f"""func.func @main(%a: {image}, %b: {filter}) -> {out} {{
  %zero = arith.constant 0.0 : f32
  %empty = tensor.empty() : {out}
  %init = linalg.fill ins(%zero : f32) outs(%empty : {out}) -> {out}
  %c = {op} {attributes} ins(%a, %b : {image}, {filter}) outs(%init : {out}) -> {out}
  return %c : {out}
}}""",
    )


def attention(heads: int, length: int, width: int) -> Program:
    q = f"tensor<{heads}x{length}x{width}xf16>"
    maps = ", ".join(
        f"affine_map<(b, m, n, k1, k2) -> ({dims})>"
        for dims in ("b, m, k1", "b, k2, k1", "b, k2, n", "", "b, m, n")
    )
    return Program(
        f"attention_{length}_{width}_f16",
        f"""func.func @main(%q: {q}, %k: {q}, %v: {q}) -> {q} {{
  %scale = arith.constant 0.125 : f16
  %empty = tensor.empty() : {q}
  %c = iree_linalg_ext.attention <{{indexing_maps = [{maps}]}}>
      ins(%q, %k, %v, %scale : {q}, {q}, {q}, f16) outs(%empty : {q}) {{
    ^bb0(%score: f32):
      iree_linalg_ext.yield %score : f32
  }} -> {q}
  return %c : {q}
}}""",
    )


def programs() -> Iterator[Program]:
    """The corpus."""
    for kind in ("f16", "bf16", "f32", "i8"):
        for name, m, k, n in (("matmul", 512, 1024, 512), ("tall", 2048, 512, 64)):
            yield contraction(name, "linalg.matmul", kind, f"{m}x{k}", f"{k}x{n}", f"{m}x{n}")
        yield contraction("odd", "linalg.matmul", kind, "127x511", "511x129", "127x129")
        yield contraction(
            "batched", "linalg.batch_matmul", kind, "8x128x512", "8x512x128", "8x128x128"
        )
        yield contraction("matvec", "linalg.matvec", kind, "4096x4096", "4096", "4096")
        yield contraction("dynamic", "linalg.matmul", kind, "?x1024", "1024x?", "?x?")
    for kind in ("f16", "f32"):
        yield contraction(
            "conv", "linalg.conv_2d_nhwc_hwcf", kind, "1x34x34x64", "3x3x64x128", "1x32x32x128"
        )
        yield contraction(
            "conv1d", "linalg.conv_1d_nwc_wcf", kind, "1x514x64", "3x64x128", "1x512x128"
        )
    yield window(
        "depthwise", "linalg.depthwise_conv_2d_nhwc_hwc", "", "1x34x34x64", "3x3x64", "1x32x32x64"
    )
    yield window("pool", "linalg.pooling_nhwc_sum", "", "1x34x34x64", "3x3", "1x32x32x64")
    yield reduction("row_sum", 512, 4096, "%r = arith.addf %x, %sum : f32")
    yield reduction("row_max", 512, 1000, "%r = arith.maximumf %x, %sum : f32")
    yield reduction(
        "row_squares", 64, 65536, "%y = arith.mulf %x, %x : f32\n%r = arith.addf %y, %sum : f32"
    )
    yield softmax(256, 4096)
    yield softmax(128, 1000)
    yield attention(8, 1024, 64)
    yield attention(4, 512, 128)


def compiled(bin: Path, program: Program, chip: str, folder: Path) -> str:
    """Write the dispatches of one program for one chip; returns "" or why there is none."""
    flag = "--iree-cuda-target" if chip.startswith("sm") else "--iree-rocm-target"
    device = [f"--iree-hal-target-device={CHIPS[chip]}", f"{flag}={chip}"]
    with TemporaryDirectory() as made:
        work = Path(made)
        (work / "in.mlir").write_text(program.text)
        configured = subprocess.run(
            [
                *(bin / "iree-compile", work / "in.mlir", *device),
                "--iree-llvmgpu-prefetch-num-stages=0",
                "--compile-to=executable-configurations",
            ],
            capture_output=True,
            text=True,
        )
        if configured.returncode:
            return configured.stderr.strip().splitlines()[0][-160:]
        (work / "configured.mlir").write_text(configured.stdout)
        dump = subprocess.run(
            [
                *(bin / "iree-compile", work / "configured.mlir", "-o", "/dev/null"),
                "--compile-from=executable-configurations",
                "--compile-to=executable-targets",
                f"--mlir-print-ir-after={LAST}",
            ],
            capture_output=True,
            text=True,
        )
        dispatches = [part for part in dump.stderr.split("// -----// ") if "subspan" in part]
        if not dispatches:
            return (dump.stderr.strip().splitlines() or ["no dispatch"])[0][-160:]
        problems = []
        for number, text in enumerate(dispatches):
            (work / "dump.mlir").write_text("// -----// " + text)
            kernel = subprocess.run(
                [bin / "python", TRANSCRIBE, work / "dump.mlir"], capture_output=True, text=True
            )
            if kernel.returncode:
                problems.append(kernel.stderr.strip().splitlines()[-1][-160:])
                continue
            suffix = f".{number}" if len(dispatches) > 1 else ""
            (folder / f"{chip}.{program.name}{suffix}.mlir").write_text(kernel.stdout)
        return "; ".join(problems)


def main() -> None:
    """Every program for every chip."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("bin", type=Path, help="the folder with IREE's programs and its python")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="programs with this in their names")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    wanted = [p for p in programs() if arguments.only in p.name]
    work = [(program, chip) for program in wanted for chip in CHIPS]
    with ThreadPoolExecutor(arguments.jobs) as pool:
        bin = arguments.bin.resolve()
        found = pool.map(lambda each: compiled(bin, *each, arguments.folder), work)
        for (program, chip), problem in zip(work, found, strict=True):
            if problem:
                print(f"{chip} {program.name}: {problem}")
    print(f"{len(list(arguments.folder.glob('*.mlir')))} kernels in {arguments.folder}")


if __name__ == "__main__":
    main()
