"""Results kept from run to run, in the user's cache folder, by the hash of all that they depend on.

The key of a result is made of the input, the options, the versions of this package, the bindings and
the tools, and the sizes and times of this package's files, so that a change of a file makes new keys.
What a tool answers depends on its input and on the tool alone (`key_of_answer`).
It needs the libraries of the extra `cache`, diskcache (SQLite; safe with several processes, drops what
was used least above 1 GiB) and platformdirs; without them nothing is kept. A cache that cannot be read
or written is as good as none: every failure here is a miss.

MLIR_ASYNC_PIPE_CACHE names another folder, or is "off".
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.metadata
import importlib.util
import os
import pickle
import shutil
import sqlite3
import subprocess
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from mlir_async_pipe import bindings

ENVIRONMENT_VARIABLE = "MLIR_ASYNC_PIPE_CACHE"
OFF = ("off", "0", "false")
_BYTES = 1 << 30
_DISTRIBUTIONS = (
    "mlir-async-pipe", "numba-cuda-mlir", "flydsl", "torch-mlir", "iree-base-compiler", "jaxlib",
    "nvidia-cutlass-dsl", "nvidia-cuda-nvcc", "nvidia-nvvm", "nvidia-cuda-nvdisasm", "numpy",
)  # fmt: skip
_TOOLS = ("ptxas", "nvdisasm", "ld.lld")
_PLACES = ("CUDA_HOME", "ROCM_PATH")


def folder() -> Path | None:
    """Where results are kept; None if they are not."""
    named = os.environ.get(ENVIRONMENT_VARIABLE, "")
    needed = ("diskcache",) if named else ("diskcache", "platformdirs")
    if named in OFF or not all(map(importlib.util.find_spec, needed)):
        return None
    if named:
        return Path(named)
    return Path(importlib.import_module("platformdirs").user_cache_dir("mlir-async-pipe"))


def key_of(kind: str, *parts: Any) -> str:
    """The key of a result of this kind that depends on `parts`, each with a `repr` of its own."""
    return _hashed((kind, _surroundings()), parts)


def key_of_answer(tool: str, *parts: Any) -> str:
    """The key of what the program at the path `tool` answers to `parts`, input and options."""
    return _hashed(("answer", _tool(tool)), parts)


def _hashed(head: Any, parts: tuple[Any, ...]) -> str:
    found = hashlib.sha256(repr(head).encode())
    for part in parts:
        found.update(part if isinstance(part, bytes) else repr(part).encode())
        found.update(b"\0")
    return found.hexdigest()


def get(key: str) -> Any:
    """What was kept under `key`; None if nothing was, or it cannot be read any more."""
    return _guarded(lambda kept: kept.get(key))


def put(key: str, value: Any) -> None:
    """Keep `value`, which is not None, under `key`."""
    _guarded(lambda kept: kept.set(key, value))


def clear() -> None:
    """Forget everything."""
    _guarded(lambda kept: kept.clear())


def _guarded(use: Callable[[Any], Any]) -> Any:
    where = folder()
    if where is None:
        return None
    diskcache = importlib.import_module("diskcache")
    try:
        with diskcache.Cache(
            str(where), size_limit=_BYTES, eviction_policy="least-recently-used", timeout=5
        ) as kept:
            return use(kept)
    # A class that is gone, a file that somebody broke, a full disk.
    except (
        OSError, sqlite3.Error, diskcache.Timeout, pickle.PickleError, AttributeError, ImportError,
        EOFError, TypeError, ValueError,
    ):  # fmt: skip
        return None


@lru_cache(maxsize=1)
def _surroundings() -> tuple[Any, ...]:
    """What a result depends on beside its input: versions, tools, and our files."""
    versions = tuple(map(_version, _DISTRIBUTIONS))
    tools = tuple(_stamp(Path(found)) for found in map(shutil.which, _TOOLS) if found)
    places = tuple(os.environ.get(name, "") for name in _PLACES)
    ours = tuple(map(_stamp, sorted(Path(__file__).parent.rglob("*.py"))))
    return bindings.current(), versions, tools, places, ours, _libraries()


@lru_cache(maxsize=16)
def _tool(path: str) -> tuple[Any, ...]:
    """What changes when a tool is replaced: its file, and what it says of itself, since the file may
    be a script that starts another one."""
    told = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return _stamp(Path(path)), told.stdout


def _version(distribution: str) -> str:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return ""


def _libraries() -> tuple[Any, ...]:
    """The libraries of the bindings: a local build has no version."""
    top, *inner = bindings.current().prefix.split(".")
    spec = importlib.util.find_spec(top)
    roots = [] if spec is None else list(spec.submodule_search_locations or ())
    files = [file for root in roots for file in Path(root, *inner, "_mlir_libs").glob("*.so*")]
    return tuple(map(_stamp, sorted(files)))


def _stamp(file: Path) -> tuple[str, int, int]:
    found = file.stat()
    return str(file), found.st_size, found.st_mtime_ns
