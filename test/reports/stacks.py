"""Tries every stack of bindings in an environment of its own, and writes docs/embedding.md's table.

    python test/reports/stacks.py FOLDER [STACK …] [--write]

FOLDER keeps the environments, each with one stack and NumPy; the package comes from this tree. A
stack that PyPI does not have (an MLIR built at home) is tried where this Python has it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "test"))

from helpers.stack_child import DISTRIBUTIONS
from mlir_async_pipe.bindings import STACKS

PAGE = ROOT / "docs" / "embedding.md"
BEGIN, END = "<!-- stacks.py -->\n", "<!-- end -->"
HEAD = (
    "| stack | version | parse, pipeline, counts, check | machine | `Pipeline` | `as_pass` | `patterns` | PTX | ISA |\n"
    "|---|---|---|---|---|---|---|---|---|\n"
)
COLUMNS = (("parse", "pipeline", "counts", "check"), ("machine",), ("object",), ("as_pass",))
COLUMNS = (*COLUMNS, ("patterns",), ("ptx",), ("isa",))


def python_of(folder: Path, stack: str) -> Path | None:
    """A Python that has this stack; None where there is none to install."""
    if stack not in DISTRIBUTIONS:
        return None
    home = folder / stack
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
        command = [str(python), "-m", "pip", "install", "-q", DISTRIBUTIONS[stack], "numpy"]
        subprocess.run(command, check=True)
    return python


def tried(python: Path, stack: str) -> dict[str, str]:
    """What the child says; a child that ends itself is said so."""
    child = ROOT / "test" / "helpers" / "stack_child.py"
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [str(python), str(child), stack], capture_output=True, text=True, env=environment
    )
    if done.returncode != 0:
        return {"version": "", "parse": f"ends with {done.returncode}"}
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


def row(stack: str, found: dict[str, str]) -> str:
    """A line of the table: "yes", or the reason code of what fails first."""
    cells = []
    for names in COLUMNS:
        wrong = next((found.get(name, "not tried") for name in names if found.get(name, "-")), "")
        cells.append(f"`{wrong}`" if wrong else "yes")
    return f"| {stack} | {found['version']} | {' | '.join(cells)} |\n"


def main() -> None:
    """Try what is asked for, print the table, and put it into the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("stacks", nargs="*", default=[stack.name for stack in STACKS])
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    table = HEAD
    for stack in options.stacks:
        python = python_of(options.folder, stack)
        if python is None:
            table += f"| {stack} | | not tried: {_distribution(stack)} | | | | | | |\n"
        else:
            table += row(stack, tried(python, stack))
    print(table, end="")
    if options.write:
        before, _, rest = PAGE.read_text().partition(BEGIN)
        PAGE.write_text(before + BEGIN + table + END + rest.partition(END)[2])


def _distribution(name: str) -> str:
    return next(stack.distribution for stack in STACKS if stack.name == name)


if __name__ == "__main__":
    main()
