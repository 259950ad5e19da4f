"""Compiles the flydsl kernels of the example in a process of their own, down to assembly.

    python flydsl_child.py [{"num_stages": …, "noalias": …, "one_by_one": …}]     JSON

The stack imports torch, of which compiling needs the names of types only, and ends with ROCm's
linker; the last pass is replaced by one that stops at assembly.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import types
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples" / "embedding"
TYPES = "float16 bfloat16 float32 float64 bool uint8 int8 int16 int32 int64"


@cache
def compiled(options: str = "{}") -> dict[str, dict[str, Any]]:
    """What the hook makes of each kernel of the example, with `options` as JSON."""
    environment = {
        **os.environ, "COMPILE_ONLY": "1", "ARCH": "gfx950", "FLYDSL_RUNTIME_ENABLE_CACHE": "0",
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, __file__, options],
        capture_output=True, text=True, cwd=ROOT, timeout=300, env=environment,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
    return found


def stand_in_for_torch() -> None:
    """Types by name, for a process that has no torch."""
    torch = types.ModuleType("torch")
    for name in TYPES.split():
        setattr(torch, name, f"torch.{name}")
    torch.Tensor = type("Tensor", (), {})  # type: ignore[attr-defined]
    stream = type("Stream", (), {})
    torch.cuda = types.SimpleNamespace(Stream=stream)  # type: ignore[attr-defined]
    sys.modules["torch"] = torch


def lower_rest(text: str, jit_function: Any) -> None:
    """Hand a module to what the stack does from where loops go, as if its own passes had made it."""
    from flydsl._mlir import ir
    from flydsl.compiler.backends import get_backend

    from mlir_async_pipe.bindings import new_context

    fragments, binary = get_backend()._pipeline_parts(compile_hints={})
    first = next(n for n, part in enumerate(fragments) if part.startswith("gpu.module(convert-scf"))
    with new_context() as context, ir.Location.unknown(context):
        module = ir.Module.parse(text)
        options = {"verifier": True, "print_after_all": False}
        jit_function._run_pipeline(module, fragments[first:], **options)
        jit_function._run_pipeline(module, [binary], **options)


def main(options: dict[str, Any]) -> None:
    """The child's side."""
    try:
        import torch  # noqa: F401
    except ModuleNotFoundError:
        stand_in_for_torch()
    sys.path.insert(0, str(EXAMPLES))
    import flydsl_kernels
    from flydsl.compiler import jit_function

    import mlir_async_pipe

    original = jit_function._run_pipeline
    assembly = []

    def without_linker(module: Any, fragments: list[str], **given: Any) -> None:
        last = fragments[-1].startswith("gpu-module-to-binary")
        original(module, fragments[:-1] if last else fragments, **given)
        if last:
            original(module, ["gpu-module-to-binary{format=isa}"], **given)
            assembly.append(str(module).replace("\\0A", "\n").replace("\\09", "\t"))

    jit_function._run_pipeline = without_linker
    hook = mlir_async_pipe.hooks.flydsl(
        options.get("num_stages", 3), noalias=options.get("noalias", True)
    )
    with hook:
        if "module" in options:
            lower_rest(options["module"], jit_function)
        else:
            flydsl_kernels.compile_all()
    assert jit_function._run_pipeline is without_linker
    found = {
        made.kernel: {
            "loops": made.loops,
            "codes": [entry.code for entry in made.diagnostics],
            "lines": [entry.place.line for entry in made.diagnostics],
            "before": made.before,
            "module": made.module,
            "isa": isa,
        }
        for made, isa in zip(hook.reports, assembly, strict=True)
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
