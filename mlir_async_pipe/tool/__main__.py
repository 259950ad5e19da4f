"""The process `async-pipe-opt`: exit code 0, or 1 if an error was reported or anything failed."""

from __future__ import annotations

import contextlib
import dataclasses
import gc
import json
import os
import sys
import time
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import mlir_async_pipe
from mlir_async_pipe import bindings, cache
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.diagnostics import AsyncPipeError, Diagnostic, Note, Place, UsageError
from mlir_async_pipe.session.report import Report
from mlir_async_pipe.tool import command_line, inputs, isolate, output, reproducer
from mlir_async_pipe.tool.command_line import FLAGS, MACHINE, Options
from mlir_async_pipe.tool.inputs import Source
from mlir_async_pipe.tool.isolate import Activity
from mlir_async_pipe.tool.output import Sink

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
        sink.take(with_reproducer(error.diagnostic, options.mlir_pass_pipeline_crash_reproducer))
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
            _report(options)
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
        sink.take(internal_error(error))
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
        why = f"'--emit={options.emit}' needs '--target'"
        raise UsageError(why, code="missing-target", advice="for instance --target=nvvm:sm_80")
    if options.run is None and options.validate is None:
        for flag in FLAGS:
            given = getattr(options, flag.field) != getattr(Options, flag.field)
            # Schedules have costs, too.
            if given and flag.group == MACHINE and flag.name != "cost":
                why = f"'--{flag.name}' needs '--run' or '--validate'"
                raise UsageError(why, code="bad-usage", advice="for instance --run=gemm")
    reproducer = options.mlir_pass_pipeline_crash_reproducer or "-"
    for name in (options.output, options.report_file, options.remarks_output_file, reproducer):
        output.check_writable(name)


def _process_input(options: Options, sink: Sink, activity: Activity) -> None:
    """Parse each part of the input, run the passes, print; then the report."""
    whole = inputs.read(options.input)
    sink.knows_input(whole)
    if options.pass_pipeline is not None:
        sink.knows_pipeline(options.pass_pipeline)
    key = key_of(whole, options)
    kept = find(key)
    if kept is not None:
        for diagnostic in kept.said:
            sink.take(diagnostic)
        _write(list(kept.contents), kept.reports() if options.report else [], options, sink)
        return
    if options.target is not None and options.emit != "mlir":
        # The back end's process imports its bindings while this one imports and works.
        from mlir_async_pipe.bindings import back_end_process

        back_end_process.warm_up(options.target.partition(":")[0])
    # These import the bindings, which have to be chosen first and cost most of the start.
    activity.is_now("importing the bindings")
    from mlir_async_pipe.chips.target import Target
    from mlir_async_pipe.tool.instruments import Timing
    from mlir_async_pipe.tool.process import Processed, Work

    timing = Timing(_STARTED)
    timing.add("Imports", time.perf_counter() - _STARTED)
    target = None if options.target is None else Target.parse(options.target)
    work = Work(options, target, sink, timing, activity)
    outcomes = [
        Processed(source, work).run() for source in inputs.split(whole, options.split_input_file)
    ]
    contents = [outcome.content for outcome in outcomes if outcome.content is not None]
    reports = [outcome.session.report() for outcome in outcomes] if options.report else []
    keep(key, contents, sink.taken, reports)
    if options.remarks_as_yaml:
        from mlir_async_pipe.tool import remarks

        remarks.write(outcomes, options, sink)
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
        write(reports, options, sink.lines)


def _report(options: Options) -> None:
    for write_asked in (version, list_passes, show_dialects):
        if getattr(options, write_asked.__name__):
            sys.stdout.write(write_asked())


def _call(hook: str) -> None:
    """Call `module:function`, which may register passes; raises UsageError (cannot-load)."""
    import importlib

    module_name, _, function_name = hook.partition(":")
    try:
        function = getattr(importlib.import_module(module_name), function_name)
    except (ImportError, AttributeError, ValueError) as error:
        why = f"cannot load '{hook}': {error}"
        advice = "write --load=module:function; the module is looked up as Python does it"
        raise UsageError(why, code="cannot-load", advice=advice) from None
    try:
        function()
    except Exception as error:
        why = f"'{hook}' failed: {type(error).__name__}: {error}"
        raise UsageError(why, code="cannot-load") from error


def internal_error(error: Exception) -> Diagnostic:
    """A defect of ours: one error, with the place in our source instead of a traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    place = Place(frames[-1].filename, frames[-1].lineno or 0, 1) if frames else Place()
    message = f"internal error: {type(error).__name__}: {error}"
    return Diagnostic("error", message, "internal-error", notes=(Note("raised here", place),))


def with_reproducer(crash: Diagnostic, name: str) -> Diagnostic:
    """The crash with a note on the file that repeats it, or on how to get one."""
    if name and reproducer.rescue(name):
        note = Note("this file repeats it, with --run-reproducer", Place(name))
    else:
        note = Note("--mlir-pass-pipeline-crash-reproducer=FILE writes a file that repeats it")
    return dataclasses.replace(crash, notes=(note,))


# Dialects of upstream MLIR and of the stacks that we know; the bindings cannot list theirs,
# only say whether they have one.
_KNOWN_DIALECTS = (
    "acc affine amdgpu amx arith arm_neon arm_sme arm_sve async bufferization builtin cf chlo "
    "complex cute cute_nvgpu dlti emitc fly fly_rocdl func gpu hal hlo iree_codegen iree_gpu index irdl linalg llvm "
    "math memref mhlo ml_program mosaic_gpu mpi numba_cuda nvgpu nvvm omp pdl pdl_interp ptr quant "
    "rocdl scf sdy shape shard smt sparse_tensor spirv stablehlo tensor tm_tensor torch torch_c "
    "tosa transform triton ub vcix vector wasmssa x86 x86vector xegpu xevm"
).split()


def version() -> str:
    """Our version, and the bindings' with the version of what pip installed for them."""
    # It takes longer to import than a small run.
    from importlib import metadata

    ours = f"async-pipe-opt {mlir_async_pipe.__version__}"
    try:
        stack = bindings.current()
    except AsyncPipeError:
        return f"{ours} (no MLIR Python bindings installed)\n"
    known = metadata.packages_distributions().get(stack.prefix.split(".")[0], [])
    versions = "".join(f" {metadata.version(name)}" for name in known[:1])
    return f"{ours} (bindings {stack.name}{versions})\n"


def list_passes() -> str:
    """Our passes with their options, and the names of MLIR's."""
    lines = ["Passes of this package:"]
    for name in passes.names():
        found = passes.find(name)
        lines.append(f"  --{name:28} {found.summary}")
        for option in dataclasses.fields(found.options):
            choices = "|".join(option.metadata.get("choices", ())) or str(option.type)
            lines.append(f"      {option.name.replace('_', '-')}=<{choices}>")
    lines.append("Passes of MLIR, with the options that they have in mlir-opt:")
    lines += [f"  --{name}" for name in command_line.mlir_passes(bindings.new_context())]
    return "\n".join(lines) + "\n"


def show_dialects() -> str:
    """The dialects that a context of these bindings accepts, and ours."""
    from mlir_async_pipe.vocabulary.async_ops import ASYNC_ROWS

    context = bindings.new_context()
    found = set()
    for name in _KNOWN_DIALECTS:
        with contextlib.suppress(ValueError):
            context.get_dialect_descriptor(name)
            found.add(name)
    ours = sorted({name.split(".")[0] for name in ASYNC_ROWS} - found)
    lines = [f"Available Dialects: {','.join(sorted(found))}"]
    lines.append(f"Unregistered, in generic form: {','.join(ours)}")
    return "\n".join(lines) + "\n"


def write(
    reports: Sequence[Report], options: Options, sources: Mapping[str, Sequence[str]]
) -> None:
    """Write the reports, one for each part of the input, to the report file or stderr; a page shows
    the lines of `sources`."""
    if options.report == "html":
        # Pages read the IR: which stack it is of is chosen by then.
        from mlir_async_pipe.reports.page import page

        text = page(reports, sources)
    else:
        text = (as_json if options.report == "json" else as_text)(reports)
    if options.report_file == "-":
        sys.stderr.write(text)
    else:
        output.write(options.report_file, text.encode())


def as_json(reports: Sequence[Report]) -> str:
    """One object, or an array of them if there are several reports."""
    contents = [report.to_json() for report in reports]
    return json.dumps(contents[0] if len(contents) == 1 else contents, indent=1) + "\n"


def as_text(reports: Sequence[Report]) -> str:
    """Aligned tables of the records; the diagnostics are printed as such."""
    from mlir_async_pipe.reports.page import record_tables

    lines: list[str] = []
    for number, report in enumerate(reports, start=1):
        part = f" (part {number})" if len(reports) > 1 else ""
        for kind, header, rows in record_tables(report):
            widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
            lines.append(f"{kind}{part}:")
            for row in (header, *rows):
                cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                lines.append(("  " + "  ".join(cells)).rstrip())
    return "\n".join(lines or ["nothing to report"]) + "\n"


# Whole runs of the tool, kept: the same input with the same options is not computed again.
#
# Kept is what a run without errors wrote and said. A run that looks on (dumps, timing, statistics),
# runs code of others or of the machine, or compares diagnostics is not kept. A hit imports no bindings,
# unless a report is asked for, whose records belong to passes.

# Where results go, and how they are printed, is no matter of theirs.
_NO_MATTER = ("input", "output", "report_file", "diagnostics", "cache", "isolate", "report")
# Any of them makes a run that has to run.
_HAS_TO_RUN = ("load", "run", "validate", "verify_diagnostics", "looks_on", "remarks_as_yaml")


@dataclass(frozen=True)
class KeptRun:
    """What a run left: the content of each part, what it said, and its reports, pickled."""

    contents: tuple[bytes, ...]
    said: tuple[Diagnostic, ...]
    pickled: bytes

    def reports(self) -> list[Report]:
        """The reports; this imports the passes whose records they hold."""
        import pickle

        return list(pickle.loads(self.pickled))


def key_of(whole: Source, options: Options) -> str:
    """The key of a run, "" if it is none to be kept."""
    if not options.cache or any(getattr(options, name) for name in _HAS_TO_RUN):
        return ""
    if cache.folder() is None:
        return ""
    given = dataclasses.asdict(options)
    matter: dict[str, Any] = {name: given[name] for name in given if name not in _NO_MATTER}
    # Witnesses are found for any report.
    return cache.key_of("run", whole.name, whole.content, matter, bool(options.report))


def find(key: str) -> KeptRun | None:
    """What was kept under a key."""
    found = cache.get(key) if key else None
    return found if isinstance(found, KeptRun) else None


def keep(key: str, contents: list[bytes], said: list[Diagnostic], reports: list[Report]) -> None:
    if key and not any(entry.severity == "error" for entry in said):
        import pickle

        cache.put(key, KeptRun(tuple(contents), tuple(said), pickle.dumps(reports)))


if __name__ == "__main__":
    sys.exit(main())
