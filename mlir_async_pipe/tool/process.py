"""Takes one source through parsing, passes and printing."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from mlir_async_pipe import bindings
from mlir_async_pipe.bindings.raw_ops import is_function, symbol_name, walk
from mlir_async_pipe.bindings.run_on_copy import bytes_of
from mlir_async_pipe.checker.hazards import verdict
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.pipeliner.async_pipe_pass import CHECK
from mlir_async_pipe.session import pipeline_text
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Diagnostic, PipelineError, Place
from mlir_async_pipe.session.report import Session
from mlir_async_pipe.tool import (
    execution,
    explain,
    mlir_diagnostics,
    parsing,
    pass_steps,
    printing,
    reproducer,
    verify_diagnostics,
)
from mlir_async_pipe.tool.command_line import Options, PassFlag
from mlir_async_pipe.tool.inputs import Source
from mlir_async_pipe.tool.isolate import Activity
from mlir_async_pipe.tool.output import Sink
from mlir_async_pipe.tool.pass_steps import OurStep, Step
from mlir_async_pipe.tool.timing import RULE, Timing

if TYPE_CHECKING:
    from mlir_async_pipe.lowering.lower import Lowered

SUGGEST = "async-pipe-suggest"


@dataclass(frozen=True)
class Work:
    """What stays the same for all sources of one run of the tool."""

    options: Options
    target: Target | None
    sink: Sink
    timing: Timing
    activity: Activity


@dataclass(frozen=True)
class Processed:
    """What became of one source: the output, None if there is none, what was recorded, and the error
    that refused a loop, if one did."""

    content: bytes | None
    session: Session
    functions: tuple[tuple[Place, str], ...] = ()
    refusal: Diagnostic | None = None


def process(source: Source, work: Work) -> Processed:
    """Parse, run and print `source`; every diagnostic goes to the sink.

    With --verify-diagnostics only differences from the expectations go there.
    """
    options = work.options
    reports = bool(options.explain or options.report or options.remarks_as_yaml)
    functions: tuple[tuple[Place, str], ...] = ()
    gathered: list[Diagnostic] = []

    def take(said: Diagnostic) -> None:
        if options.verify_diagnostics:
            gathered.append(work.sink.named(said))
        else:
            work.sink.take(said)

    session = Session(
        target=work.target,
        explain=bool(options.explain),
        witnesses=reports,
        hazards="warning" if options.check == "warn" else "error",
    )
    content = None
    errors: Sequence[Diagnostic] = ()
    refusal: Diagnostic | None = None
    try:
        with _context(options, take) as context:
            root = _parse(source, context, work)
            if options.remarks_as_yaml:
                functions = tuple(
                    (Place.of(op), symbol_name(op)) for op in walk(root) if is_function(op)
                )
            pipeline = _pipeline(source, options, root)
            before = None if options.validate is None else bytes_of(root)
            places = explain.selected_places(root, options.explain) if options.explain else None
            with _explained(root, options, session, places):
                last_check = _run_passes(root, pipeline, work, session)
                if reports:
                    # Most runs tell neither; it imports Python's table of HTML.
                    from mlir_async_pipe.reports.limits import record_outlines

                    record_outlines(root, session)
            validated = partial(_validated, before, root, work, session)
            if options.emit != "ptx" or not _makes_code(options):
                validated(root)
            content = _print(root, work, session, last_check, validated)
            if options.explain:
                bounds = explain.what_bounds(root, session, options.cost)
                session.diagnostics.items += explain.only(bounds, places)
            if reports:
                from mlir_async_pipe.reports.limits import name_roles

                name_roles(session)
    except AsyncPipeError as error:
        errors = (error.diagnostic,)
        if isinstance(error, PipelineError) or error.loop is not None:
            refusal = work.sink.named(error.diagnostic)
    except mlir_diagnostics.MlirErrors as error:
        errors = error.diagnostics
    session.diagnostics.items += errors
    for diagnostic in session.diagnostics.items:
        take(diagnostic)
    if options.verify_diagnostics:
        only_expected = options.verify_diagnostics == "only-expected"
        for problem in verify_diagnostics.compare(source, gathered, only_expected=only_expected):
            work.sink.take(problem)
    return Processed(content, session, functions, refusal)


@contextlib.contextmanager
def _context(options: Options, take: Callable[[Diagnostic], None]) -> Iterator[Any]:
    """A context whose diagnostics go to `take`."""
    context = bindings.new_context()
    context.allow_unregistered_dialects = options.allow_unregistered_dialect
    if options.mlir_disable_threading:
        context.enable_multithreading(False)
    handler = mlir_diagnostics.forward(context, take)
    try:
        yield context
    finally:
        handler.detach()


def _parse(source: Source, context: Any, work: Work) -> Any:
    work.activity.is_now("parsing")
    with work.timing.phase("Parser"):
        root = parsing.parse(
            reproducer.without(source), context, implicit_module=not work.options.no_implicit_module
        )
    if work.options.verify_roundtrip:
        parsing.verify(root, source.name)
    return root


def _pipeline(source: Source, options: Options, root: Any) -> pipeline_text.NestedPipeline:
    """What the source, the pipeline text or the flags ask for, in this order."""
    repeated = reproducer.required(source) if options.run_reproducer else None
    text = repeated.pipeline if repeated is not None else options.pass_pipeline
    if text is not None:
        return pipeline_text.parse(text)
    flags = options.passes
    for asked, name in ((options.check_only, CHECK), (options.suggest, SUGGEST)):
        if asked and not any(flag.name == name for flag in flags):
            flags = (*flags, PassFlag(name, ""))
    return pass_steps.from_flags(flags, root.operation.name, root.operation.context)


@contextlib.contextmanager
def _explained(
    root: Any, options: Options, session: Session, places: frozenset[Place] | None
) -> Iterator[None]:
    """Say before the block how statements are numbered, after it what was decided.

    What passes say meanwhile is kept where it concerns what --explain selects.
    """
    if not options.explain:
        yield
        return
    said = session.diagnostics.items
    said += explain.numberings(root)
    yield
    said += explain.decisions(session)
    said[:] = explain.only(said, places)


def _run_passes(
    root: Any, pipeline: pipeline_text.NestedPipeline, work: Work, session: Session
) -> Callable[[], None]:
    """Run the pipeline, all but a check at its end that code may be made beside: returns that."""
    options, context = work.options, root.operation.context
    beside = _may_check_beside(options)
    single = options.dumps or options.mlir_timing or beside
    steps = pass_steps.make(pipeline, context, _defaults(work), single=single)
    text = pass_steps.text_of(steps, pipeline.anchor)
    if options.dump_pass_pipeline:
        sys.stderr.write(f"Pass Manager with {len(steps)} steps:\n{text}\n")
    statistics = Statistics(session)
    instruments: list[pass_steps.Instrument] = []
    instruments += [printing.DumpIr(options)] if options.dumps else []
    instruments += [statistics] if options.mlir_pass_statistics else []
    instruments += [work.timing] if options.mlir_timing else []
    run_steps = partial(
        pass_steps.run,
        root,
        session=session,
        verify_each=options.verify_each,
        statistics=options.mlir_pass_statistics,
        instruments=instruments,
        begins=work.activity.is_now,
    )
    late = steps[-1:] if beside and steps and steps[-1].name == CHECK else []
    with _reproducer(root, text, options):
        proven = run_steps(steps[: len(steps) - len(late)])
    statistics.write()

    def last_check() -> None:
        # Code is made of a copy: the module is as it was.
        run_steps(late, proven=proven)
        work.activity.is_now(f"writing {options.emit}")

    return last_check


def _may_check_beside(options: Options) -> bool:
    """Whether the last check may run while the back end's process makes the code: nobody looks
    at the single steps."""
    return _makes_code(options) and not (options.looks_on or options.explain)


def _makes_code(options: Options) -> bool:
    only_asks = options.check_only or options.suggest
    return options.emit != "mlir" and options.run is None and not only_asks


def _defaults(work: Work) -> dict[str, Any]:
    """Values of the command line for options of passes that the pipeline leaves out."""
    defaults = {name: getattr(work.options, name) for name in ("smem_limit", "cluster", "cost")}
    if work.target is not None:
        defaults["chip"] = work.target.chip.name
    return {name: value for name, value in defaults.items() if value not in (None, "")}


def _reproducer(root: Any, pipeline: str, options: Options) -> contextlib.AbstractContextManager:
    name = options.mlir_pass_pipeline_crash_reproducer
    if not name:
        return contextlib.nullcontext()
    how = reproducer.Reproducer(pipeline, options.mlir_disable_threading, options.verify_each)
    text = root.operation.get_asm(enable_debug_info=True)
    return reproducer.kept_on_failure(name, text, how)


def _validated(before: bytes | None, root: Any, work: Work, session: Session, after: Any) -> None:
    """Compare the module `after`, or its PTX, with what was read, if that is asked for."""
    if before is not None:
        work.activity.is_now(f"validating @{work.options.validate}")
        with work.timing.phase("Validation"):
            was = bindings.ir.Module.parse(before, root.operation.context)
            execution.validated(was, after, work.options, session)


def _print(
    root: Any,
    work: Work,
    session: Session,
    last_check: Callable[[], None],
    validated: Callable[[Any], None],
) -> bytes | None:
    """What the options ask for: nothing, the results of a run, IR, or code, of which PTX is `validated`."""
    options = work.options
    if options.check_only:
        checks = session.report().of("checks")
        return (verdict(checks)[0] if checks else "nothing to prove: no kernel").encode() + b"\n"
    if options.suggest:
        return None
    if options.run is not None:
        work.activity.is_now(f"running @{options.run} on the machine")
        with work.timing.phase("Machine"):
            return execution.execute(root, options, session)
    work.activity.is_now(f"writing {options.emit}")
    with work.timing.phase("Output"):
        if options.emit == "mlir":
            return ir(root, options)
        session.seconds.clear()
        lowered = code(root, options, session, last_check)
    work.timing.add_parts(session.seconds)
    if lowered is None:
        return None
    if options.emit == "ptx":
        validated(lowered)
        if session.diagnostics.with_severity("error"):
            return None
    return lowered.binary or lowered.text.encode()


def ir(root: Any, options: Options) -> bytes:
    if options.emit_bytecode:
        return bytes_of(root)
    return printing.print_ir(root, options).encode()


def code(
    root: Any, options: Options, session: Session, last_check: Callable[[], None]
) -> Lowered | None:
    """Code for the session's target; None if the session has errors, before or after
    `last_check`, which does not change the IR: the back end works meanwhile.

    Raises LoweringError where the module cannot become code.
    """
    assert session.target is not None  # the command line refuses --emit without --target
    from mlir_async_pipe.lowering.lower import CodeOptions, begin

    if session.diagnostics.with_severity("error"):
        last_check()
        return None
    # A report tells what kernels need, and --explain how many blocks that leaves room for.
    told = options.report or options.explain
    asks = True if told and options.resources is None else options.resources
    how = CodeOptions(resources=asks, kept=options.cache)
    with begin(root, target=session.target, emit=options.emit, options=how) as started:
        last_check()
        if session.diagnostics.with_severity("error"):
            return None
        lowered = started.result()
    session.diagnostics.items += lowered.diagnostics
    session.seconds.update(lowered.seconds)
    for kernel in lowered.kernels:
        session.record("kernels", kernel)
    for wait in lowered.waits:
        session.record("instructions", wait)
    return lowered


class Statistics(pass_steps.Instrument):
    """Counts, as an instrument, what each step adds to the session."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._earlier: dict[str, int] = {}
        self._lines: list[str] = []

    def before(self, step: Step, root: Any) -> None:
        self._earlier = self._counts()

    def after(self, step: Step, root: Any) -> None:
        """Note what a pass of ours added; passes of MLIR print their own."""
        if not isinstance(step, OurStep):
            return
        self._lines.append(step.name)
        for kind, count in self._counts().items():
            added = count - self._earlier.get(kind, 0)
            if added:
                self._lines.append(f"  (S) {added} {kind}")

    # A failed step counts as any other.
    failed = after

    def write(self) -> None:
        """Write the statistics to stderr, if a pass of ours ran."""
        if self._lines:
            title = "... Pass statistics report ...".center(len(RULE)).rstrip()
            sys.stderr.write("\n".join([RULE, title, RULE, *self._lines]) + "\n")

    def _counts(self) -> dict[str, int]:
        counts = {kind: len(entries) for kind, entries in self._session.records.items()}
        for diagnostic in self._session.diagnostics.items:
            counts[f"{diagnostic.severity}s"] = counts.get(f"{diagnostic.severity}s", 0) + 1
        return counts
