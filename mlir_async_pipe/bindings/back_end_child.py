"""The child's side of `back_end_process`: reads requests, answers them, one line each.

    python -m mlir_async_pipe.bindings.back_end_child STACK

A request is a line of JSON on standard input, its answer a line of JSON on standard output; the
child ends where its input ends, so with its parent, also while it works. It imports nothing but the
bindings, and does so before it reads: a child that was started early is ready when it is needed.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import re
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from mlir_async_pipe import bindings
from mlir_async_pipe.session.diagnostics import Place
from mlir_async_pipe.session.parent import ending_with_parent

# What may stand in a module that is translated to LLVM IR.
_TRANSLATED = ("llvm.", "rocdl.", "nvvm.", "gpu.module", "gpu.binary", "gpu.container", "builtin.")

# What a request's text begins with that is none.
BYTECODE = "bytecode:"

# The library behind `dialects.gpu`, without the op classes.
_GPU_ATTRIBUTES = "_mlir_libs._mlirDialectsGPU"


@dataclass(frozen=True)
class Request:
    """What a child is asked for.

    `stack` names the bindings. `text` is a module's, or BYTECODE and then base64. `lowering` pipelines run one by one, then `rewrite`, a function of
    the module's op and a text ("package.module:function:text", imported when it is first asked
    for). Now no op may be left that cannot be translated, unless who asks has `checked` that there is none,
    and the `binary` pipeline runs, if there is one. `answer` is "module" (its text) or "object" (the bytes of the first object of the first gpu.binary).
    """

    stack: str
    text: str
    lowering: tuple[str, ...]
    binary: str
    answer: Literal["module", "object"]
    rewrite: str = ""
    checked: bool = False


def main(stack: str) -> int:
    """Answer requests until there are no more."""
    # A library that prints must not write between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # The bindings import NumPy if it is there, and do without it if not.
    sys.modules["numpy"] = None  # type: ignore[assignment]
    bindings.use(stack, stub_parents=True)
    bindings.without_op_classes()
    for needed in ("ir", "passmanager", _GPU_ATTRIBUTES):
        bindings.load(needed)
    # A context of its own for each request, made before the request is there.
    context = bindings.new_context()
    for line in sys.stdin:
        asked = json.loads(line)
        asked["lowering"] = tuple(asked["lowering"])
        with ending_with_parent(sys.stdin.fileno()):
            answer = _answer(Request(**asked), context)
        print(json.dumps(answer), file=answers, flush=True)
        context = bindings.new_context()
    return 0


def _answer(request: Request, context: Any) -> dict[str, Any]:
    """Do what is asked, in the child."""
    ir, passmanager = bindings.load("ir"), bindings.load("passmanager")
    marks = [("", time.perf_counter())]
    with context, ir.Location.unknown(context):
        module = _parsed(request.text, ir)
        marks.append(("back end: parsing", time.perf_counter()))
        for pipeline in request.lowering:
            failed = _run(passmanager, pipeline, module, ir)
            if failed is not None:
                return failed
        if request.rewrite:
            _rewrite(request.rewrite, module)
        marks.append(("back end: lowering", time.perf_counter()))
        if request.binary:
            failed = None if request.checked else _left_over(module, ir)
            # Parsing and the pipelines have verified it.
            verifies = bool(request.rewrite)
            failed = failed or _run(passmanager, request.binary, module, ir, verifies=verifies)
            if failed is not None:
                return failed
        data = _object(module) if request.answer == "object" else str(module).encode()
        marks.append(("back end: code", time.perf_counter()))
    seconds = {name: end - begin for (_, begin), (name, end) in pairwise(marks)}
    return {"data": base64.b64encode(data).decode(), "seconds": seconds}


def _parsed(text: str, ir: Any) -> Any:
    """The module of a request. Bytecode is that of one gpu.module, which gets a module around it."""
    if not text.startswith(BYTECODE):
        return ir.Module.parse(text)
    module = ir.Module.parse(base64.b64decode(text.removeprefix(BYTECODE)))
    module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
    return module


def _run(
    passmanager: Any, pipeline: str, module: Any, ir: Any, *, verifies: bool = True
) -> dict[str, Any] | None:
    manager = passmanager.PassManager.parse(pipeline)
    manager.enable_verifier(verifies)
    try:
        manager.run(module.operation)
    except ir.MLIRError as error:
        found = [
            entry for entry in error.error_diagnostics if "failed to legalize" not in str(entry)
        ]
        first = (found or list(error.error_diagnostics))[:1]
        message = plain(str(first[0].message) if first else str(error))
        place = Place.of(first[0].location) if first else Place()
        return _failure("lowering-failed", message, place)
    return None


def plain(message: str) -> str:
    """What MLIR says of an op that it cannot lower, without the whole op in generic form."""
    found = _NOT_LEGAL.match(message.strip())
    return f"MLIR's conversions cannot lower '{found[1]}'" if found else message.strip()


_NOT_LEGAL = re.compile(r"failed to legalize operation '([^']*)'")


def _rewrite(name: str, module: Any) -> None:
    """Run a function of this package on the module's op; unlike the bindings it may need NumPy."""
    if sys.modules.get("numpy", sys) is None:
        del sys.modules["numpy"]
    place, function, text = name.split(":")
    getattr(importlib.import_module(place), function)(module.operation, text)


def _left_over(module: Any, ir: Any) -> dict[str, Any] | None:
    """An op that no translation to LLVM IR exists for; translating it would crash."""
    found: list[Any] = []
    # Of most ops only the name is read, and each name is looked at once.
    known: dict[str, bool] = {}

    def visit(op: Any) -> Any:
        name = op.name
        if name not in known:
            known[name] = name.startswith(_TRANSLATED)
        if not known[name]:
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


def _failure(code: str, message: str, place: Place) -> dict[str, Any]:
    return {
        "code": code,
        "message": message,
        "file": place.file,
        "line": place.line,
        "column": place.column,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
