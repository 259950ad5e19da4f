"""Takes one source through parsing, passes and printing."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Self

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
    reproducer,
    verify_diagnostics,
)
from mlir_async_pipe.tool.command_line import Options, PassFlag
from mlir_async_pipe.tool.inputs import Source
from mlir_async_pipe.tool.instruments import DumpIr, Statistics, Timing, print_ir
from mlir_async_pipe.tool.isolate import Activity
from mlir_async_pipe.tool.output import Sink

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


class Processed:
    """One source on its way through parsing, passes and printing, and what became of it.

    `content` is the output, None if there is none; `session` has what was said and recorded; `functions` are the
    places and names of the functions, for YAML remarks; `refusal` is the error that refused a loop, if one did."""

    def __init__(self, source: Source, work: Work) -> None:
        self._source, self._work, self._options = source, work, work.options
        # The records are shown to somebody.
        self._tells = bool(
            work.options.explain or work.options.report or work.options.remarks_as_yaml
        )
        self._gathered: list[Diagnostic] = []
        self.session = Session(
            target=work.target,
            explain=bool(work.options.explain),
            witnesses=self._tells,
            hazards="warning" if work.options.check == "warn" else "error",
        )
        self.content: bytes | None = None
        self.functions: tuple[tuple[Place, str], ...] = ()
        self.refusal: Diagnostic | None = None

    def run(self) -> Self:
        """Parse, run and print; every diagnostic goes to the sink. With --verify-diagnostics only differences from
        the expectations go there."""
        errors: Sequence[Diagnostic] = ()
        try:
            with self._context() as context:
                self.content = self._process(context)
        except AsyncPipeError as error:
            errors = (error.diagnostic,)
            if isinstance(error, PipelineError) or error.loop is not None:
                self.refusal = self._work.sink.named(error.diagnostic)
        except mlir_diagnostics.MlirErrors as error:
            errors = error.diagnostics
        self.session.diagnostics.items += errors
        for diagnostic in self.session.diagnostics.items:
            self._take(diagnostic)
        if self._options.verify_diagnostics:
            only = self._options.verify_diagnostics == "only-expected"
            for problem in verify_diagnostics.compare(
                self._source, self._gathered, only_expected=only
            ):
                self._work.sink.take(problem)
        return self

    def _take(self, said: Diagnostic) -> None:
        sink = self._work.sink
        if self._options.verify_diagnostics:
            self._gathered.append(sink.named(said))
        else:
            sink.take(said)

    @contextlib.contextmanager
    def _context(self) -> Iterator[Any]:
        """A context whose diagnostics are taken."""
        context = bindings.new_context()
        context.allow_unregistered_dialects = self._options.allow_unregistered_dialect
        if self._options.mlir_disable_threading:
            context.enable_multithreading(False)
        handler = mlir_diagnostics.forward(context, self._take)
        try:
            yield context
        finally:
            handler.detach()

    def _process(self, context: Any) -> bytes | None:
        options, said = self._options, self.session.diagnostics.items
        root = self._parse(context)
        if options.remarks_as_yaml:
            functions = filter(is_function, walk(root))
            self.functions = tuple((Place.of(op), symbol_name(op)) for op in functions)
        pipeline = self._pipeline(root)
        before = None if options.validate is None else bytes_of(root)
        places = explain.selected_places(root, options.explain) if options.explain else None
        if options.explain:
            said += explain.numberings(root)
        last_check = self._run_passes(root, pipeline)
        if self._tells:
            # Most runs do not; it imports what the costs are.
            from mlir_async_pipe.reports.limits import name_roles, record_outlines

            record_outlines(root, self.session)
        if options.explain:
            said += explain.decisions(self.session)
            # What passes said meanwhile is kept where it concerns what is selected.
            said[:] = explain.only(said, places)
        validated = partial(self._validated, before, root)
        if options.emit != "ptx" or not _makes_code(options):
            validated(root)
        content = self._print(root, last_check, validated)
        if options.explain:
            bounds = explain.what_bounds(root, self.session, options.cost)
            said += explain.only(bounds, places)
        if self._tells:
            name_roles(self.session)
        return content

    def _parse(self, context: Any) -> Any:
        self._work.activity.is_now("parsing")
        implicit = not self._options.no_implicit_module
        with self._work.timing.phase("Parser"):
            source = reproducer.without(self._source)
            root = parsing.parse(source, context, implicit_module=implicit)
        if self._options.verify_roundtrip:
            parsing.verify(root, source.name)
        return root

    def _pipeline(self, root: Any) -> pipeline_text.NestedPipeline:
        """What the source, the pipeline text or the flags ask for, in this order."""
        options = self._options
        text = options.pass_pipeline
        if options.run_reproducer:
            text = reproducer.required(self._source).pipeline
        if text is not None:
            return pipeline_text.parse(text)
        flags = options.passes
        for asked, name in ((options.check_only, CHECK), (options.suggest, SUGGEST)):
            if asked and not any(flag.name == name for flag in flags):
                flags = (*flags, PassFlag(name, ""))
        return pass_steps.from_flags(flags, root.operation.name, root.operation.context)

    def _run_passes(self, root: Any, pipeline: pipeline_text.NestedPipeline) -> Callable[[], None]:
        """Run the pipeline, all but a check at its end that code may be made beside, while nobody looks at the single
        steps: returns that."""
        options, activity = self._options, self._work.activity
        beside = _makes_code(options) and not (options.looks_on or options.explain)
        single = options.dumps or options.mlir_timing or beside
        context = root.operation.context
        steps = pass_steps.make(pipeline, context, self._defaults(), single=single)
        text = pass_steps.text_of(steps, pipeline.anchor)
        if options.dump_pass_pipeline:
            sys.stderr.write(f"Pass Manager with {len(steps)} steps:\n{text}\n")
        statistics = Statistics(self.session)
        instruments: list[pass_steps.Instrument] = []
        instruments += [DumpIr(options)] if options.dumps else []
        instruments += [statistics] if options.mlir_pass_statistics else []
        instruments += [self._work.timing] if options.mlir_timing else []
        run_steps = partial(
            pass_steps.run,
            root,
            session=self.session,
            verify_each=options.verify_each,
            statistics=options.mlir_pass_statistics,
            instruments=instruments,
            begins=activity.is_now,
        )
        late = steps[-1:] if beside and steps and steps[-1].name == CHECK else []
        with self._reproducer(root, text):
            proven = run_steps(steps[: len(steps) - len(late)])
        statistics.write()

        def last_check() -> None:
            # Code is made of a copy: the module is as it was.
            run_steps(late, proven=proven)
            activity.is_now(f"writing {options.emit}")

        return last_check

    def _defaults(self) -> dict[str, Any]:
        """Values of the command line for options of passes that the pipeline leaves out."""
        names = ("smem_limit", "cluster", "cost")
        defaults = {name: getattr(self._options, name) for name in names}
        if self._work.target is not None:
            defaults["chip"] = self._work.target.chip.name
        return {name: value for name, value in defaults.items() if value not in (None, "")}

    def _reproducer(self, root: Any, pipeline: str) -> contextlib.AbstractContextManager:
        options = self._options
        name = options.mlir_pass_pipeline_crash_reproducer
        if not name:
            return contextlib.nullcontext()
        how = reproducer.Reproducer(pipeline, options.mlir_disable_threading, options.verify_each)
        text = root.operation.get_asm(enable_debug_info=True)
        return reproducer.kept_on_failure(name, text, how)

    def _validated(self, before: bytes | None, root: Any, after: Any) -> None:
        """Compare the module `after`, or its PTX, with what was read, if that is asked for."""
        if before is not None:
            self._work.activity.is_now(f"validating @{self._options.validate}")
            with self._work.timing.phase("Validation"):
                was = bindings.ir.Module.parse(before, root.operation.context)
                execution.validated(was, after, self._options, self.session)

    def _print(
        self, root: Any, last_check: Callable[[], None], validated: Callable[[Any], None]
    ) -> bytes | None:
        """What the options ask for: nothing, the results of a run, IR, or code, of which PTX is `validated`."""
        options, session, work = self._options, self.session, self._work
        if options.check_only:
            checks = session.report().of("checks")
            proof = verdict(checks)[0] if checks else "nothing to prove: no kernel"
            return f"{proof}\n".encode()
        if options.suggest:
            return None
        if options.run is not None:
            work.activity.is_now(f"running @{options.run} on the machine")
            with work.timing.phase("Machine"):
                return execution.execute(root, options, session)
        work.activity.is_now(f"writing {options.emit}")
        with work.timing.phase("Output"):
            if options.emit == "mlir":
                if options.emit_bytecode:
                    return bytes_of(root)
                return print_ir(root, options).encode()
            session.seconds.clear()
            lowered = self._code(root, last_check)
        work.timing.add_parts(session.seconds)
        if lowered is None:
            return None
        if options.emit == "ptx":
            validated(lowered)
            if session.diagnostics.with_severity("error"):
                return None
        return lowered.binary or lowered.text.encode()

    def _code(self, root: Any, last_check: Callable[[], None]) -> Lowered | None:
        """Code for the session's target; None if the session has errors, before or after
        `last_check`, which does not change the IR: the back end works meanwhile.

        Raises LoweringError where the module cannot become code."""
        options, session = self._options, self.session
        assert session.target is not None  # the command line refuses --emit without --target
        from mlir_async_pipe.lowering.lower import CodeOptions, begin

        if session.diagnostics.with_severity("error"):
            last_check()
            return None
        # A report tells what kernels need, and --explain how many blocks that leaves room for.
        wanted = options.report or options.explain
        asks = True if wanted and options.resources is None else options.resources
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


def _makes_code(options: Options) -> bool:
    only_asks = options.check_only or options.suggest
    return options.emit != "mlir" and options.run is None and not only_asks
