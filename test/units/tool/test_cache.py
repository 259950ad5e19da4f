"""Results kept from run to run: the same answer, told again when anything that it depends on changes,
and never a wrong one from a broken or a busy cache.

Covers: cache.py, tool/__main__.py, api.py
"""

from __future__ import annotations

import concurrent.futures
import importlib.util
import os
import re
from pathlib import Path

import pytest

import mlir_async_pipe
from helpers.driver_process import Ended, opt
from helpers.paths import ROOT
from mlir_async_pipe import cache
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.lowering import lower as lowering
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool
from mlir_async_pipe.session.diagnostics import Diagnostic
from mlir_async_pipe.session.report import Report
from mlir_async_pipe.tool import __main__
from mlir_async_pipe.tool.command_line import Options
from mlir_async_pipe.tool.inputs import Source

INSTALLED = importlib.util.find_spec("diskcache") is not None
needs_diskcache = pytest.mark.skipif(not INSTALLED, reason="the extra 'cache' is not installed")
ADD_ONE = (ROOT / "examples" / "add_one.mlir").read_text()
SOURCE = Source("k.mlir", b"module {}")
PTXAS = int(find_tool("ptxas") is not None)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    where = tmp_path / "cache"
    monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, str(where))
    return where


def run(folder: Path, *flags: str, text: str = ADD_ONE) -> Ended:
    return opt(
        "--async-pipe", "--target=nvvm:sm_80", *flags,
        stdin=text, environment={cache.ENVIRONMENT_VARIABLE: str(folder)},
    )  # fmt: skip


def entries(folder: Path) -> int:
    diskcache = importlib.import_module("diskcache")
    with diskcache.Cache(str(folder)) as kept:
        return len(kept)


def test_nothing_is_kept_where_it_is_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    for word in cache.OFF:
        monkeypatch.setenv(cache.ENVIRONMENT_VARIABLE, word)
        assert cache.folder() is None
        cache.put("key", 1)
        assert cache.get("key") is None


def test_nothing_is_kept_without_the_library(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache.importlib.util, "find_spec", lambda name: None)
    assert cache.folder() is None
    assert __main__.key_of(SOURCE, Options()) == ""
    assert not folder.exists()


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ((SOURCE, Options()), (Source("k.mlir", b"module { }"), Options())),
        ((SOURCE, Options()), (Source("l.mlir", b"module {}"), Options())),
        ((SOURCE, Options(target="nvvm:sm_80")), (SOURCE, Options(target="nvvm:sm_90"))),
        ((SOURCE, Options(emit="ptx")), (SOURCE, Options(emit="cubin"))),
        ((SOURCE, Options()), (SOURCE, Options(check="warn"))),
        ((SOURCE, Options()), (SOURCE, Options(report="html"))),
    ],
    ids=["text", "name", "target", "emit", "check", "report"],
)
@needs_diskcache
def test_what_a_result_depends_on_changes_the_key(
    folder: Path, first: tuple, second: tuple
) -> None:
    assert __main__.key_of(*first) != __main__.key_of(*second)
    assert __main__.key_of(*first) == __main__.key_of(*first) != ""


@needs_diskcache
def test_where_a_result_goes_does_not_change_the_key(folder: Path) -> None:
    elsewhere = Options(output="x", report_file="y", diagnostics="json", isolate=False)
    assert __main__.key_of(SOURCE, elsewhere) == __main__.key_of(SOURCE, Options())


def test_versions_tools_and_our_files_are_part_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    before = cache.key_of("run", b"x")
    assert cache.key_of("run", b"x") == before != cache.key_of("code", b"x")
    assert cache.key_of("run", b"x", b"y") != cache.key_of("run", b"xy")
    for name, other in (("_version", lambda name: "9"), ("_stamp", lambda file: (str(file), 0, 0))):
        with monkeypatch.context() as patch:
            cache._surroundings.cache_clear()
            patch.setattr(cache, name, other)
            assert cache.key_of("run", b"x") != before
        cache._surroundings.cache_clear()
    assert cache.key_of("run", b"x") == before


@pytest.mark.parametrize(
    "options",
    [
        Options(cache=False),
        Options(run="f"),
        Options(load=("a:b",)),
        Options(mlir_timing=True),
        Options(mlir_print_ir_after_all=True),
        Options(verify_diagnostics="all"),
    ],
)
@needs_diskcache
def test_runs_that_have_to_run_are_not_kept(folder: Path, options: Options) -> None:
    assert __main__.key_of(SOURCE, options) == ""


@needs_diskcache
def test_a_run_with_an_error_is_not_kept(folder: Path) -> None:
    __main__.keep("key", [b"x"], [Diagnostic("error", "no", "code")], [Report((), {})])
    assert __main__.find("key") is None
    __main__.keep("key", [b"x"], [Diagnostic("remark", "yes", "code")], [Report((), {})])
    found = __main__.find("key")
    assert found is not None and found.contents == (b"x",)
    assert found.reports() == [Report((), {})]


@needs_diskcache
def test_a_hit_writes_and_says_what_the_run_did(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    flags = ("--emit=ptx", "--explain", "--report=json")
    first, second = run(folder, *flags), run(folder, *flags)
    assert second == first
    assert first.code == 0 and "cp.async" in first.out and "[pipelined]" in first.err
    # The run, and what ptxas said of its PTX, which another text has too.
    assert entries(folder) == 1 + PTXAS
    assert run(folder, *flags, "--cache=false") == first
    assert entries(folder) == 1 + PTXAS
    assert run(folder, *flags, text=ADD_ONE + "\n") == first
    assert entries(folder) == 2 + PTXAS


@needs_diskcache
def test_a_hit_imports_no_bindings(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    first = run(folder, "--isolate=false")
    (tmp_path / "sitecustomize.py").write_text(
        "import atexit, sys\n"
        "atexit.register(lambda: print('_mlir_libs._mlir' in ' '.join(sys.modules), file=sys.stderr))\n"
    )
    path = os.pathsep.join([str(tmp_path), str(ROOT), os.environ.get("PYTHONPATH", "")])
    second = opt(
        "--async-pipe", "--target=nvvm:sm_80", "--isolate=false", stdin=ADD_ONE,
        environment={cache.ENVIRONMENT_VARIABLE: str(folder), "PYTHONPATH": path},
    )  # fmt: skip
    assert second.out == first.out
    assert second.err.splitlines()[-1] == "False"


@needs_diskcache
def test_a_broken_cache_is_a_miss(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    first = run(folder)
    (folder / "cache.db").write_bytes(b"no database" * 1000)
    assert run(folder) == first
    occupied = tmp_path / "file"
    occupied.write_text("")
    assert run(occupied) == first


@needs_diskcache
def test_a_value_that_cannot_be_read_is_a_miss(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.put("key", Gone(1))
    monkeypatch.delattr(f"{__name__}.Gone")
    assert cache.get("key") is None


class Gone:
    """A class that a later version does not have."""

    def __init__(self, number: int) -> None:
        self.number = number


@needs_diskcache
@pytest.mark.slow
def test_processes_that_share_a_cache_all_get_the_result(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        found = list(pool.map(lambda number: run(folder, text=texts[number % 2]), range(12)))
    assert {ended.code for ended in found} == {0}
    assert len({ended.out for ended in found}) == 2
    assert entries(folder) == 2


texts = (ADD_ONE, re.sub("add_one", "add_two", ADD_ONE))


@needs_diskcache
def test_code_of_a_module_is_kept_for_the_python_call(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with new_context():
        module = ir.Module.parse(ADD_ONE)
        mlir_async_pipe.pipeline(module, target="nvvm:sm_80")
        first = mlir_async_pipe.lower(module, target="nvvm:sm_80")
        calls = []
        original = lowering.lower
        monkeypatch.setattr(
            lowering, "lower", lambda *a, **k: (calls.append(k), original(*a, **k))[1]
        )
        assert mlir_async_pipe.lower(module, target="nvvm:sm_80") == first
        assert calls == []
        assert mlir_async_pipe.lower(module, target="nvvm:sm_80", cache=False) == first
        assert len(calls) == 1
        mlir_async_pipe.lower(module, target="nvvm:sm_90")
        assert len(calls) == 2
    cache.clear()
    assert entries(folder) == 0
