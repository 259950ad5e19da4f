"""Every RFC 0077 example of lit-tests becomes a kernel that ptxas accepts.

The functions of each file, with the passes of its first RUN line, as kernels of one module.

Covers: lowering/nvvm/to_nvvm.py, lit-tests/rfc-0077
"""

from __future__ import annotations

import re

import pytest

from helpers.paths import ROOT
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

pytestmark = pytest.mark.slow

FOLDER = ROOT / "lit-tests" / "rfc-0077"
FILES = sorted(path for path in FOLDER.glob("*.mlir") if path.name != "invalid.mlir")
SPLIT = "// -----"


def kernels(text: str) -> str:
    """The functions of a file as gpu.func of one module."""
    bodies = re.sub(
        r"func\.func (@\w+\([^{]*?(?:\{[^}]*\}[^{]*?)*\)) \{", r"gpu.func \1 kernel {", text
    )
    bodies = re.sub(r"^(\s*)return$", r"\1gpu.return", bodies, flags=re.MULTILINE)
    aliases = [line for line in bodies.splitlines() if re.match(r"[!#]\w+ =", line)]
    others = [line for line in bodies.splitlines() if line not in aliases]
    return "\n".join([*aliases, "gpu.module @kernels {", *others, "}"])


def parts() -> list[tuple[str, str, list[str]]]:
    """(file and number of the part, text, names of the passes)."""
    found = []
    for path in FILES:
        text = path.read_text()
        run = next(line for line in text.splitlines() if "RUN:" in line)
        names = [flag for flag in re.findall(r"--(async-pipe[a-z-]*)", run)]
        for number, part in enumerate(text.split(SPLIT)):
            found.append((f"{path.stem}-{number}", part, names))
    return found


PARTS = parts()


def test_every_example_is_there():
    assert len(FILES) >= 12
    assert sum(part.count("func.func @") for _, part, _ in PARTS) >= 18


@pytest.mark.skipif(find_tool("ptxas") is None, reason="ptxas is not installed")
@pytest.mark.parametrize(("text", "names"), [p[1:] for p in PARTS], ids=[p[0] for p in PARTS])
def test_ptxas_accepts_it(text: str, names: list[str]) -> None:
    functions = len(re.findall(r"^func\.func @", text, flags=re.MULTILINE))
    with new_context():
        module = ir.Module.parse(kernels(text))
        session = Session()
        for name in names:
            found = passes.find(name)
            found.run(module.operation, found.options(), session)
        made = lower(module, target=Target.parse("nvvm:sm_80"), emit="cubin")
    assert len(made.kernels) == functions
    assert made.binary
