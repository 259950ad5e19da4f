"""Lit configuration: tools, and features by what is installed.

Run with `lit lit-tests`, in an environment that has the package and a stack of MLIR bindings.
`lit -Dfilecheck=python` takes the PyPI package even where an LLVM install has FileCheck.
"""

# `config` and `lit_config` are put into this file's scope by lit.
# ruff: noqa: F821

from __future__ import annotations

import glob
import os
import shutil
import sys

import lit.formats

from mlir_async_pipe import bindings

# The bindings' ir is all that these imports need of the package around it.
bindings.allow_stub_parents()
from mlir_async_pipe.lowering.nvvm.ptxas import find_tool  # noqa: E402

config.name = "mlir-async-pipe"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.test_source_root, "Output")
# Inputs of other tests, not tests.
config.excludes = ["Inputs", "Output"]


def _llvm_filecheck() -> str | None:
    """FileCheck of an LLVM install: on the path, or where Debian puts it; newest first."""
    on_path = shutil.which("FileCheck")
    if on_path is not None:
        return on_path
    versions = glob.glob("/usr/lib/llvm-*/bin/FileCheck")
    versions.sort(key=lambda path: int(path.split("/llvm-")[1].split("/")[0]), reverse=True)
    return versions[0] if versions else None


filecheck = None if lit_config.params.get("filecheck") == "python" else _llvm_filecheck()
if filecheck is None:
    # The PyPI package reads no FILECHECK_OPTS, so the option stands in the command.
    filecheck = f"{sys.executable} -m filecheck --enable-var-scope"
else:
    config.environment["FILECHECK_OPTS"] = "-enable-var-scope"

config.substitutions += [
    ("%python", sys.executable),
    (r"\bFileCheck\b", filecheck),
    (r"\basync-pipe-opt\b", f"{sys.executable} -m mlir_async_pipe.tool"),
]

for name in (bindings.ENVIRONMENT_VARIABLE, "PYTHONPATH"):
    if name in os.environ:
        config.environment[name] = os.environ[name]

config.available_features |= {f"bindings-{stack.name}" for stack in bindings.installed()}
config.available_features |= {tool for tool in ("ptxas", "nvdisasm") if find_tool(tool)}
