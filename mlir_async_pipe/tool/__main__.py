"""The process `async-pipe-opt`: exit code 0, or 1 if an error was reported or anything failed."""

from __future__ import annotations

import gc
import os
import sys
import time
import traceback
from collections.abc import Sequence

from mlir_async_pipe import bindings
from mlir_async_pipe.bindings import back_ends
from mlir_async_pipe.session.diagnostics import (
    AsyncPipeError,
    Diagnostic,
    Place,
    UsageError,
)
from mlir_async_pipe.session.report import Report
from mlir_async_pipe.tool import command_line, failures, inputs, isolate, kept_runs, output
from mlir_async_pipe.tool.isolate import Activity
from mlir_async_pipe.tool.options import Options
from mlir_async_pipe.tool.sink import Sink

# When the process began: what it has computed so far is about the time that has passed.
_STARTED = time.perf_counter() - time.process_time()


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the tool with `arguments` (those of the process by default); returns the exit code."""
    words = sys.argv[1:] if arguments is None else arguments
    if arguments is None:
        # Most runs end before collecting cycles would pay: 4 % of a GEMM's time down to PTX.
        gc.set_threshold(1_000_000)
    try:
        options = command_line.parse(words)
    except AsyncPipeError as error:
        sink = Sink(command_line.diagnostics_style(words))
        sink.take(error.diagnostic)
        return sink.finish()
    if not (options.isolate and isolate.can_isolate()):
        return _guarded(options, Activity())
    try:
        return isolate.run(lambda activity: _guarded(options, activity), Place(options.input))
    except isolate.CrashError as error:
        sink = Sink(options.diagnostics)
        sink.take(
            failures.with_reproducer(error.diagnostic, options.mlir_pass_pipeline_crash_reproducer)
        )
        return sink.finish()


def _guarded(options: Options, activity: Activity) -> int:
    """Do what the options say; no exception leaves."""
    sink = Sink(options.diagnostics, shows_ops=options.mlir_print_op_on_diagnostic)
    try:
        _choose_bindings(options)
        if options.help_list:
            sys.stdout.write(command_line.help_list())
        elif options.print_completion:
            sys.stdout.write(command_line.completion(options.print_completion))
        elif options.version or options.list_passes or options.show_dialects:
            _tell(options)
        else:
            _check_usage(options)
            _process_input(options, sink, activity)
    except AsyncPipeError as error:
        sink.take(error.diagnostic)
    except KeyboardInterrupt:
        sink.take(Diagnostic("error", "interrupted", "interrupted"))
    except Exception as error:
        if not options.isolate:
            traceback.print_exc()
        sink.take(failures.internal_error(error))
    return sink.finish()


def _choose_bindings(options: Options) -> None:
    # This process is ours alone, so the DSL around the bindings need not be imported.
    bindings.allow_stub_parents()
    if not options.load:
        bindings.without_op_classes()
    if not options.load and options.run is None:
        # NumPy's import starts a thread a core for matrix products, which only the machine makes;
        # the back end's process inherits this.
        os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    if options.bindings is not None:
        bindings.use(options.bindings, stub_parents=True)
    for hook in options.load:
        _call(hook)


def _check_usage(options: Options) -> None:
    if options.emit != "mlir" and options.target is None:
        raise UsageError(
            f"'--emit={options.emit}' needs '--target'",
            code="missing-target",
            advice="for instance --target=nvvm:sm_80",
        )
    if options.timeline and options.run is None:
        raise UsageError(
            "'--timeline' needs '--run'", code="bad-usage", advice="for instance --run=gemm"
        )
    reproducer = options.mlir_pass_pipeline_crash_reproducer or "-"
    for name in (options.output, options.report_file, reproducer):
        output.check_writable(name)


def _process_input(options: Options, sink: Sink, activity: Activity) -> None:
    """Parse each part of the input, run the passes, print; then the report."""
    whole = inputs.read(options.input)
    sink.knows_input(whole)
    if options.pass_pipeline is not None:
        sink.knows_pipeline(options.pass_pipeline)
    key = kept_runs.key_of(whole, options)
    kept = kept_runs.find(key)
    if kept is not None:
        for diagnostic in kept.said:
            sink.take(diagnostic)
        _write(list(kept.contents), kept.reports() if options.report else [], options, sink)
        return
    if options.target is not None and options.emit != "mlir":
        # The back end's process imports its bindings while this one imports and works.
        back_ends.warm_up(options.target.partition(":")[0])
    # These import the bindings, which have to be chosen first and cost most of the start.
    activity.is_now("importing the bindings")
    from mlir_async_pipe.chips.target import Target
    from mlir_async_pipe.tool.process import Work, process
    from mlir_async_pipe.tool.timing import Timing

    timing = Timing(_STARTED)
    timing.add("Imports", time.perf_counter() - _STARTED)
    target = None if options.target is None else Target.parse(options.target)
    work = Work(options, target, sink, timing, activity)
    outcomes = [process(source, work) for source in inputs.split(whole, options.split_input_file)]
    contents = [outcome.content for outcome in outcomes if outcome.content is not None]
    reports = [outcome.session.report() for outcome in outcomes] if options.report else []
    kept_runs.keep(key, contents, sink.taken, reports)
    _write(contents, reports, options, sink)
    if options.mlir_timing:
        timing.write()


def _write(contents: list[bytes], reports: list[Report], options: Options, sink: Sink) -> None:
    """Write what the parts of the input became, and the reports on them."""
    if contents and not sink.failed:
        separator = f"{options.output_split_marker}\n".encode()
        output.write(options.output, separator.join(contents))
    if options.report:
        # It imports the bindings, too.
        from mlir_async_pipe.tool import report_writer

        report_writer.write(reports, options, sink.lines)


def _tell(options: Options) -> None:
    from mlir_async_pipe.tool import listing

    if options.version:
        sys.stdout.write(listing.version())
    if options.list_passes:
        sys.stdout.write(listing.list_passes())
    if options.show_dialects:
        sys.stdout.write(listing.show_dialects())


def _call(hook: str) -> None:
    """Call `module:function`, which may register passes; raises UsageError (cannot-load)."""
    import importlib

    module_name, _, function_name = hook.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            f"cannot load '{hook}': {error}",
            code="cannot-load",
            advice="write --load=module:function; the module is looked up as Python does it",
        ) from None
    try:
        function()
    except Exception as error:
        raise UsageError(
            f"'{hook}' failed: {type(error).__name__}: {error}", code="cannot-load"
        ) from error


if __name__ == "__main__":
    sys.exit(main())
