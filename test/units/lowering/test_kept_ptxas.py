"""What ptxas answered, kept from process to process: the same answer for the same PTX, and a new one
after any change of the PTX, the chip or the tool.

Covers: lowering/nvvm/ptxas.py, cache.py
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from mlir_async_pipe import cache
from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.lowering.nvvm import ptxas
from mlir_async_pipe.session.diagnostics import LoweringError

INSTALLED = importlib.util.find_spec("diskcache") is not None
needs_diskcache = pytest.mark.skipif(not INSTALLED, reason="the extra 'cache' is not installed")

# Counts its runs, writes a cubin that tells its input, and says what a kernel needs.
SCRIPT = """#!/bin/sh
if [ "$1" = --version ]; then cat {reported}; exit; fi
echo run >> {runs}
for last in "$@"; do input=$output; output=$last; done
if grep -q refused {folder}/refuse 2>/dev/null; then echo "ptxas error: refused" >&2; exit 1; fi
echo "made of $@ {version}" > "$output"
echo "Compiling entry function 'k' for 'sm_80'" >&2
echo "0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" >&2
echo "Used 32 registers, 512 bytes smem" >&2
"""


class Tool:
    """A ptxas of a version, and how often it ran."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.path, self.reported = folder, folder / "ptxas", folder / "told"
        self.becomes("1")

    def becomes(self, version: str, reported: str = "") -> None:
        """Install a version."""
        self.reported.write_text(reported)
        text = SCRIPT.format(
            reported=self.reported, runs=self.folder / "runs", folder=self.folder, version=version
        )
        self.path.write_text(text)
        self.path.chmod(0o755)

    @property
    def runs(self) -> int:
        """How often it has assembled."""
        file = self.folder / "runs"
        return len(file.read_text().splitlines()) if file.exists() else 0


@pytest.fixture
def tool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tool:
    made = Tool(tmp_path)
    monkeypatch.setattr(ptxas, "require_tool", lambda name: str(made.path))
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, str(tmp_path / "cache"))
    return made


def assembled(ptx: str, chip: str = "sm_80", *, kept: bool = True) -> ptxas.Assembled:
    """The answer that another process gets: what this one remembers is forgotten."""
    ptxas._assemble.cache_clear()
    cache._tool.cache_clear()
    return ptxas.assemble(ptx, CHIPS[chip], kept=kept)


@needs_diskcache
def test_the_same_ptx_is_assembled_once(tool: Tool) -> None:
    first = assembled("// a")
    assert first.resources["k"].registers == 32 and first.cubin.startswith(b"made of -v")
    assert assembled("// a") == first
    assert tool.runs == 1


@needs_diskcache
def test_other_ptx_and_other_chips_are_assembled(tool: Tool) -> None:
    for ptx, chip in (("// a", "sm_80"), ("// b", "sm_80"), ("// a", "sm_90")):
        assembled(ptx, chip)
    assert tool.runs == 3


@needs_diskcache
def test_an_upgraded_tool_is_asked_again(tool: Tool) -> None:
    assembled("// a")
    tool.becomes("22")
    assert assembled("// a").cubin.strip().endswith(b"22")
    assert tool.runs == 2


@needs_diskcache
def test_a_script_whose_tool_was_upgraded_is_asked_again(tool: Tool) -> None:
    assembled("// a")
    tool.reported.write_text("release 14")
    assembled("// a")
    assert tool.runs == 2


@needs_diskcache
def test_an_answer_with_other_fields_is_not_taken(
    tool: Tool, monkeypatch: pytest.MonkeyPatch
) -> None:
    assembled("// a")
    monkeypatch.setattr(ptxas, "fields", lambda of: ())
    assembled("// a")
    assert tool.runs == 2


@needs_diskcache
def test_a_refusal_is_not_kept(tool: Tool) -> None:
    (tool.folder / "refuse").write_text("refused")
    for _ in range(2):
        with pytest.raises(LoweringError, match="refused"):
            assembled("// a")
    (tool.folder / "refuse").unlink()
    assert assembled("// a").resources["k"].registers == 32
    assert tool.runs == 3


@pytest.mark.parametrize("how", ["off", "kept=False"])
def test_nothing_is_kept_where_it_is_switched_off(
    tool: Tool, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if how == "off":
        monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, "off")
    for _ in range(2):
        assembled("// a", kept=how == "off")
    assert tool.runs == 2
    assert not (tool.folder / "cache").exists()
