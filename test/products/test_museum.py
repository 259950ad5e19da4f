"""The museum of public bugs: each is named with its code, the machine fails with the numbers of the finding,
and what was mended is proven, and computes what NumPy does.

Covers: examples/museum, docs/museum.md, cmake-free-scripts/write_museum.py
"""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from helpers.paths import ROOT
from mlir_async_pipe import examples, machine
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.machine import SCHEDULES
from mlir_async_pipe.tool.execution import argument


def _loaded() -> ModuleType:
    path = ROOT / "cmake-free-scripts" / "write_museum.py"
    spec = importlib.util.spec_from_file_location("write_museum", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["write_museum"] = module
    spec.loader.exec_module(module)
    return module


MUSEUM = _loaded()
Array = Any


def rows(x: Array, tiles: int) -> Array:
    """Each tile of 64 numbers, mirrored."""
    return x[: 64 * tiles].reshape(tiles, 64)[:, ::-1]


def filled(out: Array, place: Any, numbers: Array) -> Array:
    """Zeros of the shape of `out`, and numbers in a place."""
    made = np.zeros_like(out)
    made[place] = numbers
    return made


def product(a: Array, b: Array, c: Array, *n: int) -> Array:
    return a.astype(np.float32) @ b.astype(np.float32)


def thin(a: Array, n: int) -> list[Array]:
    """The first 16 columns of each tile of 64."""
    return [a[:, 64 * i : 64 * i + 16] for i in range(n)]


def ring(x: Array, out: Array, n: int) -> Array:
    """Tile i in column i."""
    return filled(out, np.s_[:, :n], rows(x, n).T)


def normed(x: Array, out: Array) -> Array:
    off = x - x.mean()
    return off / (off * off).mean()


# The code of the first finding, and what the mended kernel computes of its arguments.
BUGS: dict[str, tuple[str, Callable[..., Array]]] = {
    "tilelang-2668": ("read-in-flight", lambda x, first, out, n: first + x[: n - 1].sum(0)),
    "fb-triton-2058": ("read-in-flight", lambda a, b, out, n: (a * b)[:n, ::-1].sum(0)),
    "hipkittens-40": ("read-in-flight", lambda a, out, n: a[: n + 2, ::-1].sum(0)),
    "rocm-libraries-7839": ("read-in-flight", lambda a, out, n: a[:n, ::-1].sum(0)),
    "rocm-libraries-7878": (
        "read-in-flight",
        lambda a, out, n: a[:n].sum(0).reshape(4, 32)[:, ::-1].ravel(),
    ),
    "triton-8139": ("read-in-flight", lambda a, out, uses, n: filled(out, np.s_[:n], a[:n])),
    "triton-3106": ("source-overwritten", product),
    "deepep-657": ("source-overwritten", lambda x, y, n: filled(y, np.s_[: 64 * n], x[: 64 * n])),
    "uccl-mkernel-18": (
        "source-overwritten",
        lambda x, y, n, tasks: filled(y, np.s_[: 64 * tasks], np.tile(rows(x, n).sum(0), tasks)),
    ),
    "tilelang-2613": (
        "missing-barrier",
        lambda a, out, n: np.repeat((1, -1), 128) * a[:n, ::-1].sum(0),
    ),
    "tilelang-2698": ("missing-barrier", lambda a, out: np.r_[a[:128], [-1] * 64, a[192:]]),
    "tilelang-2556": ("missing-barrier", lambda a, out: a[::-1]),
    "tensorrt-llm-18339": ("missing-barrier", lambda x, out, n: np.full_like(out, x[:n].sum())),
    "flashinfer-3607": ("missing-barrier", normed),
    "fb-triton-3394": ("missing-barrier", lambda a, out, n: a[:n, ::-1].sum(0)),
    "rocm-libraries-4713": ("missing-barrier", lambda k, v, out: (k[0] * v)[::-1]),
    "aiter-4537": ("missing-barrier", lambda a, out, n: a[:n, ::-1].sum(0)),
    "aiter-4851": ("missing-barrier", lambda a, out, n: a[:n, ::-1].sum(0)),
    "rocm-libraries-10653": ("missing-barrier", lambda a, out, n: a[:n, ::-1].sum(0)),
    "tilelang-2674": (
        "phase-not-flipped",
        lambda x, out, n, works: filled(out, np.s_[:, :works], rows(x, n).sum(0)[:, None]),
    ),
    "tilelang-2927": ("wrong-parity", lambda x, out: rows(x, 4).T),
    "tensorrt-llm-15338": ("phase-not-flipped", ring),
    "cutlass-2418": ("deadlock", ring),
    "tilelang-2566": ("deadlock", lambda x, out: x[::-1]),
    "tilelang-3087": (
        "phase-not-flipped",
        lambda a, out, n: sum(product(part, part[:32].T, out) for part in thin(a, n)),
    ),
    "flashinfer-4732": ("too-many-arrivals", ring),
    "flashinfer-4533": ("too-many-arrivals", lambda x, out: np.repeat(x.reshape(2, 64).sum(1), 64)),
    "transformer-engine-2554": ("out-of-bounds", lambda x, out: np.full_like(out, x.sum())),
    "cutlass-3643": ("overwrite-in-flight", lambda x, out: np.stack([rows(x, 5)] * 2)),
    "fb-triton-3472": (
        "too-many-arrivals",
        lambda x, out: filled(out, np.s_[:, :4], x[:256].reshape(4, 2, 32).transpose(1, 0, 2)),
    ),
    "llvm-nvdsl-ch2": ("missing-fence", lambda x, y, out, alpha: alpha * x + y),
    "llvm-nvdsl-ch3": ("missing-fence", product),
    "llvm-nvdsl-ch4": ("missing-fence", product),
    "llvm-nvdsl-ch5": ("deadlock", product),
}


SLOW: dict[str, Callable[..., Array]] = {
    "tilelang-2505": lambda a, b, c, out, n: (a + b + c)[:n, ::-1].sum(0),
    "fb-triton-2153": lambda a, out, n: a[:n, ::-1].sum(0),
}


def test_there_are_as_many_pairs_as_the_page_says() -> None:
    files = {path.name for path in MUSEUM.MUSEUM.glob("*.mlir")}
    assert sorted(BUGS) == sorted(MUSEUM.names())
    pairs = {f"{name}.{end}.mlir" for name in BUGS for end in ("buggy", "fixed")}
    assert files == pairs | {f"{name}.{end}.mlir" for name in SLOW for end in ("slow", "fixed")}
    assert len(BUGS) >= 25


def runs(kernel: Any, numbers: dict[int, int]) -> Iterator[tuple[list[Any], Any]]:
    """The arguments and what came of them, whenever copies arrive and whoever is first; some arguments are
    other `numbers` than the command of the kernel has."""
    given = [argument(text, place) for place, text in enumerate(kernel.options["arg"])]
    for place, number in numbers.items():
        given[place] = number
    grid = int(kernel.options.get("grid", ["1"])[0])
    with new_context():
        module = ir.Module.parseFile(str(kernel.path))
        orders = [("eager", "lockstep", 0), *(("late", schedule, 0) for schedule in SCHEDULES)]
        for completion, schedule, seed in [*orders, *(("late", "random", n) for n in range(1, 4))]:
            yield (
                given,
                machine.run(
                    module,
                    kernel.options["run"][0],
                    given,
                    grid=grid,
                    completion=completion,
                    schedule=schedule,
                    seed=seed,
                    target=kernel.target,
                ),
            )


@pytest.mark.parametrize("name", BUGS)
def test_a_bug_is_named_and_the_machine_fails_with_what_is_said(name: str) -> None:
    kernel = MUSEUM.read(f"{name}.buggy")
    found = MUSEUM.errors(MUSEUM.checked(kernel))
    assert f"[{BUGS[name][0]}]" in found[0].splitlines()[0]
    for text in found:
        numbers = {int(place): int(n) for place, n in re.findall(r"%arg(\d+) = (\d+)", text)}
        beside = {"out-of-bounds"} - {BUGS[name][0]}
        assert any(ran.race_codes - beside for _, ran in runs(kernel, numbers)), text


@pytest.mark.parametrize("name", BUGS)
def test_what_was_mended_is_proven_and_computes_what_it_should(name: str) -> None:
    kernel = MUSEUM.read(f"{name}.fixed")
    (checks,) = MUSEUM.checked(kernel).of("checks")
    assert (checks.unsafe, checks.unknown) == (0, 0)
    assert checks.accesses >= 3
    for given, ran in runs(kernel, {}):
        assert ran.races == ()
        out = [one for one in ran.arrays if one is not None][-1]
        assert np.allclose(out, BUGS[name][1](*given), rtol=1e-4, atol=1e-2)


def test_a_pair_differs_in_what_is_mended_alone() -> None:
    """They run by the same command, and their comments name the same bug."""
    for name in BUGS:
        was, mended = (MUSEUM.read(f"{name}.{end}") for end in ("buggy", "fixed"))
        assert was.options == mended.options
        assert mended.source == f"{was.source}, mended"
        assert examples.target_of(f"museum/{name}.buggy") == was.target


@pytest.mark.parametrize("name", SLOW)
def test_a_wait_that_is_too_strong_gets_the_count_of_the_mended_one(name: str) -> None:
    """Both are proven, and compute what they should; no count of the mended one can be larger."""
    was, mended = (MUSEUM.read(f"{name}.{end}") for end in ("slow", "fixed"))
    for kernel in (was, mended):
        (checks,) = MUSEUM.checked(kernel).of("checks")
        assert (checks.unsafe, checks.unknown) == (0, 0)
        for given, ran in runs(kernel, {}):
            assert ran.races == ()
            assert np.allclose(ran.arrays[-2], SLOW[name](*given), rtol=1e-4, atol=1e-2)
    said, relaxed = MUSEUM.relaxed(was)
    assert said
    assert all("[relaxed-wait]" in text for text in said)
    assert MUSEUM.relaxed(mended) == ([], relaxed)


TIMES = re.compile(r"^\d+ and \d+ ms\.$", re.MULTILINE)


def test_the_page_is_what_the_checker_says() -> None:
    """But for its times. `cmake-free-scripts/write_museum.py` writes it anew."""
    assert TIMES.sub("", MUSEUM.PAGE.read_text()) == TIMES.sub("", MUSEUM.page())
