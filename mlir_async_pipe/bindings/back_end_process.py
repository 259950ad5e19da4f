"""Runs pass pipelines over module text in a child process, with bindings of its own.

    data = yield from run(Request("flydsl", text, ("builtin.module(…)",), "", "object"))

Back ends end their process on a fatal error ("Cannot select"), and crash on what is not fully
lowered; a child keeps that away from the caller. Since only text is handed over, the module
may live in one MLIR stack and its code come from another one.

A child (`back_end_child`) that has answered waits for the next request of this process, one a
stack: importing the bindings takes longer than most requests (docs/speed.md). It ends with this
process; one that crashed, or whose answer nobody waits for, is ended, and the next request starts
another.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import re
import subprocess
import sys
import tempfile
import threading
from collections.abc import Generator
from typing import IO, Any

from mlir_async_pipe import bindings
from mlir_async_pipe.bindings.back_end_child import Request
from mlir_async_pipe.session.diagnostics import Diagnostic, LoweringError, UsageError
from mlir_async_pipe.session.plugins import install

# Stacks with LLVM's back end for the vendor built in, best first, and the extra that brings one.
_STACKS = {"nvvm": ("numba-cuda-mlir", "mlir"), "rocdl": ("flydsl",)}
_EXTRAS = {"nvvm": "nvidia", "rocdl": "amd"}


def back_end(lowering: str) -> str:
    """The name of an installed stack with the back end of "nvvm" or "rocdl". Raises UsageError
    (back-end-missing)."""
    installed = {stack.name for stack in bindings.installed()}
    for name in _STACKS[lowering]:
        if name in installed:
            return name
    why = f"no back end for '{lowering}' targets is installed"
    raise UsageError(why, code="back-end-missing", advice=install(_EXTRAS[lowering]))


def handed_over(gpu_module: Any, stack: str) -> str | bytes:
    """The module of a request for one gpu.module: bytecode for the stack of this process, which takes
    a third of the time of text, at both ends; else a module with it as text."""
    if bindings.current().name == stack:
        # The bindings may be chosen until now.
        from mlir_async_pipe.bindings.run_on_copy import bytes_of

        return bytes_of(gpu_module)
    kernels = gpu_module.get_asm(use_local_scope=True)
    return f"module attributes {{gpu.container_module}} {{\n{kernels}\n}}"


def run(request: Request, seconds: dict[str, float] | None = None) -> Generator[None, None, bytes]:
    """Ask a child; yields while it works, returns the module's text as UTF-8 or the object's bytes.
    How long its steps took is added to `seconds`.

    The child is ended if nobody waits for its answer. Raises LoweringError: left-over-op and
    lowering-failed at their places in the text, codegen-failed where the back end gave up."""
    waiting = _taken(request.stack)
    answer: Any = None
    if waiting is not None:
        answer, _ = yield from _ask(waiting, request)
    # What a child did before may be what kills it: then a new one is asked.
    if answer is None:
        answer, complaint = yield from _ask(_start(request.stack), request)
    if answer is None:
        why = f"the back end of '{request.stack}' gave up: {_first_error(complaint)}"
        raise LoweringError(why, code="codegen-failed")
    if isinstance(answer, Diagnostic):
        raise LoweringError(answer.message, code=answer.code, at=answer.place)
    data: bytes
    data, taken = answer
    if seconds is not None:
        for step, took in taken.items():
            seconds[step] = seconds.get(step, 0.0) + took
    return data


def _ask(child: Child, request: Request) -> Generator[None, None, tuple[Any, str]]:
    """What the child answers and complains; it waits for more if it answers, and ends if not."""
    try:
        child.send(request)
        yield
        answer = child.answer()
    except BaseException:
        child.end()
        raise
    if answer is None:
        return None, child.end()
    _keep(request.stack, child)
    return answer, ""


def warm_up(lowering: str) -> None:
    """Start the process that will make code, so that it imports its bindings meanwhile. Does nothing for an unknown
    target or without a back end; asking for code says so."""
    try:
        stack = back_end(lowering)
    except (KeyError, UsageError):
        return
    if stack not in _waiting:
        _keep(stack, _start(stack))


class Child:
    """A process that answers requests to one stack, one after the other."""

    def __init__(self, stack: str) -> None:
        # What it complains is read only if it dies: a file, since a full pipe would stop it.
        self._complaints: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mlir_async_pipe.bindings.back_end_child", stack],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._complaints,
        )

    def send(self, request: Request) -> None:
        """Hand over one request; a child that has died gives no answer."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            pickle.dump(vars(request), self.process.stdin)
            self.process.stdin.flush()

    def answer(self) -> Any:
        """What it answers, None if it has ended."""
        assert self.process.stdout is not None
        with contextlib.suppress(EOFError, pickle.UnpicklingError):
            return pickle.load(self.process.stdout)
        return None

    def end(self) -> str:
        """End it, and return what it complained."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            assert pipe is not None
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
        with self._complaints as complaints:
            complaints.seek(0)
            return complaints.read().decode(errors="replace").strip()


# The children that wait for a request, by stack; taken out while they work.
_waiting: dict[str, Child] = {}
_lock = threading.Lock()


def _start(stack: str) -> Child:
    return Child(stack)


def _taken(stack: str) -> Child | None:
    with _lock:
        child = _waiting.pop(stack, None)
    if child is not None and child.process.poll() is not None:
        child.end()
        return None
    return child


def _keep(stack: str, child: Child) -> None:
    """Let `child` wait for the next request; of two that wait for one stack one is enough."""
    with _lock:
        one_too_many = _waiting.setdefault(stack, child) is not child
    if one_too_many:
        child.end()


@atexit.register
def end_waiting() -> None:
    """End the children that wait; the next request starts a new one."""
    while _waiting:
        _waiting.popitem()[1].end()


# A forked process must not talk to its parent's children.
os.register_at_fork(after_in_child=_waiting.clear)


def _first_error(text: str) -> str:
    """The line of a process's complaint that says most: LLVM's fatal error, else the last."""
    found = re.search(r"(?:LLVM ERROR|error): (.*)", text)
    return found[1] if found else text.rpartition("\n")[2] or "it ended without a word"
