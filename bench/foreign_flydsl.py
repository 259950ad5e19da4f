"""Makes a folder of FlyDSL's own kernels, as its compiler hands them to MLIR, without a GPU.

    python -m venv flydsl && flydsl/bin/pip install flydsl torch numpy
    git clone https://github.com/ROCm/FlyDSL
    flydsl/bin/python bench/foreign_flydsl.py FlyDSL FOLDER [--only TEXT]

The kernels are those of the folder `kernels` of the sources, with the sizes of their tests. What is kept of each is
the module after the stack's layouts became addresses and before its loops become blocks, where the hook of this
package stands, too. `bench/foreign.py` reads the folder.
"""

from __future__ import annotations

import argparse
import importlib
import inspect
import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LOOPS_GO = "convert-scf-to-cf"


@dataclass(frozen=True)
class Kernel:
    """A function `build` of a module of the sources, what it is called with, and the chips that it is for.

    Its launcher gets a tensor like `tensor` for each that it takes, or like what `tensors` says of its name, and
    256 for each number. `"bfloat16 64x4096"` has 64 rows of 4096 elements.
    """

    module: str
    build: str
    given: Mapping[str, Any] = field(default_factory=dict)
    chips: tuple[str, ...] = ("gfx942", "gfx950")
    tensor: str = "float16 262144"
    tensors: Mapping[str, str] = field(default_factory=dict)


GFX950 = ("gfx950",)
PRESHUFFLED = {"N": 512, "K": 1024, "tile_m": 64, "tile_n": 128, "tile_k": 128, "out_dtype": "bf16"}
MOE = {
    "model_dim": 1024, "inter_dim": 256, "experts": 8, "topk": 2,
    "tile_m": 32, "tile_n": 128, "tile_k": 128,
}  # fmt: skip
ROW = {"N": 4096, "dtype_str": "bf16"}
ROWS = "bfloat16 64x4096"
WEIGHTS = {"Gamma": "bfloat16 4096", "Beta": "bfloat16 4096", "Rstd": "float32 64"}
QUANTISED = {**WEIGHTS, "Output": "int8 64x4096", "XScale": "float32 4096", "YScale": "float32 64"}
BYTES = "int8 262144"
SCALED = {"A_scale": "float32 1024", "B_scale": "float32 1024", "C": "bfloat16 262144"}
PICKED = {
    "TopkWeights": "float32 64x4", "TopkIndices": "int32 64x4", "TokenExpertIndices": "int32 64x4",
}  # fmt: skip
CACHES = {
    "K": "bfloat16 64x1x64", "V": "bfloat16 64x1x64", "K_out": "bfloat16 64x1x64", "Positions": "int32 64",
    "SlotMapping": "int32 64", "CosCache": "bfloat16 4096x32", "SinCache": "bfloat16 4096x32",
    "KeyCache": "bfloat16 128x16x1x64", "ValueCache": "bfloat16 128x16x1x64", "KScale": "float32 1", "VScale": "float32 1",
}  # fmt: skip
ROUTED = {
    "arg_scale_x": "float32 1024", "arg_scale_w": "float32 4096", "arg_sorted_token_ids": "int32 1024",
    "arg_expert_ids": "int32 64", "arg_sorted_weights": "float32 1024", "arg_max_token_ids": "int32 1",
    "arg_num_valid_ids": "int32 1", "arg_out": "float16 262144",
}  # fmt: skip

# fmt: off
KERNELS = {
    "softmax": Kernel("norm.softmax_kernel", "build_softmax_module", {"M": 64, **ROW}, tensor=ROWS),
    "softmax_ragged": Kernel("norm.softmax_kernel", "build_softmax_module", {"M": 64, "N": 1000, "dtype_str": "f32"}, tensor="float32 64x1000"),
    "softmax_bwd": Kernel("norm.softmax_bwd_kernel", "build_softmax_bwd_module", ROW, tensor=ROWS),
    "layernorm": Kernel("norm.layernorm_kernel", "build_layernorm_module", ROW),
    "layernorm_bwd": Kernel("norm.layernorm_kernel", "build_layernorm_bwd_module", ROW),
    "layernorm_added": Kernel("norm.layernorm_kernel", "build_fused_add_layernorm_module", ROW, tensor=ROWS, tensors=WEIGHTS),
    "layernorm_quantised": Kernel("norm.layernorm_kernel", "build_layernorm_dynamicquant_module", ROW, tensor=ROWS, tensors=QUANTISED),
    "rmsnorm": Kernel("norm.rmsnorm_kernel", "build_rmsnorm_module", ROW, tensor=ROWS, tensors=WEIGHTS),
    "rmsnorm_added": Kernel("norm.rmsnorm_kernel", "build_fused_add_rmsnorm_module", ROW, tensor=ROWS, tensors=WEIGHTS),
    "rmsnorm_smooth": Kernel("norm.rmsnorm_kernel", "build_rmsnorm_smoothquant_module", ROW, tensor=ROWS, tensors=QUANTISED),
    "rmsnorm_bwd": Kernel("norm.rmsnorm_bwd_kernel", "build_rmsnorm_bwd_module", ROW, tensor=ROWS, tensors={**WEIGHTS, "DGamma": "float32 4096"}),
    "rmsnorm_bwd_stages": Kernel("norm.rmsnorm_bwd_kernel", "build_rmsnorm_bwd_two_stage_module", {**ROW, "num_programs": 64}, tensor=ROWS, tensors=WEIGHTS),
    "gemm_bf16": Kernel("gemm.preshuffle_gemm", "compile_preshuffle_gemm", {**PRESHUFFLED, "in_dtype": "bf16"}),
    "gemm_fp8": Kernel("gemm.preshuffle_gemm", "compile_preshuffle_gemm", {**PRESHUFFLED, "in_dtype": "fp8"}),
    "gemm_fp8_async": Kernel("gemm.preshuffle_gemm", "compile_preshuffle_gemm", {**PRESHUFFLED, "in_dtype": "fp8", "use_async_copy": True}, GFX950),
    "fp8_gemm_4_waves": Kernel("gemm.fp8_gemm_4wave", "compile_fp8_gemm_4w", {"K": 1024}, GFX950, BYTES, SCALED),
    "fp8_gemm_8_waves": Kernel("gemm.fp8_gemm_8wave", "compile_fp8_gemm_8w", {"K": 1024}, GFX950, BYTES, SCALED),
    "fp4_gemm_4_waves": Kernel("gemm.fp4_gemm_4wave", "compile_fp4_gemm_4w", {"K": 1024, "MN": (256, 256)}, GFX950, BYTES, SCALED),
    "attention": Kernel("attention.flash_attn_generic", "build_flash_attn_func_module_primary", {"num_heads": 8, "head_dim": 128, "dtype_str": "bf16"}, tensor="bfloat16 262144"),
    "attention_not_causal": Kernel("attention.flash_attn_generic", "build_flash_attn_func_module_primary", {"num_heads": 8, "head_dim": 64, "causal": False}),
    "attention_sliding": Kernel("attention.swa_gfx950", "build_gqa_attn", {"ATTN_B": 2, "ATTN_H": 8, "ATTN_H_KV": 2, "ATTN_D": 128, "sliding_window": (128, 0)}, GFX950, "bfloat16 262144"),
    "attention_two_groups": Kernel("attention.flash_attn_gfx950", "build_flash_attn_dualwave_swp_module", {"num_heads": 8, "head_dim": 128}, GFX950, "bfloat16 262144"),
    "rope_cache": Kernel("attention.fused_rope_cache_kernel", "build_fused_rope_cache_module", tensor="bfloat16 64x8x64", tensors=CACHES),
    "moe_gating": Kernel("moe.topk_gating_softmax_kernel", "build_topk_gating_softmax_module", {"num_experts": 64, "topk": 4}, tensor="bfloat16 64x64", tensors=PICKED),
    "moe_sum": Kernel("moe.moe_gemm_2stage.moe_reduce", "compile_moe_reduction", {"topk": 4, "model_dim": 1024}),
    "moe_first": Kernel("moe.moe_gemm_2stage.gemm1", "compile_moe_gemm1", {**MOE, "doweight_stage1": False}, tensor=BYTES, tensors=ROUTED),
    "moe_second": Kernel("moe.moe_gemm_2stage.gemm2", "compile_moe_gemm2", {**MOE, "doweight_stage2": True}, tensor=BYTES, tensors=ROUTED),
    "moe_second_stored": Kernel("moe.moe_gemm_2stage.gemm2", "compile_moe_gemm2", {**MOE, "doweight_stage2": True, "accumulate": False}, tensor=BYTES, tensors=ROUTED),
}
# fmt: on


class Done(Exception):
    """The module was written: what the stack does with it next is of no interest."""


def main() -> int:
    """Write all kernels, each in a process of its own: the stack reads the chip once a process."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("sources", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--only", default="", help="kernels whose name contains this")
    parser.add_argument("--kernel", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    asked.folder.mkdir(parents=True, exist_ok=True)
    if asked.kernel:
        return write(
            asked.kernel, asked.sources, asked.folder / f"{os.environ['ARCH']}.{asked.kernel}.mlir"
        )
    missing = 0
    for name, kernel in KERNELS.items():
        for chip in kernel.chips if asked.only in name else ():
            done = subprocess.run(
                [sys.executable, __file__, str(asked.sources), str(asked.folder), "--kernel", name],
                env={**os.environ, "ARCH": chip, "FLYDSL_GPU_ARCH": chip, "COMPILE_ONLY": "1", "FLYDSL_RUNTIME_ENABLE_CACHE": "0"},
                capture_output=True, text=True,
            )  # fmt: skip
            missing += done.returncode != 0
            said = (
                done.stdout.strip()
                if done.returncode == 0
                else done.stderr.strip().splitlines()[-1:]
            )
            print(f"{chip} {name}: {said}", flush=True)
    return int(missing > 0)


def write(name: str, sources: Path, path: Path) -> int:
    """Compile a kernel up to where its loops go, and write the module."""
    sys.path.insert(0, str(sources))
    stack = importlib.import_module("flydsl.compiler.jit_function")
    kernel = KERNELS[name]
    run = stack._run_pipeline

    def keep(module: Any, fragments: list[str], **options: Any) -> None:
        cut = next((n for n, part in enumerate(fragments) if LOOPS_GO in part), len(fragments))
        run(module, fragments[:cut], **options)
        if cut < len(fragments):
            path.write_text(module.operation.get_asm(enable_debug_info=True))
            raise Done

    stack._run_pipeline = keep
    build = getattr(importlib.import_module(f"kernels.{kernel.module}"), kernel.build)
    launcher = launcher_in(build(**kernel.given))
    try:
        launcher(*arguments(launcher, kernel))
    except Done:
        print(f"{len(path.read_text().splitlines())} lines")
        return 0
    raise RuntimeError(f"{name} was compiled, but not by the passes that are watched")


def launcher_in(built: Any) -> Any:
    """The function that the stack compiles: what was built, or what that calls."""
    if isinstance(built, dict | tuple):
        return launcher_in(next(iter(built.values() if isinstance(built, dict) else built)))
    if hasattr(built, "func"):
        return built
    held = [cell.cell_contents for cell in built.__closure__ or ()]
    return next(filter(None, (launcher_in(each) for each in held if callable(each))), None)


def arguments(launcher: Any, kernel: Kernel) -> list[Any]:
    """A tensor for each tensor or pointer, a number for each number, as the launcher's annotations say."""
    torch: Any = importlib.import_module("torch")
    fx: Any = importlib.import_module("flydsl.expr")
    flyc: Any = importlib.import_module("flydsl.compiler")
    found: list[Any] = []
    for name, parameter in inspect.signature(launcher.func).parameters.items():
        kind = str(parameter.annotation)
        elements, shape = kernel.tensors.get(name, kernel.tensor).split()
        tensor = torch.zeros(
            [int(size) for size in shape.split("x")], dtype=getattr(torch, elements)
        )
        if "Tensor" in kind:
            found.append(tensor)
        elif "Pointer" in kind:
            found.append(flyc.from_c_void_p(fx.Uint8, tensor.data_ptr()))
        else:
            found.append(fx.Stream(None) if "Stream" in kind else 256)
    return found


if __name__ == "__main__":
    raise SystemExit(main())
