"""What `async-pipe-expand` makes of a module in which something was repeated, with and without plans
that are shared."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mlir_async_pipe import passes
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import AsyncPipeError
from mlir_async_pipe.session.report import Session


def expanded(text: str, repeat: Callable[[Any], None], share: bool) -> str:
    """What is printed, places included, and told."""
    with new_context() as context, ir.Location.unknown():
        context.allow_unregistered_dialects = True
        module = ir.Module.parse(text)
        repeat(module)
        module = ir.Module.parse(module.operation.get_asm(assume_verified=True))
        session = Session()
        try:
            schedule = passes.find("async-pipe-schedule")
            schedule.run(module.operation, schedule.options(), session)
            expand = passes.find("async-pipe-expand")
            expand.run(module.operation, expand.options(share_plans=share), session)
        except AsyncPipeError as error:
            return f"{error}\n{session.diagnostics.items}"
        assert module.operation.verify()
        printed = module.operation.get_asm(enable_debug_info=True)
        return f"{printed}\n{session.diagnostics.items}\n{session.records}"
