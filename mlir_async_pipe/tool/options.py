"""The command line: mlir-opt's names and ours, read into one frozen `Options`.

A flag that is no option is a pass, as in mlir-opt: `--cse`, `--async-pipe-expand=chip=sm_80`,
and passes run in the order in which they stand. Options may be written with one dash or two;
a switch may carry a value (`--verify-each=false`) but never takes the next word, so that
`--split-input-file gemm.mlir` names a file.
"""

from __future__ import annotations

import argparse
import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from mlir_async_pipe.session.diagnostics import UsageError

EMIT_KINDS = ("mlir", "llvm", "ptx", "cubin", "isa", "hsaco")
DIAGNOSTIC_FORMATS = ("text", "json", "sarif", "github")
REPORT_FORMATS = ("text", "json", "html")
DEFAULT_SPLIT_MARKER = "// -----"


@dataclass(frozen=True)
class PassFlag:
    """One pass asked for by a flag: its name and the text of its options."""

    name: str
    options: str


@dataclass(frozen=True)
class Options:
    """Everything that the command line says; field names are the flags' names.

    Switches are bool. `split_input_file` is the marker to split at, "" for no splitting;
    `explain` is "" (no), "true" (yes), the name of a function or the line of a loop.
    """

    input: str = "-"
    output: str = "-"
    pass_pipeline: str | None = None
    passes: tuple[PassFlag, ...] = ()
    load: tuple[str, ...] = ()
    # reading
    split_input_file: str = ""
    output_split_marker: str = DEFAULT_SPLIT_MARKER
    allow_unregistered_dialect: bool = True
    no_implicit_module: bool = False
    run_reproducer: bool = False
    # running
    verify_each: bool = True
    verify_diagnostics: str = ""
    verify_roundtrip: bool = False
    mlir_disable_threading: bool = False
    mlir_pass_pipeline_crash_reproducer: str = ""
    isolate: bool = True
    # printing
    mlir_print_ir_before: tuple[str, ...] = ()
    mlir_print_ir_after: tuple[str, ...] = ()
    mlir_print_ir_before_all: bool = False
    mlir_print_ir_after_all: bool = False
    mlir_print_ir_after_change: bool = False
    mlir_print_ir_after_failure: bool = False
    mlir_print_ir_module_scope: bool = False
    mlir_print_op_generic: bool = False
    mlir_print_debuginfo: bool = False
    mlir_pretty_debuginfo: bool = False
    mlir_print_local_scope: bool = False
    mlir_elide_elementsattrs_if_larger: int | None = None
    mlir_timing: bool = False
    mlir_pass_statistics: bool = False
    dump_pass_pipeline: bool = False
    emit_bytecode: bool = False
    # asking
    list_passes: bool = False
    show_dialects: bool = False
    version: bool = False
    # ours
    target: str | None = None
    emit: str = "mlir"
    bindings: str | None = None
    explain: str = ""
    report: str = ""
    report_file: str = "-"
    smem_limit: int | None = None
    check: str = "error"
    check_only: bool = False
    suggest: bool = False
    diagnostics: str = "text"
    # the machine
    run: str | None = None
    arg: tuple[str, ...] = ()
    threads: str = ""
    grid: str = "1"
    completion: str = "eager"
    schedule: str = "lockstep"
    run_output: str = ""
    timeline: str = ""
    cost: str = ""


@dataclass(frozen=True)
class _Flag:
    """How one option is written: `bare` is its value without "=", None if it needs one."""

    name: str
    help: str
    metavar: str = ""
    bare: str | None = None
    choices: tuple[str, ...] = ()
    repeated: bool = False
    group: str = ""


_MLIR = "as in mlir-opt"
_OURS = "of this tool"
_MACHINE = "of the machine (--run)"
_SWITCH = "true"


def _switch(name: str, text: str, group: str = _MLIR) -> _Flag:
    return _Flag(name, text, bare=_SWITCH, choices=("true", "false"), group=group)


_FLAGS: tuple[_Flag, ...] = (
    _Flag("pass-pipeline", "passes as text, ours and MLIR's mixed", "PIPELINE", group=_MLIR),
    _Flag(
        "split-input-file",
        "process the parts between `// -----` lines on their own",
        "MARKER",
        bare=DEFAULT_SPLIT_MARKER,
        group=_MLIR,
    ),
    _Flag("output-split-marker", "line between the parts in the output", "MARKER", group=_MLIR),
    _Flag(
        "verify-diagnostics",
        "compare diagnostics with the expected-* comments of the input",
        "all|only-expected",
        bare="all",
        choices=("all", "only-expected"),
        group=_MLIR,
    ),
    _switch("verify-each", "verify after each pass (default true)"),
    _switch("verify-roundtrip", "print and parse the input, and compare"),
    _switch("allow-unregistered-dialect", "accept ops of unknown dialects (default true)"),
    _switch("no-implicit-module", "the input is one op, not the body of a module"),
    _Flag("mlir-print-ir-before", "print the IR before a pass", "PASS", repeated=True, group=_MLIR),
    _Flag("mlir-print-ir-after", "print the IR after a pass", "PASS", repeated=True, group=_MLIR),
    _switch("mlir-print-ir-before-all", "print the IR before each pass"),
    _switch("mlir-print-ir-after-all", "print the IR after each pass"),
    _switch("mlir-print-ir-after-change", "print the IR only after passes that changed it"),
    _switch("mlir-print-ir-after-failure", "print the IR only after a pass that failed"),
    _switch("mlir-print-ir-module-scope", "print the whole module around the op"),
    _switch("mlir-print-op-generic", "print ops in generic form"),
    _switch("mlir-print-debuginfo", "print locations"),
    _switch("mlir-pretty-debuginfo", "print locations for reading, not for parsing"),
    _switch("mlir-print-local-scope", "print without aliases"),
    _Flag("mlir-elide-elementsattrs-if-larger", "elide big constants", "N", group=_MLIR),
    _switch("mlir-timing", "print the wall time of each pass"),
    _switch("mlir-pass-statistics", "print statistics of each pass"),
    _switch("mlir-disable-threading", "use one thread"),
    _Flag(
        "mlir-pass-pipeline-crash-reproducer",
        "write a reproducer here if a pass fails or crashes",
        "FILE",
        group=_MLIR,
    ),
    _switch("run-reproducer", "run the pipeline that stands in the input"),
    _switch("dump-pass-pipeline", "print the pipeline that will run"),
    _switch("emit-bytecode", "write bytecode instead of text"),
    _switch("list-passes", "list the passes and their options"),
    _switch("show-dialects", "list the dialects of the bindings"),
    _switch("version", "print versions"),
    _Flag("target", "where the module is going: nvvm:sm_80, rocdl:gfx950, …", "T", group=_OURS),
    _Flag(
        "emit", "what to write: " + ", ".join(EMIT_KINDS), "KIND", choices=EMIT_KINDS, group=_OURS
    ),
    _Flag("bindings", "which MLIR Python bindings to use", "NAME", group=_OURS),
    _Flag(
        "load", "call a function before anything runs", "MODULE:FUNC", repeated=True, group=_OURS
    ),
    _Flag(
        "explain",
        "say why loops and waits became what they are",
        "NAME|LINE",
        bare="true",
        group=_OURS,
    ),
    _Flag("report", "what was found and done", "FORMAT", choices=REPORT_FORMATS, group=_OURS),
    _Flag("report-file", "where the report goes (default: stderr)", "FILE", group=_OURS),
    _Flag("smem-limit", "workgroup memory that a block may use", "BYTES", group=_OURS),
    _Flag(
        "check",
        "hazards are errors or warnings",
        "error|warn",
        choices=("error", "warn"),
        group=_OURS,
    ),
    _switch("check-only", "check the input for hazards, write nothing", _OURS),
    _switch("suggest", "say which loops could be pipelined, and how; write nothing", _OURS),
    _Flag(
        "diagnostics",
        "how diagnostics are written",
        "FORMAT",
        choices=DIAGNOSTIC_FORMATS,
        group=_OURS,
    ),
    _Flag("run", "run a function on the CPU after the passes", "FUNC", group=_MACHINE),
    _Flag(
        "arg",
        "an argument: FILE.npy, a number, 128x64xf16[:SEED] (random), zeros:128x64xf16",
        "ARG",
        repeated=True,
        group=_MACHINE,
    ),
    _Flag(
        "threads",
        "threads of a block: 128 or 16x8x1 (default: what the function states, else 1)",
        "SIZE",
        group=_MACHINE,
    ),
    _Flag("grid", "blocks: 4 or 2x2x1", "SIZE", group=_MACHINE),
    _Flag("completion", "when copies arrive: eager, late, random[:SEED]", "WHEN", group=_MACHINE),
    _Flag("schedule", "order of warps: lockstep, forward, backward, random", "S", group=_MACHINE),
    _Flag("run-output", "write results as .npy into this folder", "DIR", group=_MACHINE),
    _Flag("timeline", "draw what thread 0 did", "FILE.svg|FILE.json", group=_MACHINE),
    _Flag(
        "cost",
        "cycles for --timeline and for schedules by latencies: latency=500,OP=300,throughput.QUEUE=8",
        "COSTS",
        group=_MACHINE,
    ),
    _switch("isolate", "run in a child process; a crash becomes an error (default true)", _OURS),
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise UsageError(message, code="bad-usage", advice="see async-pipe-opt --help")


def parse(arguments: Sequence[str]) -> Options:
    """Read the command line; raises UsageError (bad-usage).

    `--help` prints and exits 0, as argparse does it.
    """
    namespace, rest = _parser().parse_known_args([_normalised(word) for word in arguments])
    values: dict[str, Any] = {k: v for k, v in vars(namespace).items() if v is not None}
    flags = {flag.name.replace("-", "_"): flag for flag in _FLAGS}
    for name, value in values.items():
        flag = flags.get(name)
        if flag is None:
            continue
        if flag.choices == ("true", "false"):
            values[name] = value == "true"
        elif flag.repeated:
            values[name] = tuple(word for entry in value for word in entry.split(","))
        elif flag.metavar in ("N", "BYTES"):
            values[name] = _whole_number(flag.name, value)
    values["passes"] = tuple(_pass_flag(word) for word in rest)
    options = Options(**values)
    if options.passes and options.pass_pipeline is not None:
        raise UsageError(
            f"'--{options.passes[0].name}' and '--pass-pipeline' exclude each other",
            code="bad-usage",
            advice="put the pass into the pipeline text",
        )
    return options


def diagnostics_style(arguments: Sequence[str]) -> str:
    """How diagnostics are to be written, read off a command line that may be wrong elsewhere."""
    for word in arguments:
        name, _, value = word.lstrip("-").partition("=")
        if name == "diagnostics" and value in DIAGNOSTIC_FORMATS:
            return value
    return DIAGNOSTIC_FORMATS[0]


def _parser() -> _Parser:
    parser = _Parser(
        prog="async-pipe-opt",
        usage="async-pipe-opt [FILE|-] [-o FILE] [passes] [options]",
        description="Pipelines loops with asynchronous copies and counts their waits exactly.",
        epilog="A switch is true without value; --switch=false is how it is switched off. "
        "Any other --name[=options] is a pass, ours (--list-passes) or MLIR's; "
        "passes run in the order in which they stand.",
        allow_abbrev=False,
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=40, width=100),
    )
    parser.add_argument("input", nargs="?", default="-", metavar="FILE", help="input, - for stdin")
    parser.add_argument("-o", dest="output", metavar="FILE", help="output, - for stdout")
    groups = {
        name: parser.add_argument_group(f"options {name}") for name in (_MLIR, _OURS, _MACHINE)
    }
    for flag in _FLAGS:
        groups[flag.group].add_argument(
            f"--{flag.name}",
            dest=flag.name.replace("-", "_"),
            # A value that may be left out is shown as it is written, after "=".
            metavar=f"[={flag.metavar}]" if flag.bare and flag.metavar else flag.metavar,
            choices=flag.choices or None,
            action="append" if flag.repeated else "store",
            help=flag.help.replace("%", "%%"),
        )
    return parser


def _normalised(word: str) -> str:
    """One dash to two; a switch without value gets the value that it means."""
    if not word.startswith("-") or word in ("-", "--", "-o", "-h") or word.startswith("-o="):
        return word.replace("-o=", "-o", 1) if word.startswith("-o=") else word
    name = word.lstrip("-")
    bare = _BARE.get(name)
    return f"--{name}" if bare is None else f"--{name}={bare}"


_BARE = {flag.name: flag.bare for flag in _FLAGS if flag.bare is not None}


def _pass_flag(word: str) -> PassFlag:
    if not word.startswith("--"):
        raise UsageError(
            f"more than one input file: '{word}'",
            code="bad-usage",
            advice="give one FILE, or - for standard input",
        )
    name, _, options = word[2:].partition("=")
    if name.startswith("mlir-"):
        close = difflib.get_close_matches(name, [flag.name for flag in _FLAGS], 1)
        raise UsageError(
            f"unknown option '--{name}'",
            code="bad-usage",
            advice=f"did you mean '--{close[0]}'?" if close else "--help lists the options",
        )
    return PassFlag(name, options)


def _whole_number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise UsageError(
            f"option '--{name}' is '{text}', expected a whole number", code="bad-usage"
        )
    return int(text)
