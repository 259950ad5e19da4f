"""Takes one source through parsing, passes and printing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mlir_async_pipe import bindings
from mlir_async_pipe.diagnostics import AsyncPipeError, Diagnostic
from mlir_async_pipe.report import Session
from mlir_async_pipe.targets import Target
from mlir_async_pipe.tool import (
    mlir_diagnostics,
    parsing,
    pipeline_text,
    plan,
    printing,
    roundtrip,
    run,
    verify_diagnostics,
)
from mlir_async_pipe.tool.inputs import Source
from mlir_async_pipe.tool.options import Options, PassFlag
from mlir_async_pipe.tool.sink import Gather, Sink


@dataclass(frozen=True)
class Outcome:
    """What became of one source: the output, None if there is none, and what was recorded."""

    content: bytes | None
    session: Session


def process(source: Source, options: Options, target: Target | None, sink: Sink) -> Outcome:
    """Parse, run and print `source`; everything that is said goes to `sink`.

    With --verify-diagnostics only differences from the expectations go there.
    """
    if not options.verify_diagnostics:
        return _process(source, options, target, sink)
    gather = Gather(sink)
    outcome = _process(source, options, target, gather)
    only_expected = options.verify_diagnostics == "only-expected"
    for problem in verify_diagnostics.compare(source, gather.taken, only_expected=only_expected):
        sink.take(problem)
    return outcome


def _process(
    source: Source, options: Options, target: Target | None, sink: Sink | Gather
) -> Outcome:
    session = Session(target=target, explain=bool(options.explain))
    content = None
    try:
        content = _run(source, options, session, sink)
    except (AsyncPipeError, mlir_diagnostics.MlirErrors) as error:
        _drain(session, sink)
        for diagnostic in _diagnostics_of(error):
            sink.take(diagnostic)
    else:
        _drain(session, sink)
    return Outcome(content, session)


def _diagnostics_of(
    error: AsyncPipeError | mlir_diagnostics.MlirErrors,
) -> Sequence[Diagnostic]:
    if isinstance(error, AsyncPipeError):
        return (error.diagnostic,)
    return error.diagnostics


def _drain(session: Session, sink: Sink | Gather) -> None:
    for diagnostic in session.diagnostics.items:
        sink.take(diagnostic)


def _run(source: Source, options: Options, session: Session, sink: Sink | Gather) -> bytes | None:
    context = bindings.new_context()
    context.allow_unregistered_dialects = options.allow_unregistered_dialect
    if options.mlir_disable_threading:
        context.enable_multithreading(False)
    handler = mlir_diagnostics.forward(context, sink.take)
    try:
        return _run_in(context, source, options, session)
    finally:
        handler.detach()


def _run_in(context: Any, source: Source, options: Options, session: Session) -> bytes | None:
    root = parsing.parse(source, context, implicit_module=not options.no_implicit_module)
    if options.verify_roundtrip:
        roundtrip.verify(root, source.name)
    wants_dumps = printing.wants_dumps(options)
    steps = plan.make(
        _pipeline(options, root.operation.name, context),
        context,
        session.target,
        single=wants_dumps,
    )
    instruments: list[run.Instrument] = [printing.DumpIr(options)] if wants_dumps else []
    run.run(root, steps, session, verify_each=options.verify_each, instruments=instruments)
    return _output(root, options)


def _pipeline(options: Options, root: str, context: Any) -> pipeline_text.Nest:
    if options.pass_pipeline is not None:
        return pipeline_text.parse(options.pass_pipeline)
    flags = (PassFlag("async-pipe-check", ""),) if options.check_only else options.passes
    return plan.from_flags(flags, root, context)


def _output(root: Any, options: Options) -> bytes | None:
    if options.check_only:
        return None
    if options.emit_bytecode:
        return printing.bytecode(root)
    return printing.print_ir(root, options).encode()
