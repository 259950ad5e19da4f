"""Ops that tell the hardware or a scheduler something, and do nothing here."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.machine.decode import Site
from mlir_async_pipe.machine.engine import Unit
from mlir_async_pipe.machine.registry import Execute, semantics
from mlir_async_pipe.vocabulary.memory_ops import HINTS


@semantics(*HINTS)
def nothing(site: Site) -> Execute:
    """The operands are computed, and that is all."""

    def execute(unit: Unit, *operands: Any) -> None:
        return None

    return execute
