"""One measurement of another compiler, in an environment of its own; prints seconds as JSON.

    PYTHON bench/compile_workers.py tvm LOOPS      InjectSoftwarePipeline, processor seconds a loop
    PYTHON bench/compile_workers.py triton         the GEMM 128x128x32 of bench/triton_gemm.py to a
                                                   cubin for sm_80: import, first, later in a process

Needs nothing of this package. Triton keeps nothing: its cache is a fresh folder.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test"))


def tvm(loops: int) -> dict[str, float]:
    """Processor seconds a loop, of loops with two and with three stages, a function each."""
    from tvm_pipelines import THREE_STAGES, TWO_STAGES, inject_seconds, parsed

    inject_seconds(parsed([TWO_STAGES.function()]))
    found = {}
    for name, pipeline in (("two stages", TWO_STAGES), ("three stages", THREE_STAGES)):
        module = parsed(pipeline.function(f"f{number}") for number in range(loops))
        found[name] = min(inject_seconds(module) for _ in range(3)) / loops
    return found


def triton() -> dict[str, Any]:
    """Processor and wall seconds, processes that it starts included."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["TRITON_CACHE_DIR"] = folder
        imported = spent(lambda: __import__("triton_gemm"))
        import triton_gemm
        from triton.backends.compiler import GPUTarget
        from triton.compiler import compile as compiled

        def made(depth: int) -> Callable[[], Any]:
            source = triton_gemm.source({"types": "f16", "tile": (128, 128, depth)})
            chip = GPUTarget("cuda", 80, 32)
            options = {"num_warps": 4, "num_stages": 3}
            return lambda: compiled(source, target=chip, options=options).asm["cubin"]

        # Of another size first, which is what a process pays once; then the one to compare.
        return {"import": imported, "first": spent(made(64)), "later": spent(made(32))}


def spent(work: Callable[[], Any]) -> dict[str, float]:
    """Processor and wall seconds of one call."""
    processor, began = processor_seconds(), time.perf_counter()
    work()
    return {"processor": processor_seconds() - processor, "wall": time.perf_counter() - began}


def processor_seconds() -> float:
    """Of this process and of those that it started and that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


if __name__ == "__main__":
    which, *rest = sys.argv[1:]
    json.dump(tvm(int(rest[0])) if which == "tvm" else triton(), sys.stdout)
