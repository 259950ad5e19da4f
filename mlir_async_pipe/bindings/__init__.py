"""MLIR's Python bindings: one stack a process, whose modules are handed out here.

Every other file takes MLIR from here, never from a fixed prefix:

    from mlir_async_pipe.bindings import ir, passmanager

The first access decides. The order is: the name given to `use()`, the environment
variable MLIR_ASYNC_PIPE_BINDINGS, a stack that is imported already, the first stack of
`STACKS` that is installed. Two stacks in one process would have two sets of IR classes
that look alike and mix badly, so a second, different choice is refused.

Also here: `raw_ops` (reading and making operations), `run_on_copy`, and the process that makes code:
`back_end_process`, `back_end_child`. Imports only the session.
"""

from __future__ import annotations

import importlib
import importlib.util
import itertools
import os
import sys
import types
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlir_async_pipe.bindings import op_classes
from mlir_async_pipe.session.arguments import did_you_mean
from mlir_async_pipe.session.called_from import called_by_users
from mlir_async_pipe.session.diagnostics import BindingsError
from mlir_async_pipe.session.plugins import install

if TYPE_CHECKING:
    # Modules of the stack, imported when they are asked for.
    ir: Any
    passmanager: Any
    rewrite: Any

ENVIRONMENT_VARIABLE = "MLIR_ASYNC_PIPE_BINDINGS"


@dataclass(frozen=True)
class Stack:
    """One distribution of MLIR's Python bindings.

    `name` is what users type, `prefix` the Python package that holds `ir`, `passmanager`
    and `rewrite`, `distribution` what pip installs, or the extra of ours that does."""

    name: str
    prefix: str
    distribution: str


# Of ours, which bring a stack.
EXTRAS = ("nvidia", "upstream", "amd")

STACKS: tuple[Stack, ...] = (
    Stack("mlir", "mlir", "a locally built LLVM with MLIR_ENABLE_BINDINGS_PYTHON=ON"),
    Stack("numba-cuda-mlir", "numba_cuda_mlir._mlir", "nvidia"),
    Stack("torch-mlir", "torch_mlir", "upstream"),
    Stack("flydsl", "flydsl._mlir", "amd"),
    Stack("iree", "iree.compiler", "iree-base-compiler"),
    Stack("jaxlib", "jaxlib.mlir", "jaxlib"),
    Stack("cutlass", "cutlass._mlir", "nvidia-cutlass-dsl"),
)

_chosen: Stack | None = None
_stub_parents = False
_op_classes = True


@called_by_users
def use(name: str, *, stub_parents: bool = False) -> None:
    """Choose the stack called `name` (or by its Python prefix) for this process.

    With `stub_parents` the package around the bindings (a whole DSL) is replaced by an
    empty one, which saves most of the import time; only a process that owns itself, like
    the command line tool, may do that.

    Raises BindingsError if the name is unknown, not installed, or another stack is in use."""
    global _chosen, _stub_parents
    stack = _by_name(name)
    if _chosen is not None and _chosen != stack:
        raise BindingsError(
            f"bindings '{stack.name}' asked for, but '{_chosen.name}' is already in use in this process",
            code="bindings-already-chosen",
            advice="choose the bindings before the first use of mlir_async_pipe, or start a new process",
        )
    if not _installed(stack):
        why = f"bindings '{stack.name}' are not installed"
        raise BindingsError(why, code="bindings-missing", advice=_install_advice(stack))
    _stub_parents = stub_parents
    _chosen = stack


def current() -> Stack:
    """The stack of this process; chosen now if it was not yet. Raises BindingsError if no stack is installed."""
    global _chosen
    if _chosen is None:
        requested = os.environ.get(ENVIRONMENT_VARIABLE)
        if requested:
            use(requested, stub_parents=_stub_parents)
        else:
            _chosen = _first()
    assert _chosen is not None
    return _chosen


OP_CLASSES = op_classes.__name__


def allow_stub_parents() -> None:
    """Let the next import replace the package around the bindings by an empty one."""
    global _stub_parents
    _stub_parents = True


def without_op_classes() -> None:
    """Let every op stay a plain one: the stack's modules of op classes are never imported.

    They take long to import (docs/speed.md), and nothing here uses them. Like stub parents,
    only a process that owns itself may do without them."""
    global _op_classes
    _op_classes = False


def installed() -> tuple[Stack, ...]:
    """All stacks that can be imported here, in order of preference."""
    return tuple(filter(_installed, STACKS))


def load(submodule: str) -> Any:
    """Import `submodule` ("ir", "passmanager", "rewrite", "dialects.nvgpu") of the stack. Raises BindingsError if
    this stack does not have it."""
    stack = current()
    if _stub_parents:
        _import_stub_parent(stack)
    try:
        module = importlib.import_module(f"{stack.prefix}.{submodule}")
    except ImportError as error:
        why = f"bindings '{stack.name}' cannot load '{submodule}': {error}"
        advice = "choose other bindings with --bindings or " + ENVIRONMENT_VARIABLE
        raise BindingsError(why, code="bindings-incomplete", advice=advice) from error
    if submodule == "ir":
        _announce_op_classes(stack, module)
    return module


def _announce_op_classes(stack: Stack, loaded: Any) -> None:
    """Tell the bindings where the (empty) module of classes for `async_pipe` ops is. Where a stack's library
    of bindings is one of its own (cutlass), `ir` holds what they have in common."""
    try:
        library = importlib.import_module(f"{stack.prefix}._mlir_libs._mlir")
    except ImportError:
        library = None
    announced = getattr(library, "globals", None) or getattr(loaded, "_globals", None)
    if announced is None:
        return
    if not _op_classes:
        op_classes.let_all_be_empty()
        announced.dialect_search_modules = [OP_CLASSES]
    elif OP_CLASSES not in announced.dialect_search_modules:
        announced.append_dialect_search_prefix(OP_CLASSES)


def new_context() -> Any:
    """A fresh ir.Context with every dialect of the stack, unregistered dialects allowed.

    The abstract ops of `async_pipe` are unregistered in every stack, so a context that
    does not allow unregistered dialects cannot hold them."""
    context = load("ir").Context()
    if current().name == "jaxlib":
        registry = load("ir").DialectRegistry()
        importlib.import_module("jaxlib.mlir._mlir_libs._jax_mlir_ext").register_dialects(registry)
        context.append_dialect_registry(registry)
        context.load_all_available_dialects()
        # Types of Pallas' kernels, `!mosaic_gpu.barrier` among them.
        gpu = importlib.import_module("jaxlib.mlir._mlir_libs._mosaic_gpu_ext")
        gpu.register_dialect(context, True)
    context.allow_unregistered_dialects = True
    return context


def __getattr__(name: str) -> Any:
    if name in ("ir", "passmanager", "rewrite"):
        module = globals()[name] = load(name)
        return module
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _by_name(name: str) -> Stack:
    for stack in STACKS:
        if name in (stack.name, stack.prefix, stack.prefix.partition(".")[0]):
            return stack
    advice = did_you_mean(name, (stack.name for stack in STACKS), "known bindings")
    raise BindingsError(f"unknown bindings '{name}'", code="bindings-unknown", advice=advice)


def how_to_install(package: str) -> str:
    """The command that installs a Python package, which may be one of a stack."""
    stacks = (stack for stack in STACKS if stack.prefix.partition(".")[0] == package)
    return next(map(_install_advice, stacks), f"pip install {package}")


def _install_advice(stack: Stack) -> str:
    if stack.name == "mlir":
        return f"install {stack.distribution}"
    if stack.distribution in EXTRAS:
        return install(stack.distribution)
    return f"pip install '{stack.distribution}'"


def _installed(stack: Stack) -> bool:
    """Whether the bindings of `stack` are there, without importing anything. A package called `mlir` may be an
    empty placeholder, so the compiled library inside is what counts."""
    top, *rest = stack.prefix.split(".")
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):
        spec = None
    locations = list(getattr(sys.modules.get(top), "__path__", [])) or list(
        (spec.submodule_search_locations or []) if spec else []
    )
    return any(os.path.isdir(os.path.join(location, *rest, "_mlir_libs")) for location in locations)


def _first() -> Stack:
    """The stack that is imported already, else the first that is installed."""
    imported = (stack for stack in STACKS if f"{stack.prefix}.ir" in sys.modules)
    for stack in itertools.chain(imported, filter(_installed, STACKS)):
        return stack
    why = "no MLIR Python bindings are installed"
    advice = install("nvidia") + " (or [amd], [upstream])"
    raise BindingsError(why, code="bindings-missing", advice=advice)


def _import_stub_parent(stack: Stack) -> None:
    top, *rest = stack.prefix.split(".")
    if not rest or top in sys.modules or stack.name in ("iree", "jaxlib"):
        return
    spec = importlib.util.find_spec(top)
    if spec is None or not spec.submodule_search_locations:
        return
    stub = types.ModuleType(top)
    stub.__path__ = list(spec.submodule_search_locations)
    stub.__spec__ = spec
    sys.modules[top] = stub
