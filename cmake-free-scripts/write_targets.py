"""Writes the table of docs/targets.md that shows what examples/one_loop.mlir becomes on each chip.

python cmake-free-scripts/write_targets.py [--show]

Each row is made by its command, `async-pipe-opt examples/one_loop.mlir --async-pipe --target=…`: the copies as the
assembly names them, the waits of the pipelined loop as the machine code has them, and what the checker proves. Needs
both back ends (`pip install '.[nvidia,amd]'`); --show prints the table.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "targets.md"
LOOP = "examples/one_loop.mlir"
TARGETS = ("nvvm:sm_80", "nvvm:sm_90a", "rocdl:gfx942", "rocdl:gfx950", "rocdl:gfx1250")
BEGIN = "<!-- cmake-free-scripts/write_targets.py writes this table -->"
END = "<!-- end of the table -->"
HEAD = """| target | copies | versions of the tile | bytes of tiles | registers | waits: before the loop, in it, after it | checker |
|---|---|---|---|---|---|---|"""
OPT = "import sys; from mlir_async_pipe.tool.__main__ import main; sys.exit(main())"
CHECK = "import sys; from mlir_async_pipe.tool.check_files import main; sys.exit(main())"
COPY = re.compile(
    r"cp\.async\.c[ag]\.shared\.global|global_load_(?:async_to_)?lds_\w+|global_load_\w+"
)


def table() -> str:
    """The table, a row a target."""
    return "\n".join([HEAD, *(_row(target) for target in TARGETS)])


def _row(target: str) -> str:
    nvidia = target.startswith("nvvm")
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder)
        _run(OPT, LOOP, "--async-pipe", f"--target={target}", "-o", str(out / "piped.mlir"))
        emitted = _emitted(target, "ptx" if nvidia else "isa", out)
        report = _report(target, "cubin", out) if nvidia else json.loads(_read(out, "isa.json"))
        proven = _run(CHECK, str(out / "piped.mlir"), f"--target={target}")
    (kernel,), (loop,) = report["kernels"], report["loops"]
    waits, registers = _nvidia(kernel) if nvidia else _amd(kernel)
    (buffer,) = loop["buffers"]
    cells = (
        f"`{target}`",
        f"`{_copy(emitted)}`",
        str(buffer["versions"]),
        str(buffer["bytes"]),
        str(registers),
        waits,
        proven.strip().rpartition(".mlir: ")[2],
    )
    return f"| {' | '.join(cells)} |"


def _run(code: str, *words: str) -> str:
    command = [sys.executable, "-c", code, *words]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout


def _read(folder: Path, name: str) -> str:
    return (folder / name).read_text()


def _emitted(target: str, kind: str, out: Path) -> str:
    _emit(target, kind, out)
    return _read(out, kind)


def _report(target: str, kind: str, out: Path) -> dict[str, Any]:
    _emit(target, kind, out)
    found: dict[str, Any] = json.loads(_read(out, f"{kind}.json"))
    return found


def _emit(target: str, kind: str, out: Path) -> None:
    words = ("--async-pipe", f"--target={target}", f"--emit={kind}", "-o", str(out / kind))
    _run(OPT, LOOP, *words, "--report=json", f"--report-file={out / f'{kind}.json'}")


def _copy(text: str) -> str:
    """The instruction that most copies are; the loop for few iterations loads once."""
    found = [match[0] for match in COPY.finditer(text)]
    return max(dict.fromkeys(found), key=found.count)


def _nvidia(kernel: dict[str, Any]) -> tuple[str, int]:
    code = kernel["machine"]
    inside = [n for loop in code["loops"] for n in loop["waits"]]
    after = code["waits"][len(inside) :]
    return _waits("cp.async groups", [], inside, after), kernel["resources"]["registers"]


def _amd(kernel: dict[str, Any]) -> tuple[str, int]:
    """Of the pipelined loop, which leaves the most in flight: what stands before it ends the loop for few iterations, and
    after it may come a loop for those that are left over of an unrolled one."""
    waits = [wait for wait in kernel["waits"] if wait["counter"] != "loadcnt"]
    piped = max((wait for wait in waits if wait["loop"]), key=lambda w: (w["left"], w["loop"]))
    at = [k for k, wait in enumerate(waits) if wait["loop"] == piped["loop"]]
    earlier = [k for k, wait in enumerate(waits[: at[0]]) if wait["loop"]]
    before, inside, after = (
        waits[max(earlier, default=-1) + 1 : at[0]],
        waits[at[0] : at[-1] + 1],
        waits[at[-1] + 1 :],
    )
    left = [
        [wait["left"] for wait in before],
        list(dict.fromkeys(wait["left"] for wait in inside)),
        [wait["left"] for wait in after if not wait["loop"]],
    ]  # fmt: skip
    return _waits(piped["counter"], *left), kernel["vector_registers"]


def _waits(counter: str, *parts: list[int]) -> str:
    return f"{counter}: " + "; ".join(", ".join(map(str, part)) or "none" for part in parts)


def page() -> str:
    """The page with the table of now."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table()}\n\n{END}{after}"


def main() -> int:
    """Write the page, or show the table."""
    if sys.argv[1:] == ["--show"]:
        print(table())
    else:
        PAGE.write_text(page())
    return 0


if __name__ == "__main__":
    sys.exit(main())
