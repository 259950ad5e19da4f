"""Kernels @f(%A, %B) of one warp with three stages, which give what they give as written."""

from __future__ import annotations

from typing import Any

import numpy as np

from mlir_async_pipe import machine, pipeline
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.chips.target import Target

SM_80 = Target.parse("nvvm:sm_80")


def pipelined_and_run(text: str) -> tuple[Any, Any]:
    """The module, pipelined, and its report; after it ran as the program does, whenever copies
    arrive. Asks for a context."""
    given = np.arange(1, 1025, dtype=np.float32)
    options = {"threads": (32, 1, 1), "target": SM_80, "dynamic_shared_bytes": 4096}
    before = machine.run(ir.Module.parse(text), "f", [given, given * 0], **options)
    module = ir.Module.parse(text)
    report = pipeline(module, SM_80)
    for completion in ("eager", "late", "random:3"):
        after = machine.run(module, "f", [given, given * 0], completion=completion, **options)
        assert after.races == ()
        np.testing.assert_array_equal(after.arrays[1], before.arrays[1])
    assert before.arrays[1].any()
    return module, report
