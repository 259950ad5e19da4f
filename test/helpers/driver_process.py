"""Runs the command line tool as a process of its own, as users do."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Ended:
    """What a run of the tool left: exit code and both streams."""

    code: int
    out: str
    err: str


def opt(
    *arguments: str | Path,
    stdin: str = "",
    folder: Path | None = None,
    environment: dict[str, str] | None = None,
) -> Ended:
    """Run async-pipe-opt with `arguments` in `folder`, `environment` on top of ours."""
    done = subprocess.run(
        [sys.executable, "-m", "mlir_async_pipe.tool", *map(str, arguments)],
        input=stdin.encode(),
        capture_output=True,
        cwd=folder,
        env={**os.environ, **(environment or {})},
        check=False,
        timeout=120,
    )
    return Ended(done.returncode, done.stdout.decode(), done.stderr.decode())
