"""Makes a folder of kernels that CuTe DSL lowers, without a GPU: scf, llvm and nvvm, before loops become blocks.

    python -m venv cute && cute/bin/pip install nvidia-cutlass-dsl numpy
    git clone --depth 1 https://github.com/NVIDIA/cutlass
    PYTHONPATH=$PWD cute/bin/python bench/foreign_cute.py cutlass/examples/python/CuTeDSL/cute FOLDER

The kernels are those of NVIDIA's examples, each compiled in a process of its own for the chip that it is
written for, with tensors that have shapes and no data. What is written is what `mlir_async_pipe.hooks.cutlass` checks.
`bench/foreign.py` reads the folder.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

# The example, the chip, and how its kernel is called in `KERNELS`.
EXAMPLES = {
    "ampere_gemm": ("ampere/kernel/dense_gemm/tensorop_gemm.py", "sm_80"),
    "sgemm": ("ampere/kernel/dense_gemm/sgemm.py", "sm_80"),
    "flash_attention": ("ampere/kernel/attention/flash_attention_v2.py", "sm_80"),
    "hopper_gemm": ("hopper/kernel/dense_gemm/dense_gemm.py", "sm_90a"),
    "blackwell_gemm": ("blackwell/tutorial/tutorial_gemm/fp16_gemm_0.py", "sm_100a"),
}


def tensors(module: Any, name: str) -> tuple[Any, ...]:
    """What `cute.compile` is given for one example."""
    import cutlass
    from cutlass.cute.runtime import make_fake_compact_tensor as fake
    from cutlass.runtime import make_fake_stream

    f16, f32 = cutlass.Float16, cutlass.Float32

    def matrix(kind: Any, *shape: int, order: tuple[int, ...]) -> Any:
        return fake(kind, shape, stride_order=order, assumed_align=16)

    batched = {"order": (1, 0, 2)}
    if name == "sgemm":
        parts = ((2048, 1024), (2048, 1024), (2048, 2048))
        return (module.SGemm(), *(matrix(f32, *shape, order=(1, 0)) for shape in parts))
    if name == "blackwell_gemm":
        parts = ((2048, 1024), (2048, 1024), (2048, 2048))
        return (module.host_function, *(matrix(f16, *shape, order=(1, 0)) for shape in parts))
    if name == "flash_attention":
        heads = [matrix(f16, 1, 1024, 4, 128, order=(3, 2, 1, 0)) for _ in range(4)]
        kernel = module.FlashAttentionForwardAmpere(128, 128, 128, 128, False)
        return (kernel, *heads, 0.1, make_fake_stream())
    parts = ((2048, 1024, 1), (2048, 1024, 1), (2048, 2048, 1))
    operands = [matrix(f16, *shape, **batched) for shape in parts]
    if name == "hopper_gemm":
        kernel = module.HopperWgmmaGemmKernel(f32, (128, 128), (1, 1))
    else:
        kernel = module.TensorOpGemm(f16, f16, f32, (2, 2, 1), False)
    return (kernel, *operands, make_fake_stream())


def make(examples: Path, name: str, out: Path) -> None:
    """Compile one example, and keep its module on the way."""
    import cutlass.cute as cute

    import mlir_async_pipe

    class Keep(mlir_async_pipe.hooks.cutlass):  # type: ignore[misc, name-defined]
        def _check(self, kernel: str, target: str, read: Callable[[], Any]) -> None:
            out.write_text(read().get_asm(enable_debug_info=False))

    path, _ = EXAMPLES[name]
    sys.path.insert(0, str(examples / Path(path).parent))
    spec = importlib.util.spec_from_file_location(name, examples / path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    with Keep():
        cute.compile(*tensors(module, name))


def main() -> None:
    """Each example in a process of its own: the chip is read when CuTe is imported."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("examples", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--one", choices=EXAMPLES, help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.folder.mkdir(parents=True, exist_ok=True)
    if options.one:
        make(options.examples, options.one, options.folder / f"{options.one}.mlir")
        return
    for name, (_, chip) in EXAMPLES.items():
        command = [
            sys.executable,
            __file__,
            str(options.examples),
            str(options.folder),
            "--one",
            name,
        ]
        settings = {"CUTE_DSL_ARCH": chip, "CUTE_DSL_DISABLE_FILE_CACHING": "1"}
        done = subprocess.run(
            command, env={**os.environ, **settings}, text=True, capture_output=True
        )
        # The last step, for which there is no GPU, may fail when the file is there.
        written = (options.folder / f"{name}.mlir").exists()
        print(name, "written" if written else done.stderr.strip().splitlines()[-1:])


if __name__ == "__main__":
    main()
