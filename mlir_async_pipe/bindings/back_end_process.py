"""Runs pass pipelines over module text in a child process, with bindings of its own.

    data = yield from run(Request("flydsl", text, ("builtin.module(…)",), "", "object"))

Back ends end their process on a fatal error ("Cannot select"), and crash on what is not fully
lowered; a child keeps that away from the caller. Since only text is handed over, the module
may live in one MLIR stack and its code come from another one.

The child (`python -m mlir_async_pipe.bindings.back_end_process STACK`) reads a request as JSON on
its standard input and answers as JSON on its standard output. It imports nothing but the bindings,
and does so before it reads: a child that `warm_up` started early is ready when it is needed.
"""

from __future__ import annotations

import base64
import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Generator
from dataclasses import asdict, dataclass
from typing import Any, Literal

from mlir_async_pipe import bindings
from mlir_async_pipe.session.diagnostics import LoweringError, Place

# What may stand in a module that is translated to LLVM IR.
_TRANSLATED = ("llvm.", "rocdl.", "nvvm.", "gpu.module", "gpu.binary", "gpu.container", "builtin.")

# The library behind `dialects.gpu`, without the op classes.
_GPU_ATTRIBUTES = "_mlir_libs._mlirDialectsGPU"


@dataclass(frozen=True)
class Request:
    """What a child is asked for.

    `stack` names the bindings. `lowering` pipelines run one by one; then no op may be left that
    cannot be translated, and the `binary` pipeline runs, if there is one. `answer` is "module"
    (its text) or "object" (the bytes of the first object of the first gpu.binary).
    """

    stack: str
    text: str
    lowering: tuple[str, ...]
    binary: str
    answer: Literal["module", "object"]


def run(request: Request) -> Generator[None, None, bytes]:
    """Ask a child; yields while it works, returns the module's text as UTF-8 or the object's bytes.

    The child is ended if nobody waits for its answer. Raises LoweringError: left-over-op and
    lowering-failed at their places in the text, codegen-failed where the back end gave up.
    """
    child = _warm.pop(request.stack, None) or _start(request.stack)
    try:
        _send(child, json.dumps(asdict(request)).encode())
        yield
        answered, complained = child.communicate()
    finally:
        if child.returncode is None:
            child.kill()
            child.communicate()
    complaint = complained.decode(errors="replace").strip()
    if child.returncode != 0 or not answered:
        raise LoweringError(
            f"the back end of '{request.stack}' gave up: {_first_error(complaint)}",
            code="codegen-failed",
        )
    answer = json.loads(answered)
    if "code" in answer:
        place = Place(answer["file"], answer["line"], answer["column"])
        raise LoweringError(answer["message"], code=answer["code"], at=place)
    return base64.b64decode(answer["data"])


_warm: dict[str, subprocess.Popen[bytes]] = {}


def warm_up(stack: str) -> None:
    """Start the child of the next request to `stack`; it ends by itself if none comes."""
    if stack not in _warm:
        _warm[stack] = _start(stack)


def _start(stack: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "mlir_async_pipe.bindings.back_end_process", stack],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )


def _send(child: subprocess.Popen[bytes], asked: bytes) -> None:
    """Hand over the whole request; a child that has died says why elsewhere."""
    assert child.stdin is not None
    with contextlib.suppress(BrokenPipeError), child.stdin:
        child.stdin.write(asked)
    # What is closed cannot be flushed, and communicate would.
    child.stdin = None


def _first_error(text: str) -> str:
    """The line of a process's complaint that says most: LLVM's fatal error, else the last."""
    lines = [line for line in text.splitlines() if line.strip()]
    for line in lines:
        found = re.search(r"(?:LLVM ERROR|error): (.*)", line)
        if found:
            return found.group(1)
    return lines[-1] if lines else "it ended without a word"


def _failure(code: str, message: str, place: Place) -> dict[str, Any]:
    return {
        "code": code,
        "message": message,
        "file": place.file,
        "line": place.line,
        "column": place.column,
    }


def _answer(request: Request) -> dict[str, Any]:
    """Do what is asked, in the child."""
    ir, passmanager = bindings.load("ir"), bindings.load("passmanager")
    context = bindings.new_context()
    with context, ir.Location.unknown(context):
        module = ir.Module.parse(request.text)
        for pipeline in request.lowering:
            failed = _run(passmanager, pipeline, module, ir)
            if failed is not None:
                return failed
        left = _left_over(module, ir) if request.binary else None
        if left is not None:
            return left
        if request.binary:
            failed = _run(passmanager, request.binary, module, ir)
            if failed is not None:
                return failed
        data = _object(module) if request.answer == "object" else str(module).encode()
    return {"data": base64.b64encode(data).decode()}


def _run(passmanager: Any, pipeline: str, module: Any, ir: Any) -> dict[str, Any] | None:
    try:
        passmanager.PassManager.parse(pipeline).run(module.operation)
    except ir.MLIRError as error:
        found = [
            entry for entry in error.error_diagnostics if "failed to legalize" not in str(entry)
        ]
        first = (found or list(error.error_diagnostics))[:1]
        message = str(first[0].message) if first else str(error).strip()
        place = Place.of(first[0].location) if first else Place()
        return _failure("lowering-failed", message, place)
    return None


def _left_over(module: Any, ir: Any) -> dict[str, Any] | None:
    """An op that no translation to LLVM IR exists for; translating it would crash."""
    found: list[Any] = []

    def visit(op: Any) -> Any:
        if not op.operation.name.startswith(_TRANSLATED):
            found.append(op.operation)
        return ir.WalkResult.ADVANCE

    for op in module.body.operations:
        if op.operation.name == "gpu.module":
            op.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    if not found:
        return None
    return _failure(
        "left-over-op", f"'{found[0].name}' was not lowered to LLVM", Place.of(found[0])
    )


def _object(module: Any) -> bytes:
    gpu = bindings.load(_GPU_ATTRIBUTES)
    for op in module.body.operations:
        if op.operation.name == "gpu.binary":
            data: bytes = gpu.ObjectAttr(op.operation.attributes["objects"][0]).object
            return data
    return b""


def main(stack: str) -> int:
    """The child's side: one request in, one answer out."""
    bindings.use(stack, stub_parents=True)
    bindings.without_op_classes()
    for needed in ("ir", "passmanager", _GPU_ATTRIBUTES):
        bindings.load(needed)
    text = sys.stdin.read()
    if text:
        asked = json.loads(text)
        asked["lowering"] = tuple(asked["lowering"])
        json.dump(_answer(Request(**asked)), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
