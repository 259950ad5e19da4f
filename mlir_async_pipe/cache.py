"""Results kept from call to call and from run to run, by the hash of all that they depend on.

In a process the last ones are kept in memory, 64 MiB at most (`Recent`), and those of the tool, of code
and of ptxas in the user's cache folder.

The key of a result is made of the input, the options, the versions of this package, the bindings and
the tools, and the sizes and times of this package's files, so that a change of a file makes new keys.
What a tool answers depends on its input and on the tool alone (`key_of_answer`).
It needs the libraries of the extra `cache`, diskcache (SQLite; safe with several processes, drops what
was used least above 1 GiB) and platformdirs; without them nothing is kept. A cache that cannot be read
or written is as good as none: every failure here is a miss.

MLIR_ASYNC_PIPE_CACHE names another folder, or is "off": then memory keeps nothing, either.

What only a cache that is there needs is imported then: it takes a twentieth of a short run.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import threading
from collections import OrderedDict
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


def is_off() -> bool:
    """Whether nothing is to be kept."""
    return os.environ.get(ENVIRONMENT_VARIABLE, "") in OFF


def folder() -> Path | None:
    """Where results are kept; None if they are not."""
    named = os.environ.get(ENVIRONMENT_VARIABLE, "")
    needed = ("diskcache",) if named else ("diskcache", "platformdirs")
    if is_off() or not all(map(importlib.util.find_spec, needed)):
        return None
    if named:
        return Path(named)
    return Path(importlib.import_module("platformdirs").user_cache_dir("mlir-async-pipe"))


def key_here(*parts: Any) -> str:
    """The key, in this process, of a result that depends on `parts`: its kind, bytes, and what has a `repr` of its
    own."""
    import hashlib

    found = hashlib.sha256()
    for part in parts:
        found.update(part if isinstance(part, bytes) else repr(part).encode())
        found.update(b"\0")
    return found.hexdigest()


def key_of(*parts: Any) -> str:
    """The same for all processes, whose versions and files may differ."""
    return key_here(_surroundings(), *parts)


def key_of_answer(tool: str, *parts: Any) -> str:
    """The key of what the program at the path `tool` answers to `parts`, input and options."""
    return key_here("answer", _tool(tool), *parts)


def get(key: str) -> Any:
    """What was kept under `key`; None if nothing was, or it cannot be read any more."""
    return _guarded(lambda kept: kept.get(key))


def put(key: str, value: Any) -> None:
    """Keep `value`, which is not None, under `key`."""
    _guarded(lambda kept: kept.set(key, value))


def found_or_made(parts: tuple[Any, ...], make: Callable[[], Any]) -> Any:
    """What `make` makes of `parts`, which begin with its kind: kept in memory, and in the folder for other
    processes with the same versions."""
    here = key_here(*parts)
    found = RECENT.get(here)
    if found is not None:
        return found
    # It takes longer, so it is made where it is of use.
    there = key_of(*parts) if folder() is not None else ""
    found = get(there) if there else None
    if found is None:
        found = make()
        if there:
            put(there, found)
    RECENT.put(here, found)
    return found


def clear() -> None:
    RECENT.clear()
    _guarded(lambda kept: kept.clear())


def _guarded(use: Callable[[Any], Any]) -> Any:
    where = folder()
    if where is None:
        return None
    import pickle
    import sqlite3

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
    import shutil

    versions = tuple(map(_version, _DISTRIBUTIONS))
    tools = tuple(_stamp(Path(found)) for found in map(shutil.which, _TOOLS) if found)
    places = tuple(os.environ.get(name, "") for name in _PLACES)
    ours = tuple(map(_stamp, sorted(Path(__file__).parent.rglob("*.py"))))
    return bindings.current(), versions, tools, places, ours, _libraries()


class Recent:
    """The last results of this process: `most` bytes of them, without those that were asked for least recently.
    They are kept pickled, so what is kept holds no handle of anybody's context, and who gets one may change it."""

    def __init__(self, most: int = 64 << 20) -> None:
        self._most = most
        self._bytes = 0
        self._kept: OrderedDict[str, bytes] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: str) -> Any:
        """What was kept under `key`; None if nothing was."""
        with self._lock:
            found = self._kept.get(key)
            if found is None:
                return None
            self._kept.move_to_end(key)
        import pickle

        return pickle.loads(found)

    def put(self, key: str, value: Any) -> None:
        """Keep `value`, which is not None, under `key`, unless it cannot be pickled."""
        import pickle

        try:
            content = pickle.dumps(value)
        except (pickle.PicklingError, TypeError, AttributeError):
            return
        with self._lock:
            self._bytes += len(content) - len(self._kept.pop(key, b""))
            self._kept[key] = content
            while self._bytes > self._most:
                self._bytes -= len(self._kept.popitem(last=False)[1])

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0


RECENT = Recent()


@lru_cache(maxsize=16)
def _tool(path: str) -> tuple[Any, ...]:
    """What changes when a tool is replaced: its file, and what it says of itself, since the file may
    be a script that starts another one."""
    import subprocess

    answer = subprocess.run([path, "--version"], capture_output=True, text=True, check=False)
    return _stamp(Path(path)), answer.stdout


def _version(distribution: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
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
