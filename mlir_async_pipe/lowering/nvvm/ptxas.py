"""Assembles PTX with NVIDIA's ptxas, and reads what it says about registers, spills and products.

NVIDIA's tools and libdevice are found in pip's packages, on the path, or in CUDA_HOME.
"""

from __future__ import annotations

import functools
import os
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from mlir_async_pipe import cache
from mlir_async_pipe.chips.table import Chip
from mlir_async_pipe.session.diagnostics import LoweringError, UsageError

_OPTIONS = ("-v",)


@dataclass(frozen=True)
class Resources:
    """What one kernel needs: registers a thread, and bytes.

    Spills and stack are bytes a thread, shared memory bytes a block; dynamic shared memory is
    not counted here, ptxas shows 0 for it.
    """

    registers: int
    spill_store_bytes: int
    spill_load_bytes: int
    stack_frame_bytes: int
    static_shared_bytes: int


@dataclass(frozen=True)
class Assembled:
    """A cubin, the resources of its kernels by name, and what ptxas says of products of warpgroups."""

    cubin: bytes
    resources: dict[str, Resources]
    on_products: tuple[str, ...] = ()


def assemble(ptx: str, chip: Chip, *, kept: bool = True) -> Assembled:
    """Assemble a PTX module; the same one twice in a process is the same cubin, and with `kept` also in
    another process (`mlir_async_pipe.cache`). Raises LoweringError (assembler-failed), UsageError
    (tool-missing)."""
    return _assemble(ptx, chip.name, require_tool("ptxas"), kept)


@dataclass(frozen=True)
class Question:
    """What one kernel of a PTX module needs, asked when it is read."""

    kernel: str
    ptx: str
    chip: Chip
    kept: bool

    def answer(self) -> Resources | None:
        """What ptxas says; None if it does not know the kernel. Raises as `assemble` does."""
        return assemble(self.ptx, self.chip, kept=self.kept).resources.get(self.kernel)


class AnsweredLater:
    """A field of a dataclass that is given `Resources`, None, or a `Question`, which is asked when the
    field is first read: by a user, a report or a comparison."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = f"_{name}"

    def __get__(self, instance: Any, owner: type) -> Resources | None:
        # Asked of the class, it is the field's default.
        if instance is None:
            return None
        given: Resources | Question | None = vars(instance)[self._name]
        if isinstance(given, Question):
            given = vars(instance)[self._name] = given.answer()
        return given

    def __set__(self, instance: Any, given: Resources | Question | None) -> None:
        vars(instance)[self._name] = given


# PTX and then its cubin, or candidates of a tuner that differ in nothing.
@functools.lru_cache(maxsize=32)
def _assemble(ptx: str, architecture: str, ptxas: str, kept: bool) -> Assembled:
    key = ""
    if kept and cache.folder() is not None:
        # A later version may read more of the answer.
        read = [each.name for of in (Assembled, Resources) for each in fields(of)]
        key = cache.key_of_answer(ptxas, ptx, architecture, _OPTIONS, read)
        found = cache.get(key)
        if isinstance(found, Assembled):
            return found
    made = _run(ptx, architecture, ptxas)
    if key:
        cache.put(key, made)
    return made


def _run(ptx: str, architecture: str, ptxas: str) -> Assembled:
    with tempfile.TemporaryDirectory(prefix="async-pipe-") as name:
        source, output = Path(name) / "kernel.ptx", Path(name) / "kernel.cubin"
        source.write_text(ptx)
        done = subprocess.run(
            [ptxas, *_OPTIONS, f"-arch={architecture}", str(source), "-o", str(output)],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0 or not output.exists():
            why = f"ptxas refuses the code: {_first_error(done.stderr + done.stdout)}"
            raise LoweringError(why, code="assembler-failed")
        said = done.stderr + done.stdout
        on_products = tuple(match[1] for match in _ON_PRODUCTS.finditer(said))
        return Assembled(output.read_bytes(), parse_verbose(said), on_products)


_FUNCTION = re.compile(
    r"Compiling entry function '(?P<name>[^']+)'.*?"
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, "
    r"(?P<loads>\d+) bytes spill loads.*?Used (?P<registers>\d+) registers(?P<rest>[^\n]*)",
    re.DOTALL,
)
# C7510: products are serialised, and why; C7517: a wait is put in, since registers are used early.
_ON_PRODUCTS = re.compile(r"\(C75\d\d\) ([^\n]*)")
_SHARED = re.compile(r"(\d+) bytes smem")


def parse_verbose(text: str) -> dict[str, Resources]:
    """Read the output of `ptxas -v`."""
    found = {}
    for match in _FUNCTION.finditer(text):
        shared = _SHARED.search(match["rest"])
        found[match["name"]] = Resources(
            int(match["registers"]),
            int(match["stores"]),
            int(match["loads"]),
            int(match["stack"]),
            int(shared.group(1)) if shared else 0,
        )
    return found


def _first_error(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return next((line for line in lines if "error" in line or "fatal" in line), " ".join(lines[:1]))


# Which pip package of the extra `nvidia` brings a tool.
_PACKAGES = {"ptxas": "nvidia-cuda-nvcc", "nvdisasm": "nvidia-cuda-nvdisasm"}


@functools.cache
def find_tool(name: str) -> str | None:
    """The path of `ptxas` or `nvdisasm`, None if it is not installed."""
    for folder in _package_folders():
        for candidate in sorted(folder.glob(f"*/bin/{name}"), reverse=True):
            if os.access(candidate, os.X_OK):
                return str(candidate)
    home = os.environ.get("CUDA_HOME", "/usr/local/cuda")
    return shutil.which(name) or shutil.which(name, path=str(Path(home) / "bin"))


def require_tool(name: str) -> str:
    """The path of a tool. Raises UsageError (tool-missing)."""
    found = find_tool(name)
    if found is None:
        why = f"'{name}' is not installed"
        advice = f"pip install {_PACKAGES.get(name, 'the CUDA toolkit')}"
        raise UsageError(why, code="tool-missing", advice=advice)
    return found


@functools.cache
def find_libdevice() -> str | None:
    """The bitcode of CUDA's math functions (`__nv_expf` and so on), None if it is not there."""
    for folder in _package_folders():
        for candidate in sorted(folder.glob("*/nvvm/libdevice/libdevice.*.bc"), reverse=True):
            return str(candidate)
    home = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda"))
    return next((str(path) for path in home.glob("nvvm/libdevice/libdevice.*.bc")), None)


def _package_folders() -> list[Path]:
    return [Path(entry) / "nvidia" for entry in sys.path if (Path(entry) / "nvidia").is_dir()]
