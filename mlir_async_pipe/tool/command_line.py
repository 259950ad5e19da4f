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
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, NoReturn

from mlir_async_pipe import bindings
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.arguments import nearest
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.session.plugins import library
from mlir_async_pipe.tool.flags import (
    DIAGNOSTIC_FORMATS,
    FLAGS,
    MACHINE,
    MLIR,
    OURS,
    Flag,
    Options,
    PassFlag,
)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        wrong = re.search(r"invalid choice: '(.*)' \(choose from (.*)\)", message)
        choices = wrong[2].replace("'", "").split(", ") if wrong else []
        near = nearest(wrong[1], choices) if wrong else ""
        raise UsageError(
            message,
            code="bad-usage",
            advice=f"did you mean '{near}'?" if near else "see async-pipe-opt --help",
        )


def parse(arguments: Sequence[str]) -> Options:
    """Read the command line; raises UsageError (bad-usage).

    `--help` prints and exits 0, as argparse does it.
    """
    words = [_normalised(word) for word in arguments]
    # argparse would take `--async-pipe=num-stages=2 issue=first`, with its space, for a file.
    flagged = [word for word in words if _is_pass(word)]
    namespace, more = _parser().parse_known_args([w for w in words if w not in flagged])
    rest = [*flagged, *more]
    values: dict[str, Any] = {k: v for k, v in vars(namespace).items() if v is not None}
    flags = {flag.name.replace("-", "_"): flag for flag in FLAGS}
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
        elif flag.metavar == "REGEX":
            _check_expression(flag.name, value)
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


def help_list() -> str:
    """All options in one list, by name."""
    parser = argparse.ArgumentParser(add_help=False, formatter_class=_wide)
    group = parser.add_argument_group("options")
    for flag in sorted(FLAGS, key=lambda flag: flag.name):
        _add(group, flag)
    return parser.format_help().partition("options:\n")[2]


def completion(shell: str) -> str:
    """A script that completes options, their values, our passes and files in `shell`.

    Raises UsageError (missing-extra) where the library that writes it is not installed.
    """
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
        dest=flag.name.replace("-", "_"),
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
        raise UsageError(
            f"more than one input file: '{word}'",
            code="bad-usage",
            advice="give one FILE, or - for standard input",
        )
    name, _, options = word[2:].partition("=")
    if name.startswith("mlir-"):
        raise UsageError(
            f"unknown option '--{name}'",
            code="bad-usage",
            advice=did_you_mean(name) or "--help lists the options",
        )
    return PassFlag(name, options)


def _check_expression(name: str, text: str) -> None:
    try:
        re.compile(text)
    except re.error as error:
        raise UsageError(
            f"option '--{name}' is '{text}', no regular expression: {error}", code="bad-usage"
        ) from None


def _whole_number(name: str, text: str) -> int:
    if not text.isdecimal():
        raise UsageError(
            f"option '--{name}' is '{text}', expected a whole number of 0 or more",
            code="bad-usage",
        )
    return int(text)


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
    """A question that names the option or pass that is written almost so, "" if none is.

    MLIR's passes are asked for with a `context` only, and last: that takes a second."""
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


@dataclass
class Spoken:
    """What was written, filled in when the block ends."""

    text: str = ""


@contextlib.contextmanager
def captured_stderr() -> Iterator[Spoken]:
    """Redirect descriptor 2 into a temporary file for the length of the block."""
    spoken = Spoken()
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
                spoken.text = file.read().decode(errors="replace").strip()
    finally:
        os.close(kept)
