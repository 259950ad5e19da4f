"""Code is made while the last check runs; what the check says still comes first.

Covers: lowering/lower.py, api.py, tool/process.py
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from helpers.double_buffered import DOUBLE_BUFFERED
from helpers.driver_process import Ended, opt
from mlir_async_pipe.bindings import back_end_process, ir, new_context
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import Lowered, begin
from mlir_async_pipe.session.diagnostics import LoweringError

pytestmark = pytest.mark.slow

RACY = DOUBLE_BUFFERED.replace("{numGroups = 1 : i32}", "{numGroups = 2 : i32}")
# An op that no conversion knows.
UNKNOWN = '      "some.op"() : () -> ()\n      gpu.return'


class CheckError(Exception):
    """What a check may raise."""


def refuse() -> None:
    raise CheckError


@pytest.fixture
def children(monkeypatch: pytest.MonkeyPatch) -> list[subprocess.Popen[bytes]]:
    """The processes that code generation starts."""
    found = []
    back_end_process.end_waiting()
    start = back_end_process._start

    def recorded(stack: str) -> back_end_process.Child:
        child = start(stack)
        found.append(child.process)
        return child

    monkeypatch.setattr(back_end_process, "_start", recorded)
    return found


def made(text: str, check: Callable[[], None], emit: str = "ptx") -> Lowered:
    with new_context():
        target = Target.parse("nvvm:sm_80")
        with begin(ir.Module.parse(text), target=target, emit=emit) as started:
            check()
            return started.result()


@pytest.mark.parametrize("emit", ["llvm", "ptx"])
def test_a_started_lowering_gives_its_code(emit: str) -> None:
    assert made(DOUBLE_BUFFERED, lambda: None, emit).text


def test_the_back_end_works_once_a_lowering_is_begun(children) -> None:
    states = []
    made(DOUBLE_BUFFERED, lambda: states.append(children[0].poll()))
    assert states == [None]


def test_an_error_while_it_works_ends_the_back_end(children) -> None:
    with pytest.raises(CheckError):
        made(DOUBLE_BUFFERED, refuse)
    (child,) = children
    assert child.returncode is not None


def test_a_result_that_nobody_takes_ends_the_back_end(children) -> None:
    with new_context():
        module = ir.Module.parse(DOUBLE_BUFFERED)
        with begin(module, target=Target.parse("nvvm:sm_80")):
            pass
    (child,) = children
    assert child.returncode is not None


@pytest.mark.parametrize(("check", "error"), [(refuse, CheckError), (lambda: None, LoweringError)])
def test_a_lowering_that_fails_says_so_when_it_is_asked(check, error) -> None:
    with pytest.raises(error):
        made("module {}", check)


def checked(text: str, folder: Path, *words: str) -> Ended:
    target = ("--target=nvvm:sm_80", "--emit=ptx")
    return opt("-", "--async-pipe-check", *target, "-o", folder / "out.ptx", *words, stdin=text)


def test_code_is_written_when_the_check_finds_nothing(tmp_path: Path) -> None:
    ended = checked(DOUBLE_BUFFERED, tmp_path)
    assert ended.code == 0, ended.err
    assert "cp.async.wait_group" in (tmp_path / "out.ptx").read_text()


@pytest.mark.parametrize("text", [RACY, RACY.replace("      gpu.return", UNKNOWN)])
def test_nothing_is_written_when_the_check_fails(text: str, tmp_path: Path) -> None:
    """Nor is anything else said, if the lowering fails too."""
    ended = checked(text, tmp_path)
    assert ended.code == 1
    errors = [line for line in ended.err.splitlines() if ": error: " in line]
    assert errors and all(line.startswith("<stdin>:") for line in errors)
    assert all("[left-over-op]" not in line for line in errors)
    assert not (tmp_path / "out.ptx").exists()


def test_a_hazard_as_warning_does_not_keep_code_back(tmp_path: Path) -> None:
    ended = checked(RACY, tmp_path, "--check=warn")
    assert ended.code == 0
    assert ": warning: " in ended.err
    assert (tmp_path / "out.ptx").exists()
