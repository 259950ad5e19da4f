"""The Python calls: `pipeline`, `count_waits`, `check`, `lower`, on anybody's module.

    report = mlir_async_pipe.pipeline(module, target="nvvm:sm_80")

`module` is an ir.Module or a module op of the bindings in use; its context has to allow
unregistered dialects where the abstract ops of `async_pipe` occur. Handles to ops inside of
functions are dead after a call that rewrote the module, as after any pass; after an error they live.
"""

from __future__ import annotations

import importlib
from typing import Any

from mlir_async_pipe import passes
from mlir_async_pipe.diagnostics import AsyncPipeError, Diagnostic, HazardError
from mlir_async_pipe.report import Report, Session
from mlir_async_pipe.targets import Target


def pipeline(module: Any, target: Target | str | None = None, **options: Any) -> Report:
    """Pipeline all annotated loops, count their waits exactly and check the result.

    `options` are those of the pass `async-pipe` (num_stages, smem_limit, check). The report
    holds remarks and records. On an error the module is as it was. Raises AsyncPipeError, HazardError if the result may race.
    """
    return _rewrite("async-pipe", module, target, options)


def count_waits(module: Any, target: Target | str | None = None, **options: Any) -> Report:
    """Give every token wait its exact count of groups that may stay in flight.

    `options` are those of the pass `async-pipe-count-waits`. On an error the module is as it
    was. Raises AsyncPipeError.
    """
    return _rewrite("async-pipe-count-waits", module, target, options)


def check(module: Any, target: Target | str | None = None, **options: Any) -> Report:
    """Check every access against every async op that may be in flight; the module stays as it is.

    Hazards are errors among the report's diagnostics, nothing is raised for them. `options`
    are those of the pass `async-pipe-check`.
    """
    # The stack is chosen when the pass is imported, so that use("…") can come first.
    from mlir_async_pipe.one_shot import CHECK, run_check

    session = Session(target=_target(target))
    run_check(module.operation, _options(CHECK, options, session), session)
    return session.report()


def lower(module: Any, *, target: Target | str, emit: str = "ptx", **options: Any) -> Any:
    """Lower a module to a target and emit code; see `targets.lower.lower`."""
    lowering = importlib.import_module("mlir_async_pipe.targets.lower")
    return lowering.lower(module, target=_target(target), emit=emit, **options)


def _rewrite(
    name: str, module: Any, target: Target | str | None, options: dict[str, Any]
) -> Report:
    """Run a pass on a copy, which the module becomes if that went well."""
    # Like the passes, this needs the bindings, which may be chosen until the first call.
    from mlir_async_pipe.run_on_copy import run_on_copy

    return run_on_copy(module.operation, lambda copy: _run(name, copy, target, options))


def _run(name: str, op: Any, target: Target | str | None, options: dict[str, Any]) -> Report:
    session = Session(target=_target(target))
    passes.find(name).run(op, _options(name, options, session), session)
    errors = session.diagnostics.with_severity("error")
    if errors:
        raise _as_error(errors[0])
    return session.report()


def _options(name: str, options: dict[str, Any], session: Session) -> Any:
    found = passes.find(name)
    text = " ".join(f"{key}={_text(value)}" for key, value in options.items())
    values = {} if session.target is None else {"chip": session.target.chip.name}
    return passes.with_defaults(passes.parse_options(found, text), values)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _target(target: Target | str | None) -> Target | None:
    return Target.parse(target) if isinstance(target, str) else target


def _as_error(found: Diagnostic) -> AsyncPipeError:
    notes = tuple((note.message, note.place) for note in found.notes)
    return HazardError(found.message, code=found.code, at=found.place, notes=notes)
