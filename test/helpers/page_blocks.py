"""The code blocks of a page, run in order as a reader follows them.

A block with a title is a file. Lines of `sh` run in one folder, with this Python and this tool in front
of the path; installing is left out. A `text` block is what the block before it printed, where a line
"…" stands for any lines. Python without a title runs as it stands, one module a page.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from helpers.paths import ROOT

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```", re.MULTILINE | re.DOTALL)
INSTALLING = ("python3 -m venv", ". env/bin/activate", "pip install")


@dataclass(frozen=True)
class Block:
    """One fenced block: its language, the title in its first line, and its text."""

    language: str
    title: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """The fenced blocks of a page in their order."""
    found = []
    for language, options, text in BLOCK.findall(page.read_text()):
        title = re.search(r'title="([^"]+)"', options)
        found.append(Block(language, title[1] if title else "", text))
    return found


def follow(page: Path, folder: Path) -> list[Block]:
    """Do what a page says, in `folder`; returns the blocks that ran or were compared."""
    commands = folder / "commands"
    commands.mkdir()
    _shim(commands / "python", f'exec {sys.executable} "$@"')
    _shim(commands / "async-pipe-opt", f'exec {sys.executable} -m mlir_async_pipe.tool "$@"')
    work = folder / "work"
    work.mkdir()
    printed, names, done = "", dict[str, Any](), []
    for block in blocks_of(page):
        if block.title:
            (work / block.title).write_text(block.text)
        elif block.language == "sh":
            printed = _run(block.text, work, commands)
        elif block.language == "text":
            assert shows(block.text, printed), f"{page.name} says:\n{block.text}\nbut:\n{printed}"
        elif block.language == "python":
            exec(compile(block.text, page.name, "exec"), names)
        else:
            continue
        done.append(block)
    return done


def shows(shown: str, whole: str) -> bool:
    """Whether `shown` are the lines of `whole`, where "…" stands for any, or for part of one."""
    pattern = "".join(
        r"(?:.*\n)*?" if line.strip() == "…" else re.escape(line).replace("…", ".*") + r"\n"
        for line in shown.splitlines()
    )
    return re.fullmatch(pattern, whole if whole.endswith("\n") else whole + "\n") is not None


def _shim(file: Path, command: str) -> None:
    file.write_text(f"#!/bin/sh\n{command}\n")
    file.chmod(0o755)


def _run(script: str, folder: Path, commands: Path) -> str:
    """What the lines print, both streams; a failing command is told by what it prints."""
    lines = [line for line in script.splitlines() if not line.startswith(INSTALLING)]
    path = os.pathsep.join([str(commands), os.environ["PATH"]])
    packages = os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        ["bash", "-c", "\n".join(lines)],
        cwd=folder,
        env={**os.environ, "PATH": path, "PYTHONPATH": packages},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
        timeout=300,
    )
    return done.stdout
