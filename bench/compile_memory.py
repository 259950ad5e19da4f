"""Peak memory of our passes on many loops, beside that of the bindings alone.

    python bench/compile_memory.py [--loops 10000] [--json FILE]

MiB above those of a process that imported the bindings and did the same to four loops. The bindings'
own: parse the input and what comes out of our passes, print that, and keep both modules. Ours: parse the
input, schedule, expand, count (and check), print.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from pathlib import Path


def main() -> int:
    """Measure each in a process of its own."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--loops", type=int, default=10_000)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--only", nargs=2, metavar=("WHAT", "FILE"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.only is not None:
        return alone(options.only[0], Path(options.only[1]), options.loops)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "made.mlir"
        for what in ("passes", "bindings", "passes and check"):
            command = [
                sys.executable,
                __file__,
                "--loops",
                str(options.loops),
                "--only",
                what,
                file,
            ]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            found[what] = float(done.stdout)
    for what, mebibytes in found.items():
        ratio = mebibytes / found["bindings"]
        print(f"{mebibytes:8.0f} MiB  {ratio:5.2f} times the bindings' own  {what}")
    if options.json:
        options.json.write_text(json.dumps({"loops": options.loops, "MiB": found}, indent=1) + "\n")
    return 0


def alone(what: str, file: Path, loops: int) -> int:
    """Print the peak of one; `passes` leaves in `file` what it made."""
    import compile_peers
    import expand

    from mlir_async_pipe.bindings import ir, new_context

    names = [*expand.PASSES, compile_peers.CHECK] if "check" in what else list(expand.PASSES)
    compile_peers.text_to_text(compile_peers.different_loops(4), [*names, compile_peers.CHECK])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    text = compile_peers.different_loops(loops)
    if what == "bindings":
        context = new_context()
        kept = [ir.Module.parse(each, context) for each in (text, file.read_text())]
        assert str(kept[1])
    else:
        made = compile_peers.text_to_text(text, names)
        if what == "passes":
            file.write_text(made)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
    return 0


if __name__ == "__main__":
    sys.exit(main())
