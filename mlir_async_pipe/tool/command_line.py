"""Reads a command line, with mlir-opt's names and ours, into one frozen `Options`.

A flag that is no option is a pass, as in mlir-opt: `--cse`, `--async-pipe-expand=chip=sm_80`,
and passes run in the order in which they stand. Options may be written with one dash or two;
a switch may carry a value (`--verify-each=false`) but never takes the next word, so that
`--split-input-file gemm.mlir` names a file.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import mmap
import os
import re
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from pathlib import Path
from typing import Any, NoReturn

from mlir_async_pipe import bindings
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.arguments import nearest
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.session.plugins import library

# What a command line says, as one frozen `Options`; each field is a flag, and says how it is written and what
# it means.


EMIT_KINDS = ("mlir", "llvm", "ptx", "cubin", "isa", "hsaco")
DIAGNOSTIC_FORMATS = ("text", "json", "sarif", "github")
DEFAULT_SPLIT_MARKER = "// -----"

MLIR = "as in mlir-opt"
OURS = "of this tool"
MACHINE = "of the machine (--run, --validate)"


@dataclass(frozen=True)
class Flag:
    """How one option is written: `bare` is its value without "=", None if it needs one."""

    name: str
    help: str
    metavar: str = ""
    bare: str | None = None
    choices: tuple[str, ...] = ()
    repeated: bool = False
    group: str = MLIR

    @property
    def field(self) -> str:
        return self.name.replace("-", "_")


def _value(default: Any, text: str, metavar: str, group: str, **form: Any) -> Any:
    """A flag with a value, which may be given several times if the default is ()."""
    form |= {"help": text, "metavar": metavar, "repeated": default == (), "group": group}
    return field(default=default, metadata=form)


def _switch(text: str, default: bool | None = False, group: str = MLIR) -> Any:
    return _value(default, text, "", group, bare="true", choices=("true", "false"))


_mlir, _ours, _machine = (partial(_value, group=group) for group in (MLIR, OURS, MACHINE))


@dataclass(frozen=True)
class PassFlag:
    """One pass asked for by a flag: its name and the text of its options."""

    name: str
    options: str


@dataclass(frozen=True)
class Options:
    """Everything that the command line says; field names are the flags' names.

    Switches are bool. `split_input_file` is the marker to split at, "" for no splitting;
    `explain` is "" (no), "true" (yes), the name of a function or the line of a loop."""

    input: str = "-"
    output: str = "-"
    passes: tuple[PassFlag, ...] = ()
    # as in mlir-opt
    pass_pipeline: str | None = _mlir(
        None, "passes as text, ours and MLIR's mixed (-p)", "PIPELINE"
    )
    split_input_file: str = _mlir(
        "",
        "process the parts between `// -----` lines on their own",
        "MARKER",
        bare=DEFAULT_SPLIT_MARKER,
    )
    output_split_marker: str = _mlir(
        DEFAULT_SPLIT_MARKER, "line between the parts in the output", "MARKER"
    )
    verify_diagnostics: str = _mlir(
        "",
        "compare diagnostics with the expected-* comments of the input",
        "all|only-expected",
        bare="all",
        choices=("all", "only-expected"),
    )
    verify_each: bool = _switch("verify after each pass (default true)", True)
    verify_roundtrip: bool = _switch("print and parse the input, and compare")
    allow_unregistered_dialect: bool = _switch(
        "accept ops of unknown dialects (default true)", True
    )
    no_implicit_module: bool = _switch("the input is one op, not the body of a module")
    mlir_print_ir_before: tuple[str, ...] = _mlir((), "print the IR before a pass", "PASS")
    mlir_print_ir_after: tuple[str, ...] = _mlir((), "print the IR after a pass", "PASS")
    mlir_print_ir_before_all: bool = _switch("print the IR before each pass")
    mlir_print_ir_after_all: bool = _switch("print the IR after each pass")
    mlir_print_ir_after_change: bool = _switch("print the IR only after passes that changed it")
    mlir_print_ir_after_failure: bool = _switch("print the IR only after a pass that failed")
    mlir_print_ir_module_scope: bool = _switch("print the whole module around the op")
    mlir_print_op_generic: bool = _switch("print ops in generic form")
    mlir_print_debuginfo: bool = _switch("print locations")
    mlir_pretty_debuginfo: bool = _switch("print locations for reading, not for parsing")
    mlir_print_local_scope: bool = _switch("print without aliases")
    mlir_print_unique_ssa_ids: bool = _switch("no two values of the printed IR have the same name")
    mlir_use_nameloc_as_prefix: bool = _switch("name values after their named locations")
    mlir_print_op_on_diagnostic: bool = _switch(
        "show the op that an error of MLIR is about (default true)", True
    )
    mlir_elide_elementsattrs_if_larger: int | None = _mlir(None, "elide big constants", "N")
    mlir_timing: bool = _switch("print the wall time of each pass")
    mlir_pass_statistics: bool = _switch("print statistics of each pass")
    remark_format: str = _mlir(
        "emitRemark",
        "remarks as diagnostics (default), or as LLVM's YAML",
        "FORMAT",
        choices=("emitRemark", "yaml"),
    )
    remarks_output_file: str = _mlir("-", "where YAML remarks go (default: stderr)", "FILE")
    remarks_filter: str = _mlir("", "YAML remarks whose pass:name matches", "REGEX")
    remarks_filter_passed: str = _mlir("", "of loops pipelined and proofs, these", "REGEX")
    remarks_filter_missed: str = _mlir("", "of refusals and warnings, these", "REGEX")
    remarks_filter_analyse: str = _mlir("", "of counts and remarks, these", "REGEX")
    remarks_filter_failed: str = _mlir("", "of other errors, these", "REGEX")
    mlir_disable_threading: bool = _switch("use one thread")
    mlir_pass_pipeline_crash_reproducer: str = _mlir(
        "", "write a reproducer here if a pass fails or crashes", "FILE"
    )
    run_reproducer: bool = _switch("run the pipeline that stands in the input")
    dump_pass_pipeline: bool = _switch("print the pipeline that will run")
    emit_bytecode: bool = _switch("write bytecode instead of text")
    list_passes: bool = _switch("list the passes and their options")
    show_dialects: bool = _switch("list the dialects of the bindings")
    version: bool = _switch("print versions")
    help_list: bool = _switch("list all options by name")
    # of this tool
    target: str | None = _ours(None, "where the module is going: nvvm:sm_80, rocdl:gfx950, …", "T")
    emit: str = _ours("mlir", "what to write: " + ", ".join(EMIT_KINDS), "KIND", choices=EMIT_KINDS)
    bindings: str | None = _ours(None, "which MLIR Python bindings to use", "NAME")
    load: tuple[str, ...] = _ours((), "call a function before anything runs", "MODULE:FUNC")
    explain: str = _ours(
        "", "say why loops and waits became what they are", "NAME|LINE", bare="true"
    )
    report: str = _ours("", "what was found and done", "FORMAT", choices=("text", "json", "html"))
    report_file: str = _ours("-", "where the report goes (default: stderr)", "FILE")
    smem_limit: int | None = _ours(None, "workgroup memory that a block may use", "BYTES")
    cluster: str = _ours("", "blocks that make a cluster where kernels do not say it", "X,Y,Z")
    check: str = _ours(
        "error", "hazards are errors or warnings", "error|warn", choices=("error", "warn")
    )
    check_only: bool = _switch("check the input for hazards, write the verdict", False, OURS)
    suggest: bool = _switch(
        "say which loops could be pipelined, and how; write nothing", False, OURS
    )
    diagnostics: str = _ours(
        "text", "how diagnostics are written", "FORMAT", choices=DIAGNOSTIC_FORMATS
    )
    print_completion: str = _ours(
        "", "print completions for a shell", "SHELL", choices=("bash", "zsh", "tcsh", "fish")
    )
    resources: bool | None = _switch(
        "ask ptxas what PTX needs (default: where it may spill, or for a report)", None, OURS
    )
    cache: bool = _switch(
        "keep results for the next run that is the same (default true)", True, OURS
    )
    isolate: bool = _switch(
        "run in a child process; a crash becomes an error (default true)", True, OURS
    )
    # of the machine (--run, --validate)
    run: str | None = _machine(None, "run a function on the CPU after the passes", "FUNC")
    validate: str | None = _machine(
        None, "prove that a function computes what it did before the passes, for all data", "FUNC"
    )
    validate_reassociate: bool = _switch(
        "sums of floats may be in any order (default false)", False, MACHINE
    )
    arg: tuple[str, ...] = _machine(
        (), "an argument: FILE.npy, a number, 128x64xf16[:SEED] (random), zeros:128x64xf16", "ARG"
    )
    threads: str = _machine(
        "", "threads of a block: 128 or 16x8x1 (default: what the function states, else 1)", "SIZE"
    )
    grid: str = _machine("1", "blocks: 4 or 2x2x1", "SIZE")
    completion: str = _machine("eager", "when copies arrive: eager, late, random[:SEED]", "WHEN")
    schedule: str = _machine("lockstep", "order of warps: lockstep, forward, backward, random", "S")
    run_output: str = _machine("", "write results as .npy into this folder", "DIR")
    timeline: str = _machine("", "draw what thread 0 did", "FILE.svg|FILE.json")
    cost: str = _machine(
        "",
        "cycles for --timeline and for schedules by latencies: latency=500,OP=300,throughput.QUEUE=8",
        "COSTS",
    )

    @property
    def remarks_as_yaml(self) -> bool:
        return self.remark_format == "yaml"

    @property
    def dumps(self) -> bool:
        """Whether any flag asks for dumps of the IR around passes."""
        when = ("before", "after", "before_all", "after_all", "after_change", "after_failure")
        return any(getattr(self, f"mlir_print_ir_{name}") for name in when)

    @property
    def looks_on(self) -> bool:
        """Whether the steps of a run are to be seen, one by one or in their order."""
        return bool(
            self.dumps
            or self.mlir_timing
            or self.mlir_pass_statistics
            or self.dump_pass_pipeline
            or self.mlir_pass_pipeline_crash_reproducer
        )


FLAGS = tuple(
    Flag(entry.name.replace("_", "-"), **entry.metadata)
    for entry in fields(Options)
    if entry.metadata
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        choices = wrong[2].replace("'", "").split(", ") if wrong else []
        near = nearest(wrong[1], choices) if wrong else ""
        advice = f"did you mean '{near}'?" if near else "see async-pipe-opt --help"
        raise UsageError(message, code="bad-usage", advice=advice)


def parse(arguments: Sequence[str]) -> Options:
    """Read the command line; raises UsageError (bad-usage).

    `--help` prints and exits 0, as argparse does it."""
    words = [_normalised(word) for word in arguments]
    # argparse would take `--async-pipe=num-stages=2 issue=first`, with its space, for a file.
    flagged = [word for word in words if _is_pass(word)]
    namespace, more = _parser().parse_known_args([w for w in words if w not in flagged])
    rest = [*flagged, *more]
    values: dict[str, Any] = {k: v for k, v in vars(namespace).items() if v is not None}
    for flag in FLAGS:
        if flag.field in values:
            values[flag.field] = _converted(flag, values[flag.field])
    values["passes"] = tuple(_pass_flag(word) for word in rest)
    options = Options(**values)
    if options.passes and options.pass_pipeline is not None:
        why = f"'--{options.passes[0].name}' and '--pass-pipeline' exclude each other"
        raise UsageError(why, code="bad-usage", advice="put the pass into the pipeline text")
    return options


def diagnostics_style(arguments: Sequence[str]) -> str:
    """How diagnostics are to be written, read off a command line that may be wrong elsewhere."""
    for word in arguments:
        name, _, value = word.lstrip("-").partition("=")
        if name == "diagnostics" and value in DIAGNOSTIC_FORMATS:
            return value
    return DIAGNOSTIC_FORMATS[0]


def help_list() -> str:
    """All options in one list, by name."""
    parser = argparse.ArgumentParser(add_help=False, formatter_class=_wide)
    group = parser.add_argument_group("options")
    for flag in sorted(FLAGS, key=lambda flag: flag.name):
        _add(group, flag)
    return parser.format_help().partition("options:\n")[2]


def completion(shell: str) -> str:
    """A script that completes options, their values, our passes and files in `shell`. Raises UsageError
    (missing-extra) where the library that writes it is not installed."""
    shtab = library("shtab", extra="completion", wanted_by="'--print-completion'")
    parser = _parser()
    for name in passes.names():
        parser.add_argument(f"--{name}")
    for action in parser._actions:
        if action.metavar == "FILE":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    return str(shtab.complete(parser, shell)) + "\n"


def _parser() -> _Parser:
    parser = _Parser(
        prog="async-pipe-opt",
        usage="async-pipe-opt [FILE|-] [-o FILE] [passes] [options]",
        description="Pipelines loops with asynchronous copies and counts their waits exactly.",
        epilog="A switch is true without value; --switch=false is how it is switched off. "
        "Any other --name[=options] is a pass, ours (--list-passes) or MLIR's; "
        "passes run in the order in which they stand.",
        allow_abbrev=False,
        formatter_class=_wide,
    )
    parser.add_argument("input", nargs="?", default="-", metavar="FILE", help="input, - for stdin")
    parser.add_argument("-o", dest="output", metavar="FILE", help="output, - for stdout")
    groups = {name: parser.add_argument_group(f"options {name}") for name in (MLIR, OURS, MACHINE)}
    for flag in FLAGS:
        _add(groups[flag.group], flag)
    return parser


def _add(group: argparse._ArgumentGroup, flag: Flag) -> None:
    group.add_argument(
        f"--{flag.name}",
        dest=flag.field,
        # A value that may be left out is shown as it is written, after "=".
        metavar=f"[={flag.metavar}]" if flag.bare and flag.metavar else flag.metavar,
        choices=flag.choices or None,
        action="append" if flag.repeated else "store",
        help=flag.help.replace("%", "%%"),
    )


def _wide(prog: str) -> argparse.HelpFormatter:
    return argparse.HelpFormatter(prog, max_help_position=40, width=100)


def _normalised(word: str) -> str:
    """One dash to two; a switch without value gets the value that it means."""
    if not word.startswith("-") or word in ("-", "--", "-o", "-h") or word.startswith("-o="):
        return word.replace("-o=", "-o", 1) if word.startswith("-o=") else word
    name, equals, value = word.lstrip("-").partition("=")
    name = _SHORT.get(name, name) + equals + value
    bare = _BARE.get(name)
    return f"--{name}" if bare is None else f"--{name}={bare}"


def _is_pass(word: str) -> bool:
    name = word[2:].partition("=")[0]
    return word.startswith("--") and name not in ("", "help", *(flag.name for flag in FLAGS))


_SHORT = {"p": "pass-pipeline"}
_BARE = {flag.name: flag.bare for flag in FLAGS if flag.bare is not None}


def _pass_flag(word: str) -> PassFlag:
    if not word.startswith("--"):
        why = f"more than one input file: '{word}'"
        raise UsageError(why, code="bad-usage", advice="give one FILE, or - for standard input")
    name, _, options = word[2:].partition("=")
    if name.startswith("mlir-"):
        advice = did_you_mean(name) or "--help lists the options"
        raise UsageError(f"unknown option '--{name}'", code="bad-usage", advice=advice)
    return PassFlag(name, options)


def _converted(flag: Flag, given: Any) -> Any:
    """What was written for a flag, as the value of the option. Raises UsageError (bad-usage)."""
    if flag.choices == ("true", "false"):
        return given == "true"
    if flag.repeated:
        return tuple(word for entry in given for word in entry.split(","))
    why = ""
    if flag.metavar in ("N", "BYTES"):
        if given.isdecimal():
            return int(given)
        why = "expected a whole number of 0 or more"
    elif flag.metavar == "REGEX":
        try:
            re.compile(given)
        except re.error as error:
            why = f"no regular expression: {error}"
    if why:
        raise UsageError(f"option '--{flag.name}' is '{given}', {why}", code="bad-usage")
    return given


# The names that may follow two dashes: options, our passes, and MLIR's.
#
# The bindings offer no list of MLIR's passes. But a pass is registered under a text that stands in
# their library, so every text there that looks like the name of a pass is offered to MLIR's parser of
# pipelines, which knows 300 of 46000. A linker keeps a text that ends another one as its tail: `cse`
# is found in `early-cse`, `sccp` in `ipsccp`.


_TEXT = re.compile(rb"[a-z][a-z0-9-]{2,}+\0")
# Tails that begin inside a word are tried of words up to this length.
_SHORT_TEXT = 14
# The library with MLIR in it has more than 100 MB, those of single dialects less than 1.
_SMALLEST_LIBRARY = 4_000_000


def did_you_mean(name: str, context: Any = None) -> str:
    """A question that names the option or pass that is written almost so, "" if none is. MLIR's passes are asked
    for with a `context` only, and last: that takes a second."""
    ours = [*(flag.name for flag in FLAGS), *passes.names()]
    near = nearest(name, ours, 0.8)
    if not near and context is not None:
        near = nearest(name, [*ours, *mlir_passes(context)])
    return f"did you mean '--{near}'?" if near else ""


def mlir_passes(context: Any) -> tuple[str, ...]:
    """The names of the passes and named pipelines that the bindings register, sorted."""
    from mlir_async_pipe.bindings import passmanager

    found = []
    with captured_stderr():
        for name in sorted(_texts()):
            try:
                passmanager.PassManager.parse(f"any({name})", context)
            except ValueError as error:
                if "does not refer to a registered pass" in str(error):
                    continue
            found.append(name)
    return tuple(found)


@cache
def _texts() -> frozenset[str]:
    """The texts in the libraries of the bindings that look like names of passes."""
    libraries = importlib.import_module(f"{bindings.current().prefix}._mlir_libs")
    found: set[str] = set()
    for file in Path(libraries.__path__[0]).iterdir():
        if file.is_file() and file.stat().st_size > _SMALLEST_LIBRARY:
            with open(file, "rb") as opened:
                content = mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)
                found.update(text[:-1].decode() for text in _TEXT.findall(content))
    return frozenset(tail for text in found for tail in _tails(text))


def _tails(text: str) -> Iterator[str]:
    """The ends of a text that may be names: from each of its words on, and short single words."""
    yield text
    for start in range(1, len(text) - 2):
        inside = len(text) <= _SHORT_TEXT and "-" not in text[start:]
        if text[start].isalpha() and (inside or text[start - 1] == "-"):
            yield text[start:]


# Catches what C++ code writes to file descriptor 2, which sys.stderr does not see.
#
# MLIR writes some option errors straight there, and a tool that reports one error must not let
# a second, unlocated one through.


@contextlib.contextmanager
def captured_stderr() -> Iterator[list[str]]:
    """Redirect descriptor 2 into a temporary file for the length of the block; what was written is there when it
    ends."""
    spoken: list[str] = []
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with tempfile.TemporaryFile() as file:
            os.dup2(file.fileno(), 2)
            try:
                yield spoken
            finally:
                os.dup2(kept, 2)
                file.seek(0)
                spoken.append(file.read().decode(errors="replace").strip())
    finally:
        os.close(kept)
