"""Writes random kernels, their arguments and their right results into a folder for gpu_run.py.

    python bench/gpu_random.py FOLDER --loops 100 --kernels 200 --seed 7
    python bench/gpu_run.py FOLDER --sizes ""

Loops of tensor copies are those of test/reports/tensor_loops_report.py (sm_90a), kernels with cp.async those of
test/reports/ptx_report.py; NumPy says what is right, element by element. Many kernels share a cubin. The
examples of Pipeline objects come with them.
"""

from __future__ import annotations

import argparse
import importlib
import json
import re
import sys
from collections import Counter
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test"))

from gpu_cases import SM_80, SM_90, tensor_maps  # noqa: E402

import mlir_async_pipe  # noqa: E402
from helpers.random_lowering.judge import Subject, Table, pipeline_subject, place_of, sharing  # noqa: E402
from helpers.random_lowering.kernel_text import Kernel  # noqa: E402
from helpers.random_lowering.lines import module_text  # noqa: E402
from helpers.random_lowering.model import make_case, source_columns  # noqa: E402
from helpers.random_lowering.spec import choose  # noqa: E402
from helpers.tensor_loops import random_loop  # noqa: E402
from mlir_async_pipe.bindings import ir, new_context  # noqa: E402
from mlir_async_pipe.session.diagnostics import AsyncPipeError  # noqa: E402

BATCH = 25


def kept(folder: Path, name: str, arrays: list[Any], expected: dict[int, Any]) -> str:
    """The file with the arrays a0, a1, … and the results e0, e1, … by the number of their array."""
    held = {f"a{n}": np.asarray(array) for n, array in enumerate(arrays)}
    held |= {f"e{n}": np.asarray(array) for n, array in expected.items()}
    # bf16 and f8 are no types of NumPy's own: their bits are compared.
    own = "?bhilBHILefd"
    held = {k: a if a.dtype.char in own else a.view(f"u{a.itemsize}") for k, a in held.items()}
    np.savez(folder / f"{name}.npz", **held)
    return f"{name}.npz"


def as_kernel(text: str) -> str:
    """The function of a random loop as a kernel of a gpu.module."""
    text = re.sub(
        r"\bfunc\.func @f\((.*?)\) attributes \{gpu\.", r"gpu.func @f(\1) kernel attributes {", text
    )
    text = re.sub(r"^( +)return$", r"\1gpu.return", text, flags=re.M)
    start = text.index("module {") + len("module {")
    return (
        f"{text[:start].replace('module {', 'module attributes {gpu.container_module} {')}"
        f"\ngpu.module @kernels {{{text[start:]}}}\n"
    )


def loops(folder: Path, seeds: range, said: Counter[str]) -> list[dict[str, Any]]:
    """One cubin for each loop of tensor copies."""
    entries = []
    for seed in seeds:
        loop, name = random_loop(seed), f"loop{seed}"
        arguments = loop.arguments()
        with new_context():
            text = as_kernel(str(loop.module()))
            module, maps = ir.Module.parse(text), tensor_maps(text)
            try:
                mlir_async_pipe.pipeline(module, target=SM_90, check="none")
                code = mlir_async_pipe.lower(module, target=SM_90, emit="cubin")
            except AsyncPipeError as error:
                said[f"{loop.reader}: {error.code}"] += 1
                continue
        if any(given.shape[-1] * given.itemsize % 16 for given in arguments[: len(loop.boxes)]):
            said["rows that no tensor map can have: of other than 16 bytes"] += 1
            continue
        (kernel,) = code.kernels
        (folder / f"{name}.cubin").write_bytes(code.binary)
        out = len(loop.boxes)
        arrays = [given for given in arguments if not isinstance(given, int)]
        counts = [given for given in arguments if isinstance(given, int)]
        expected = np.asarray(loop.expected(arguments)).reshape(arrays[out].shape)
        roles = loop.roles or "together"
        said[f"{loop.reader}, {roles}"] += 1
        entries.append(
            {
                "name": f"{name} {loop.reader} {roles}", "family": "given", "weaker": False,
                "facts": {"arrays": kept(folder, name, arrays, {out: expected}), "numbers": counts, "grid": [1, 1]},
                "file": f"{name}.cubin", "entry": kernel.name, "threads": list(kernel.ptx.threads),
                "shared": kernel.dynamic_shared_bytes, "maps": maps,
                "parameters": [asdict(p) for p in code.parameters[kernel.name]],
            }
        )  # fmt: skip
    return entries


def kernels(folder: Path, seeds: range, said: Counter[str]) -> list[dict[str, Any]]:
    """Kernels with cp.async, a batch in each cubin."""
    entries: list[dict[str, Any]] = []
    for first in range(seeds.start, seeds.stop, BATCH):
        table, made = Table(), []
        for seed in range(first, min(first + BATCH, seeds.stop)):
            spec = choose(seed, f"k{seed}")
            subject = Subject(spec, Kernel(spec).text())
            pipeline_subject(subject, table)
            if subject.pipelined:
                made.append(subject)
        code = None
        while made and code is None:
            codes = sharing([subject.code for subject in made])
            with new_context():
                try:
                    module = ir.Module.parse(module_text(codes))
                    code = mlir_async_pipe.lower(module, target=SM_80, emit="cubin")
                except AsyncPipeError as error:
                    said[f"cp.async: {error.code}"] += 1
                    made.pop(place_of(error, codes))
        if code is None:
            continue
        file = f"batch{first}.cubin"
        (folder / file).write_bytes(code.binary)
        found = {kernel.name: kernel for kernel in code.kernels}
        for subject in made:
            entries.append(_kernel(folder, file, subject, found[subject.spec.name], code))
            said["cp.async"] += 1
    return entries


def _kernel(folder: Path, file: str, subject: Subject, kernel: Any, code: Any) -> dict[str, Any]:
    spec, case = subject.spec, make_case(subject.spec)
    rows = spec.blocks * spec.outer * spec.trips
    arrays = [*case.inputs, np.zeros_like(case.output)]
    views = [
        {"offset": s.offset, "sizes": [rows, source_columns(spec, s)], "strides": [s.stride, 1]}
        for s in spec.sources
    ]
    expected = {len(arrays) - 1: case.expected}
    views.append({"offset": 0, "sizes": [case.output.size], "strides": [1]})
    if case.scratch is not None:
        expected[len(arrays)] = case.scratch
        arrays.append(np.zeros_like(case.scratch))
        views.append({"offset": 0, "sizes": [case.scratch.size], "strides": [1]})
    return {
        "name": f"{spec.name} cp.async", "family": "given", "weaker": False,
        "facts": {
            "arrays": kept(folder, spec.name, arrays, expected), "views": views,
            "numbers": [spec.bound, spec.trips], "grid": [spec.blocks, 1],
        },
        "file": file, "entry": spec.name, "threads": [spec.block, 1, 1] if isinstance(spec.block, int) else [*spec.block, 1, 1][:3],
        "shared": kernel.dynamic_shared_bytes, "maps": {},
        "parameters": [asdict(p) for p in code.parameters[spec.name]],
    }  # fmt: skip


def objects(folder: Path, said: Counter[str]) -> list[dict[str, Any]]:
    """The kernels of examples/pipeline_object, with what their examples hold them against."""
    sys.path.insert(0, str(ROOT / "examples" / "pipeline_object"))
    import judged

    entries: list[dict[str, Any]] = []

    def write(
        build: Any,
        name: str,
        arrays: Any,
        expected: Any,
        *,
        threads: int,
        grid: Any = (1, 1, 1),
        **_: Any,
    ) -> list[str]:
        with new_context():
            module = build()
            mlir_async_pipe.pipeline(module, target=SM_80)
            code = mlir_async_pipe.lower(module, target=SM_80, emit="cubin")
        (kernel,) = code.kernels
        file = f"object_{name}"
        (folder / f"{file}.cubin").write_bytes(code.binary)
        kept_at = kept(folder, file, arrays, {len(arrays) - 1: expected.astype(np.float32)})
        entries.append(
            {
                "name": f"{name} pipeline object", "family": "given", "weaker": False,
                "facts": {
                    "arrays": kept_at, "numbers": [], "grid": list(grid[:2]), "tolerance": 1e-4,
                },
                "file": f"{file}.cubin", "entry": name, "threads": [threads, 1, 1],
                "shared": kernel.dynamic_shared_bytes, "maps": {},
                "parameters": [asdict(p) for p in code.parameters[name]],
            }
        )  # fmt: skip
        said["pipeline objects"] += 1
        return []

    judged.judge = write
    for path in sorted((ROOT / "examples" / "pipeline_object").glob("object_*.py")):
        importlib.import_module(path.stem).main()
    return entries


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--loops", type=int, default=100)
    parser.add_argument("--kernels", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    said: Counter[str] = Counter()
    first = arguments.seed * 10**6
    entries = loops(arguments.folder, range(first, first + arguments.loops), said)
    entries += kernels(arguments.folder, range(first, first + arguments.kernels), said)
    entries += objects(arguments.folder, said)
    (arguments.folder / "cases.json").write_text(json.dumps(entries))
    for what, count in sorted(said.items()):
        print(f"{count:5} {what}")
    print(f"{len(entries)} kernels in {arguments.folder}")


if __name__ == "__main__":
    main()
