"""`async-pipe-check FILE…`: checks each file for hazards, one after the other, as a hook does.

What `async-pipe-opt` says of a file follows its name. Flags go to each run of `async-pipe-opt FILE --check-only`; the exit code is the worst.
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
    worst = 0
    for file in files:
        sys.stdout.write(f"{file}: ")
        sys.stdout.flush()
        code = run_tool([file, "--check-only", *flags])
        if code:
            sys.stdout.write("see the errors\n")
        worst = max(worst, code)
    return worst


if __name__ == "__main__":
    sys.exit(main())
