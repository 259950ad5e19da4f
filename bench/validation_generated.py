"""Whether pipelines of our examples and generated kernels compute what their loops did, for all data, and how long that takes to prove.

    python bench/validation_generated.py [--only TEXT]

Each kernel is pipelined, and compared by `mlir_async_pipe.validate` as MLIR, some as PTX, too; sizes "from 0" are asked about for all
trip counts. The seconds are those of the processor.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from mlir_async_pipe import Target, pipeline, validate
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.machine import Data, From

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
sys.path.insert(0, str(EXAMPLES))

from generate_attention import WARPS, Attention  # noqa: E402
from generate_blackwell_gemm import BlackwellGemm  # noqa: E402
from generate_gemm import TYPES, Gemm  # noqa: E402
from generate_hopper_gemm import HopperGemm  # noqa: E402

DEPTH = 200
STORED = {"f16": "float16", "bf16": "uint16", "tf32": "float32", "s8": "int8", "e4m3": "uint8"}
SUMS = {"s8": "int32"}
# 128 bytes of a row.
TILE_K = {"s8": 128, "e4m3": 128, "tf32": 32}


@dataclass(frozen=True)
class Kernel:
    """A kernel, its arguments and launch; whether its PTX is compared, too."""

    name: str
    text: str
    target: str
    arguments: list[Any]
    launch: dict[str, Any] = field(default_factory=dict)
    ptx: bool = False


def kernels() -> Iterator[Kernel]:
    """All that are compared."""
    gemm = (EXAMPLES / "gemm.mlir").read_text()
    tile = [Data((32, n)) for n in (16, 16, 32, 32)]
    for name, arguments in (("add_one", []), ("attention_tile", tile)):
        text = (EXAMPLES / f"{name}.mlir").read_text()
        yield Kernel(name, text, "nvvm:sm_80", arguments, {}, True)
    for depth in (256, From(0, 32)):
        tall = Data((128, depth))
        arguments = [tall, tall, Data((128, 128))]
        yield Kernel(
            f"gemm, depth {depth}", gemm, "nvvm:sm_80", arguments, {"threads": 128}, depth == 256
        )
    arguments = [Data((1, 256, 64))] * 4
    for chip, target in (("", "nvvm:sm_80"), ("gfx950", "rocdl:gfx950")):
        made, lanes = Attention(chip=chip), Target.parse(target).chip.lanes
        launch = {"threads": WARPS * lanes, "warp": lanes}
        name = f"flash attention {chip}".rstrip()
        yield Kernel(name, made.module(), target, arguments, launch, not chip)
    yield from generated("sm_80", 32, ("f16", "bf16"))
    for chip in ("gfx90a", "gfx942", "gfx950", "gfx1250"):
        yield from generated(chip, 16, ("f16", "bf16"))
    for types in STORED:
        tile_k = TILE_K.get(types, 64)
        for depth in (DEPTH, From(0, tile_k)):
            yield hopper(types, depth=depth, tile_k=tile_k)
    yield hopper("f16", depth=From(8, 64), tile_m=128, warpgroups=2)
    for roles in ("specialised", "ping-pong"):
        yield hopper("f16", roles=roles, persistent=roles == "ping-pong")
    yield hopper("f16", tiles=(3, 2), tile_m=128, warpgroups=2, persistent=True)
    for roles in ("together", "specialised"):
        made = BlackwellGemm(tile_n=64, roles=roles)
        data = [
            Data((128, DEPTH), "float16"),
            Data((64, DEPTH), "float16"),
            Data((128, 64), "float32"),
        ]
        yield Kernel(f"Blackwell, {roles}", made.module(), "nvvm:sm_100a", [*data, DEPTH], {}, True)


def generated(chip: str, tile: int, types: tuple[str, ...]) -> Iterator[Kernel]:
    """GEMMs of one warp, of one depth and of all."""
    for kind in types:
        made = Gemm(chip=chip, tile_m=tile, tile_n=tile, warps=(1, 1), types=TYPES[kind])
        target = Target.parse(f"{'nvvm' if chip.startswith('sm') else 'rocdl'}:{chip}")
        launch = {"threads": made.threads, "warp": target.chip.lanes}
        for depth in (64, From(0, 32 if chip.startswith("sm") else 64)):
            data = [Data((tile, depth)), Data((tile, depth)), Data((tile, tile))]
            name = f"{chip} {kind}, depth {depth}"
            yield Kernel(name, made.module(), str(target), data, launch, chip.startswith("sm"))


def hopper(
    types: str, tiles: tuple[int, int] = (1, 1), depth: int | From = DEPTH, **options: Any
) -> Kernel:
    """A GEMM of tensor copies and warpgroups."""
    made = HopperGemm(**{"tile_m": 64, "tile_n": 64, "types": types, **options})
    rows, columns = tiles[0] * made.tile_m, tiles[1] * made.tile_n
    data = [Data((size, depth), STORED[types]) for size in (rows, columns)]
    data.append(Data((rows, columns), SUMS.get(types, "float32")))
    launch = {"grid": (2, 1, 1) if made.persistent else (tiles[1], tiles[0], 1)}
    more = [f"{name} {value}" for name, value in options.items()]
    arguments = [*data, depth]
    return Kernel(
        f"Hopper {types}, {', '.join([*more, f'depth {depth}'])}",
        made.module(),
        "nvvm:sm_90a",
        arguments,
        launch,
        types == "f16",
    )


def measure(kernel: Kernel, ptx: bool) -> str:
    """What becomes of one kernel, as a line."""
    target = Target.parse(kernel.target)
    with new_context():
        before, after = ir.Module.parse(kernel.text), ir.Module.parse(kernel.text)
        pipeline(after, target, check="none")
        code: Any = lower(after, target=target, emit="ptx") if ptx else after
        began = time.process_time()
        found = validate(before, code, None, kernel.arguments, target=target, **kernel.launch)
        seconds = time.process_time() - began
    to = f"up to {found.up_to:.2g}" if found.up_to else found.not_for_all or found.code
    name = kernel.name + (", PTX" if ptx else "")
    return f"| {name} | {found.verdict} | {to} | {seconds:.1f} |" + (
        "" if found.is_equal else f" {found.message}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", default="")
    only = parser.parse_args().only
    for kernel in kernels():
        for ptx in (False, True) if kernel.ptx else (False,):
            if only in kernel.name:
                print(measure(kernel, ptx), flush=True)


if __name__ == "__main__":
    main()
