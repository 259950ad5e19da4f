"""Writes machine code and how to launch it into a folder, for a machine that has a GPU but not this package.

    python bench/gpu_cases.py FOLDER            the kernels of all families
    python bench/gpu_cases.py FOLDER --only attention
    python bench/gpu_run.py FOLDER              there: NumPy's numbers, then times (PyTorch, Triton)

A case is a generated kernel, pipelined here: `NAME.cubin`, and one entry of `cases.json` that says which
family of tests it belongs to, its tile, its parameters one by one (`mlir_async_pipe.lower(...).parameters`),
how many threads and bytes of dynamic shared memory its launch asks for, and what the tensor map behind each
pointer looks like. In a case with "one more" each wait leaves one group more in flight than it may: a race,
which the GPU is asked to show.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples"))

from generate_attention import Attention  # noqa: E402
from generate_gemm import Gemm  # noqa: E402
from generate_hopper_attention import HopperAttention  # noqa: E402
from generate_hopper_gemm import HopperGemm  # noqa: E402
from nvidia_tiles import TYPES  # noqa: E402

import mlir_async_pipe  # noqa: E402
from mlir_async_pipe.bindings import ir, new_context  # noqa: E402

SM_80, SM_90 = "nvvm:sm_90", "nvvm:sm_90a"


@dataclass(frozen=True)
class Case:
    """One kernel; `family` says how gpu_run.py makes its arguments and judges it, from `facts`."""

    name: str
    family: str
    target: str
    text: Callable[[], str]
    facts: dict[str, Any] = field(default_factory=dict)
    weaker: bool = False


def tensor_gemm(name: str, **more: Any) -> Case:
    """A GEMM by tensor copies."""
    made = HopperGemm(**more)
    assert not made.problems(), made.problems()
    facts = {
        "tile": (made.tile_m, made.tile_n, made.tile_k), "types": made.types, "b": made.b,
        "sums": made.product.sums, "persistent": made.persistent, "stages": made.stages,
        "warpgroups": made.warpgroups, "roles": made.roles, "cluster": made.cluster,
        "out": made.out or made.product.sums, "store": made.store,
    }  # fmt: skip
    return Case(name, "tensor gemm", SM_90, made.module, facts)


def gemm(
    name: str, tile: tuple[int, int, int], types: str, target: str = SM_80, **more: Any
) -> Case:
    """A GEMM by cp.async."""
    m, n, k = tile
    made = Gemm(tile_m=m, tile_n=n, tile_k=k, types=TYPES[types], **more)
    assert not made.problems(), made.problems()
    facts = {"tile": tile, "types": types, "warps": made.warps, "stages": made.stages}
    return Case(name, "gemm", target, made.module, facts)


def tensor_attention(name: str, **more: Any) -> Case:
    """Attention by tensor copies."""
    made = HopperAttention(**more)
    assert not made.problems(), made.problems()
    facts = {"features": made.features, "rows": made.rows, "keys": made.keys, "causal": False}
    return Case(name, "tensor attention", SM_90, made.module, facts)


def attention(name: str, **more: Any) -> Case:
    """Attention by cp.async."""
    made = Attention(**more)
    facts = {"features": made.features, "rows": 64, "causal": made.causal}
    return Case(name, "attention", SM_80, made.module, facts)


def cases() -> list[Case]:
    """All of them."""
    found: list[Case] = []
    wide = {"tile_n": 256, "warpgroups": 2}
    forms: dict[str, dict[str, Any]] = {
        "together": {},
        "roles": {"roles": "specialised"},
        "persistent": {"persistent": True},
        "persistent roles": {"persistent": True, "roles": "specialised"},
    }
    for b in "kn":
        for form, more in forms.items():
            for stages in (3, 4):
                s = f"S={stages}"
                found.append(
                    tensor_gemm(f"128x128x64 f16 {b} {form} {s}", b=b, stages=stages, **more)
                )
                found.append(
                    tensor_gemm(
                        f"128x256x64 f16 {b} {form} {s}", b=b, stages=stages, **wide, **more
                    )
                )
        for m, n, stages in ((128, 128, 4), (64, 256, 4), (128, 128, 6)):
            more = {"persistent": True, "roles": "ping-pong", "b": b, "stages": stages}
            found.append(
                tensor_gemm(f"{m}x{n}x64 f16 {b} ping-pong S={stages}", tile_m=m, tile_n=n, **more)
            )
    for types, k in (
        ("bf16", 64),
        ("tf32", 32),
        ("e4m3", 128),
        ("e5m2", 128),
        ("s8", 128),
        ("u8", 128),
    ):
        for form in ("together", "roles"):
            found.append(
                tensor_gemm(
                    f"128x128x{k} {types} {form}", types=types, tile_k=k, stages=4, **forms[form]
                )
            )
    found.append(
        tensor_gemm(
            "128x256x128 e4m3 roles", types="e4m3", tile_k=128, stages=4, **wide, **forms["roles"]
        )
    )
    found.append(tensor_gemm("128x128x64 f16 sums of f16", sums="f16", stages=4))
    for blocks in (2, 4):
        found.append(
            tensor_gemm(
                f"128x128x64 f16 cluster of {blocks}", roles="specialised", cluster=blocks, stages=4
            )
        )
    found.append(
        tensor_gemm("128x256x64 f16 cluster of 2", roles="specialised", cluster=2, stages=4, **wide)
    )
    for blocks in (2, 4):
        found.append(
            tensor_gemm(f"128x128x64 f16 cluster of {blocks} together", cluster=blocks, stages=4)
        )
    persistent = {"persistent": True, "roles": "specialised"}
    found.append(
        tensor_gemm(
            "128x128x64 f16 cluster of 2 persistent roles", cluster=2, stages=3, **persistent
        )
    )
    for out in ("f32", "f16", "bf16"):
        for form in ("persistent", "persistent roles"):
            for label, more in (("128x128x64", {}), ("128x256x64", wide)):
                name = f"{label} f16 TMA store of {out} {form}"
                found.append(
                    tensor_gemm(name, store="tma", out=out, stages=3, **more, **forms[form])
                )
    found.append(tensor_gemm("128x256x64 f16 stores of f16", out="f16", stages=4, **wide))
    for m, n in ((128, 128), (64, 256)):
        more = {"persistent": True, "roles": "ping-pong", "stages": 4}
        name = f"{m}x{n}x64 f16 TMA store of f16 ping-pong"
        found.append(tensor_gemm(name, tile_m=m, tile_n=n, store="tma", out="f16", **more))
    for form in ("persistent", "persistent roles"):
        name = f"128x256x64 f16 k {form} groups of 8 rows"
        found.append(tensor_gemm(name, stages=4, group=8, **wide, **forms[form]))
    more = {"store": "tma", "out": "f16", "group": 8, **wide, **persistent}
    found.append(
        tensor_gemm("128x256x64 f16 TMA store of f16 in groups of 8 rows", stages=3, **more)
    )
    found.append(tensor_gemm("128x128x64 f16 not pipelined", stages=1))
    for tile, types, stages, more in (
        ((128, 128, 32), "f16", 3, {}),
        ((128, 128, 32), "f16", 4, {}),
        ((128, 128, 64), "f16", 3, {}),
        ((64, 64, 64), "f16", 4, {}),
        ((128, 256, 32), "f16", 3, {"warps": (2, 4)}),
        ((256, 128, 64), "f16", 3, {"warps": (4, 2)}),
        ((128, 128, 32), "bf16", 3, {}),
        ((128, 128, 32), "tf32", 3, {}),
        ((128, 128, 64), "s8", 3, {}),
        ((128, 128, 32), "f16", 1, {}),
        ((128, 128, 32), "f16", 3, {"edges": True}),
        ((128, 128, 32), "f16", 4, {"nested": True}),
    ):
        m, n, k = tile
        label = " edges" if "edges" in more else " nested" if "nested" in more else ""
        found.append(
            gemm(
                f"{m}x{n}x{k} {types} cp.async S={stages}{label}",
                tile,
                types,
                stages=stages,
                **more,
            )
        )
    for features, keys, groups in ((64, 64, 1), (128, 64, 1), (64, 128, 2), (128, 64, 2)):
        name = f"attention D={features} keys={keys} warpgroups={groups}"
        found.append(tensor_attention(name, features=features, keys=keys, warpgroups=groups))
    for features in (64, 128):
        for causal in (False, True):
            name = f"attention D={features} cp.async{' causal' if causal else ''}"
            found.append(attention(name, features=features, causal=causal, stages=3))
        found.append(
            attention(f"attention D={features} cp.async apart", features=features, schedule="apart")
        )
    raced = (
        "128x128x32 f16 cp.async S=3",
        "128x128x64 f16 k together S=3",
        "attention D=64 cp.async",
    )
    raced += ("128x256x64 f16 k persistent roles S=4", "attention D=64 keys=64 warpgroups=1")
    return [*found, *(weaker(case) for case in found if case.name in raced)]


def weaker(case: Case) -> Case:
    """The case with one group more in flight at each wait."""
    return replace(case, name=f"{case.name}, one more", weaker=True)


_COUNT = re.compile(r"(numGroups = |wgmma\.wait\.group\.sync\.aligned )(\d+)")
_MAP = re.compile(
    r"unrealized_conversion_cast (%\w+) : !llvm\.ptr to "
    r"!nvgpu\.tensormap\.descriptor<tensor = memref<([\dx]+)x(\w+)[^>]*>, swizzle = (\w+)"
)


def tensor_maps(text: str) -> dict[int, dict[str, Any]]:
    """Box, element and swizzle of the tensor map behind each argument of the only kernel."""
    header = re.search(r"gpu\.func @\w+\(([^)]*)\)", text)
    assert header is not None
    names = re.findall(r"(%\w+)\s*:", header[1])
    return {
        names.index(name): {
            "box": [int(n) for n in box.split("x")],
            "element": element,
            "swizzle": swizzle,
        }
        for name, box, element, swizzle in _MAP.findall(text)
    }


def write(case: Case, folder: Path, *, cubin: bool = True) -> dict[str, Any]:
    """The case's entry; its machine code is in the folder then."""
    text = case.text()
    with new_context():
        module = ir.Module.parse(text)
        mlir_async_pipe.pipeline(module, target=case.target, check="none")
        if case.weaker:
            one_more = _COUNT.sub(lambda wait: f"{wait[1]}{int(wait[2]) + 1}", str(module))
            assert one_more != str(module), case.name
            module = ir.Module.parse(one_more)
        emit = "cubin" if cubin else "ptx"
        code = mlir_async_pipe.lower(module, target=case.target, emit=emit)
    (kernel,) = code.kernels
    file = re.sub(r"[^\w.=-]+", "_", case.name) + "." + emit
    (folder / file).write_bytes(code.binary if cubin else code.text.encode())
    return {
        "name": case.name,
        "family": case.family,
        "facts": case.facts,
        "file": file,
        "entry": kernel.name,
        "threads": list(kernel.ptx.threads),
        "shared": kernel.dynamic_shared_bytes,
        "resources": None if kernel.resources is None else asdict(kernel.resources),
        "parameters": [asdict(p) for p in code.parameters[kernel.name]],
        "maps": tensor_maps(text),
        "weaker": case.weaker,
    }


def main() -> None:
    """Write the folder."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="cases whose name or family has this in it")
    arguments = parser.parse_args()
    arguments.folder.mkdir(parents=True, exist_ok=True)
    chosen = [c for c in cases() if arguments.only in f"{c.family}: {c.name}"]
    entries = []
    for case in chosen:
        try:
            entries.append(write(case, arguments.folder))
        except Exception as error:  # a case that does not come out is said, the others go on
            print(f"{case.name}: {type(error).__name__}: {error}", file=sys.stderr)
    (arguments.folder / "cases.json").write_text(json.dumps(entries, indent=1))
    print(f"{len(entries)} of {len(chosen)} cases in {arguments.folder}")


if __name__ == "__main__":
    main()
