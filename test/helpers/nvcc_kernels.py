"""Kernels from files of PTX that nvcc wrote, and what the checker says of one."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

from mlir_async_pipe import check
from mlir_async_pipe.bindings import new_context
from mlir_async_pipe.ptx.raise_ptx import raise_ptx


@cache
def kernels_of(name: str) -> dict[str, str]:
    """Each kernel of a file in helpers/cuda, with the head of the file."""
    text = (Path(__file__).parent / "cuda" / name).read_text()
    head, *parts = text.split("\t// .globl\t")
    return {part.split("\n", 1)[0].strip(): head + part.split("\n", 1)[1] for part in parts}


def verdict(text: str, **promises: Any) -> str:
    """Says "proven", "unknown" or "unsafe", of the only kernel of a text."""
    report = check(raise_ptx(text, new_context(), "kernels.ptx"), "nvvm:sm_90a", **promises)
    (summary,) = report.of("checks")
    return "unsafe" if summary.unsafe else "unknown" if summary.unknown else "proven"
