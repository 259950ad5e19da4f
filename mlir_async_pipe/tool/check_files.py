"""`async-pipe-check FILE…`: checks each file for hazards, one after the other, as a hook does.

Flags go to each run of `async-pipe-opt FILE --check-only`; the exit code is the worst.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from mlir_async_pipe.tool.__main__ import main as run_tool


def main(arguments: Sequence[str] | None = None) -> int:
    """Check the files of the command line (those of the process by default)."""
    words = sys.argv[1:] if arguments is None else arguments
    flags = [word for word in words if word.startswith("-")]
    files = [word for word in words if not word.startswith("-")]
    return max((run_tool([file, "--check-only", *flags]) for file in files), default=0)


if __name__ == "__main__":
    sys.exit(main())
