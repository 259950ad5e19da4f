"""The examples that come with the package.

    python -m mlir_async_pipe.examples                      # what there is
    python -m mlir_async_pipe.examples gemm                 # pipelines it, says what became of it
    python -m mlir_async_pipe.examples gemm --path          # where it is, for async-pipe-opt
    python -m mlir_async_pipe.examples pipelined_sum        # runs a script

A kernel whose loops carry annotations is pipelined, any other counted and checked. `--target`
chooses the chip.
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from mlir_async_pipe.session.arguments import did_you_mean
from mlir_async_pipe.session.diagnostics import AsyncPipeError, UsageError
from mlir_async_pipe.tool import render

# In a wheel the files are in the package; in a checkout beside it.
_FOLDERS = (Path(__file__).parent / "example_files", Path(__file__).parents[1] / "examples")
_ENDINGS = (".mlir", ".py", ".ipynb")
_NVIDIA, _AMD = "nvvm:sm_80", "rocdl:gfx950"


def folder() -> Path:
    """Where the examples are; raises UsageError (cannot-read) if they were left out."""
    for path in _FOLDERS:
        if path.is_dir():
            return path
    raise UsageError("this installation has no examples", code="cannot-read")


def names() -> list[str]:
    """The examples by name: the path in their folder without its ending."""
    root = folder()
    found = (path.relative_to(root) for path in root.rglob("*") if path.suffix in _ENDINGS)
    return sorted(path.with_suffix("").as_posix() for path in found if "__" not in path.as_posix())


def find(name: str) -> Path:
    """The file of an example, by its name or the last part of it.

    Raises UsageError (unknown-example).
    """
    known = names()
    fitting = [entry for entry in known if name in (entry, entry.rpartition("/")[2])]
    if not fitting:
        raise UsageError(
            f"no example '{name}'",
            code="unknown-example",
            advice=did_you_mean(name, known, "there are"),
        )
    base = folder() / fitting[0]
    return next(base.with_name(base.name + end) for end in _ENDINGS
                if base.with_name(base.name + end).exists())  # fmt: skip


def target_of(name: str) -> str:
    """The target that an example is written for, by its name."""
    if "gfx942" in name:
        return "rocdl:gfx942"
    return _AMD if "amd_" in name or "gfx" in name else _NVIDIA


def run(name: str, target: str = "") -> str:
    """Pipeline an example, or count and check one that is no loop to be pipelined; returns what
    became of it. A script is run instead. Raises AsyncPipeError."""
    path = find(name)
    if path.suffix == ".ipynb":
        return f"a notebook: jupyter lab {path}\n"
    if path.suffix == ".py":
        sys.argv = [str(path)]
        sys.path.insert(0, str(path.parent))
        runpy.run_path(str(path), run_name="__main__")
        return ""
    # These import the bindings.
    import mlir_async_pipe
    from mlir_async_pipe.bindings import ir, new_context
    from mlir_async_pipe.reports.outline import PARTS
    from mlir_async_pipe.reports.page import summary

    chip = target or target_of(name)
    annotated = "async_pipe." in path.read_text()
    with new_context():
        module = ir.Module.parseFile(str(path))
        if annotated:
            report = mlir_async_pipe.pipeline(module, target=chip)
        else:
            counted = mlir_async_pipe.count_waits(module, target=chip)
            checked = mlir_async_pipe.check(module, target=chip)
            report = _joined(counted, checked)
    lines = [f"{path.name}: {summary(report).text}"]
    for outline in report.of("outlines"):
        lines.append(f"  loop at line {outline.place.line}")
        lines += [f"    {part:9} {outline.contents(part)}" for part in PARTS]
    flags = f"{'--async-pipe' if annotated else '--async-pipe-count-waits'} --target={chip}"
    lines.append(f"the whole result: async-pipe-opt {path} {flags}")
    return "\n".join(lines) + "\n"


def _joined(first: Any, second: Any) -> Any:
    return type(first)(
        (*first.diagnostics, *second.diagnostics), {**first.records, **second.records}
    )


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
            sys.stdout.write("\n".join(names()) + "\n")
        elif options.path:
            sys.stdout.write(f"{find(options.name)}\n")
        elif options.source:
            sys.stdout.write(find(options.name).read_text())
        else:
            sys.stdout.write(run(options.name, options.target))
    except AsyncPipeError as error:
        sys.stderr.write(render.as_text(error.diagnostic, {}))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
