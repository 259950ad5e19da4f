"""Compiles kernels in a process that has Numba's language, whose values are not plain ones.

python numba_child.py [{"num_stages": …, "kernels": […], …}]     JSON of what came of each kernel
"""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]

EXAMPLES = ROOT / "examples" / "embedding"


@cache
def compiled(options: str = "{}") -> dict[str, dict[str, Any]]:
    """What the hook makes of each kernel of an example, numba_kernels, with `options` as JSON."""
    done = subprocess.run(
        [sys.executable, __file__, options], capture_output=True, text=True, cwd=ROOT, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, dict[str, Any]] = json.loads(done.stdout)
    return found


def main(options: dict[str, Any]) -> None:
    """The child's side."""
    sys.path.insert(0, str(EXAMPLES))
    from numba_cuda_mlir.cuda import compile_ptx

    import mlir_async_pipe
    from mlir_async_pipe.session.report import to_json

    found = {}
    num_stages = options.get("num_stages", 3)
    kernels = importlib.import_module(options.get("example", "numba_kernels")).KERNELS
    for name in options.get("kernels", kernels):
        kernel, signature, threads, *grids = kernels[name]
        threads = threads if options.get("threads", True) else None
        grid = grids[0] if grids and options.get("grid", True) else None
        grid = options.get("grids", {}).get(name, grid)
        noalias = options.get("noalias", False)
        with mlir_async_pipe.hooks.numba_cuda_mlir(
            num_stages, threads=threads, grid=grid, noalias=noalias
        ) as hook:
            try:
                ptx, error = compile_ptx(kernel, signature, cc=(8, 0))[0], ""
            except Exception as raised:  # the stack's own step may have no toolkit here
                ptx, error = "", repr(raised)
        (made,) = hook.reports
        found[name] = {
            "ptx": ptx,
            "error": error,
            "loops": made.loops,
            "before": made.before,
            "module": made.module,
            "codes": [entry.code for entry in made.diagnostics],
            "said": "\n".join(map(str, made.diagnostics)),
            "unknown": sorted({h.reason for h in made.report.of("hazards")} if made.report else ()),
            "counts": [w["count"] for w in to_json(made.report.of("waits") if made.report else ())],
        }
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT / "test"))
    main(json.loads(sys.argv[1]))
