"""The examples that come with the package.

    python -m mlir_async_pipe.examples                      # what there is, a line each
    python -m mlir_async_pipe.examples gemm                 # pipelines it, says what became of it
    python -m mlir_async_pipe.examples gemm --path          # where it is, for async-pipe-opt
    python -m mlir_async_pipe.examples pipelined_sum        # runs a script

A kernel whose loops carry annotations is pipelined, any other counted and checked. `--target`
chooses the chip.
"""

from __future__ import annotations

import argparse
import re
import runpy
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

from mlir_async_pipe.session.arguments import did_you_mean
from mlir_async_pipe.session.diagnostics import AsyncPipeError, UsageError
from mlir_async_pipe.session.report import Report
from mlir_async_pipe.tool import output, render

# In a wheel the files are in the package; in a checkout beside it.
_FOLDERS = (Path(__file__).parent / "example_files", Path(__file__).parents[1] / "examples")
_ENDINGS = (".mlir", ".py", ".ipynb")
_NVIDIA, _AMD = "nvvm:sm_80", "rocdl:gfx950"
_MODULE = "mlir_async_pipe.examples"
# What `async-pipe-tune` asks a file for.
_BUILD = "\ndef build("
# Each with the names that belong to it and to none above.
_GROUPS = (
    ("Start here", "add_one|gemm|pipelined_sum|looking_at_a_pipeline"),
    ("Pipelines written from Python (mlir_async_pipe.Pipeline)", "pipeline_object/.*"),
    (
        "Pipelines written by hand: their waits are counted, their accesses checked",
        "handwritten/.*",
    ),
    ("Bugs of public projects, as they were and as they were mended (docs/museum.md)", "museum/.*"),
    ("Loops to be pipelined", "[^/]*(?<!_gemm)(?<!_attention)"),
    ("Generators of kernels, as a front end writes them, and of what tuning tries", "[^/]*"),
    ("Inside of other MLIR stacks", "embedding/.*|iree/(?:round_trip|transcribe)"),
    ("Kernels that IREE wrote", "iree/kernels/.*"),
    ("Inputs of iree-compile, for iree/round_trip", "iree/.*"),
)
# Files whose lines others count, or without a comment.
_SUMMARIES = {
    "add_one": "the smallest loop: copy a tile, wait, add one",
    "gemm": "a GEMM on tensor cores in three stages",
    "looking_at_a_pipeline": "a notebook: the report of the GEMM, its machine code, a run",
}


def folder() -> Path:
    """Where the examples are; raises UsageError (cannot-read) if they were left out."""
    for path in _FOLDERS:
        if path.is_dir():
            return path
    raise UsageError("this installation has no examples", code="cannot-read")


def names() -> list[str]:
    """The examples by name: the path in their folder without its ending. Modules that they share are none."""
    return [name for name in _all_names() if not _is_helper(find(name))]


def _all_names() -> list[str]:
    root = folder()
    found = (path.relative_to(root) for path in root.rglob("*") if path.suffix in _ENDINGS)
    return sorted(path.with_suffix("").as_posix() for path in found if "__" not in path.as_posix())


def _is_helper(path: Path) -> bool:
    """Whether a file is there for other examples: a module without a main program, a transform script."""
    text = path.read_text()
    if path.suffix == ".py":
        return "__main__" not in text and _BUILD not in text
    return path.suffix == ".mlir" and "transform.named_sequence" in text


def catalogue() -> str:
    """The examples in groups, each with what it is, in a line of at most 100 characters."""
    lines, shown = [], set[str]()
    for title, pattern in _GROUPS:
        lines += ["", f"{title}:"]
        for name in names():
            if name not in shown and re.fullmatch(pattern, name):
                shown.add(name)
                said = textwrap.shorten(_summary(name), 60, placeholder=" …")
                lines.append(f"  {name:38} {said}".rstrip())
    return "\n".join([f"python -m {_MODULE} NAME runs one; --path says where it is", *lines]) + "\n"


def _summary(name: str) -> str:
    """The first sentence of the docstring of a script, or of the comment on top of a file."""
    if name in _SUMMARIES:
        return _SUMMARIES[name]
    text = find(name).read_text()
    comment = re.match(r'(?:// .*\n)+|"""(?:.+\n)+', text)
    words = " ".join(comment[0].replace("//", "").replace('"""', "").split()) if comment else ""
    return words.partition(". ")[0].rstrip(".")


def find(name: str) -> Path:
    """The file of an example, by its name or the last part of it. Raises UsageError (unknown-example)."""
    known = _all_names()
    fitting = [entry for entry in known if name in (entry, entry.rpartition("/")[2])]
    if not fitting:
        why = f"no example '{name}'"
        raise UsageError(why, code="unknown-example", advice=did_you_mean(name, known, "there are"))
    base = folder() / fitting[0]
    return next(base.with_name(base.name + end) for end in _ENDINGS
                if base.with_name(base.name + end).exists())  # fmt: skip


def target_of(name: str) -> str:
    """The target that an example is written for: that of the command in its comment, if it is of the museum, else
    by its name."""
    if name.startswith("museum/"):
        stated = re.search(r"--target=(\S+)", find(name).read_text())
        assert stated is not None, name
        return stated[1]
    if "gfx942" in name:
        return "rocdl:gfx942"
    return _AMD if "amd_" in name or "gfx" in name else _NVIDIA


def run(name: str, target: str = "") -> str:
    """Pipeline an example, or count and check one that is no loop to be pipelined; returns what
    became of it. A script is run instead. Raises AsyncPipeError."""
    path = find(name)
    if _is_helper(path):
        why = f"'{name}' is a part of other examples, it does nothing by itself"
        advice = f"--source prints it; python -m {_MODULE} lists what runs"
        raise UsageError(why, code="unknown-example", advice=advice)
    if path.suffix == ".ipynb":
        return f"a notebook: jupyter lab {path}\n"
    if path.suffix == ".py":
        sys.argv = [str(path)]
        sys.path.insert(0, str(path.parent))
        if _BUILD in path.read_text():
            return (
                f"a file for tuning: async-pipe-tune {path} --target={target or _NVIDIA} --help\n"
            )
        try:
            runpy.run_path(str(path), run_name="__main__")
        except ModuleNotFoundError as error:
            # The packages that the examples need beside ours are those of stacks, and PyTorch.
            from mlir_async_pipe.bindings import how_to_install

            package = str(error.name).partition(".")[0]
            why = f"example '{name}' needs the package '{package}', which is not installed"
            raise UsageError(why, code="missing-extra", advice=how_to_install(package)) from error
        return ""
    # These import the bindings.
    import mlir_async_pipe
    from mlir_async_pipe.bindings import ir, new_context

    chip = target or target_of(name)
    annotated = "async_pipe." in path.read_text()
    with new_context():
        module = ir.Module.parseFile(str(path))
        if annotated:
            report = mlir_async_pipe.pipeline(module, target=chip)
        else:
            counted = mlir_async_pipe.count_waits(module, target=chip)
            checked = mlir_async_pipe.check(module, target=chip)
            said = (*counted.diagnostics, *checked.diagnostics)
            report = Report(said, counted.records | checked.records)
    lines = [f"{path.name}: {report}"]
    if not report.of("checks"):
        lines.append("  no function in it is a GPU kernel: it is the input of another compiler")
    flags = f"{'--async-pipe' if annotated else '--async-pipe-count-waits'} --target={chip}"
    lines.append(f"the whole result: async-pipe-opt {path} {flags}")
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """The command line; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m mlir_async_pipe.examples", description="The examples of mlir-async-pipe."
    )
    parser.add_argument("name", nargs="?", help="an example; without one all are listed")
    parser.add_argument("--target", default="", help="nvvm:sm_80, rocdl:gfx950, …")
    parser.add_argument("--path", action="store_true", help="print where the example is")
    parser.add_argument("--source", action="store_true", help="print the example")
    options = parser.parse_args(arguments)
    try:
        if options.name is None:
            sys.stdout.write(catalogue())
        elif options.path:
            sys.stdout.write(f"{find(options.name)}\n")
        elif options.source:
            sys.stdout.write(find(options.name).read_text())
        else:
            sys.stdout.write(run(options.name, options.target))
        sys.stdout.flush()
    except BrokenPipeError:
        output.reader_has_gone()
    except AsyncPipeError as error:
        sys.stderr.write(render.as_text(error.diagnostic, {}, f"python -m {_MODULE}"))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
