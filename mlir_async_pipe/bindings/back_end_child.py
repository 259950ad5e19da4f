"""The child's side of `back_end_process`: reads requests and answers them.

    python -m mlir_async_pipe.bindings.back_end_child STACK

A request is the fields of a `Request`, pickled, on standard input. Its answer on standard output is the bytes
that were made and the seconds of each step, or the `Diagnostic` that says why there are none. The
child ends where its input ends, so with its parent, also while it works. It imports nothing but the
bindings, and does so before it reads: a child that was started early is ready when it is needed.
"""

from __future__ import annotations

import importlib
import os
import pickle
import re
import sys
import time
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Literal

from mlir_async_pipe import bindings
from mlir_async_pipe.session.diagnostics import LoweringError, Place
from mlir_async_pipe.session.parent import ending_with_parent

# What may stand in a module that is translated to LLVM IR.
_TRANSLATED = ("llvm.", "rocdl.", "nvvm.", "gpu.module", "gpu.binary", "gpu.container", "builtin.")

# The library behind `dialects.gpu`, without the op classes.
_GPU_ATTRIBUTES = "_mlir_libs._mlirDialectsGPU"


@dataclass(frozen=True)
class Request:
    """What a child is asked for.

    `stack` names the bindings. `module` is the text of one, or the bytecode of one gpu.module. `lowering` pipelines
    run one by one, then `rewrite`, a function of the module's op and a text ("package.module:function:text",
    imported when it is first asked for). Now no op may be left that cannot be translated, unless who asks has
    `checked` that there is none, and the `binary` pipeline runs, if there is one. `answer` is "module" (its text)
    or "object" (the bytes of the first object of the first gpu.binary)."""

    stack: str
    module: str | bytes
    lowering: tuple[str, ...]
    binary: str
    answer: Literal["module", "object"]
    rewrite: str = ""
    checked: bool = False


def main(stack: str) -> int:
    """Answer requests until there are no more."""
    # A library that prints must not write between the answers.
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    # The bindings import NumPy if it is there, and do without it if not.
    sys.modules["numpy"] = None  # type: ignore[assignment]
    bindings.use(stack, stub_parents=True)
    bindings.without_op_classes()
    for needed in ("ir", "passmanager", _GPU_ATTRIBUTES):
        bindings.load(needed)
    # A context of its own for each request, made before the request is there.
    context = bindings.new_context()
    requests: Any = sys.stdin.buffer
    while requests.peek(1):
        request = Request(**pickle.load(requests))
        with ending_with_parent(sys.stdin.fileno()):
            try:
                answer: Any = _answer(request, context)
            except LoweringError as error:
                answer = error.diagnostic
        pickle.dump(answer, answers)
        answers.flush()
        context = bindings.new_context()
    return 0


def _answer(request: Request, context: Any) -> tuple[bytes, dict[str, float]]:
    """Do what is asked. Raises LoweringError."""
    ir = bindings.ir
    marks = [("", time.perf_counter())]
    with context, ir.Location.unknown(context):
        module = ir.Module.parse(request.module)
        if isinstance(request.module, bytes):
            # That of one gpu.module got a module around it.
            module.operation.attributes["gpu.container_module"] = ir.UnitAttr.get()
        marks.append(("back end: parsing", time.perf_counter()))
        for pipeline in request.lowering:
            _run(pipeline, module)
        if request.rewrite:
            _rewrite(request.rewrite, module)
        marks.append(("back end: lowering", time.perf_counter()))
        if request.binary:
            if not request.checked:
                _check_translated(module)
            # Parsing and the pipelines have verified it.
            _run(request.binary, module, verifies=bool(request.rewrite))
        data = _object(module) if request.answer == "object" else str(module).encode()
        marks.append(("back end: code", time.perf_counter()))
    return data, {name: end - begin for (_, begin), (name, end) in pairwise(marks)}


def _run(pipeline: str, module: Any, *, verifies: bool = True) -> None:
    manager = bindings.passmanager.PassManager.parse(pipeline)
    manager.enable_verifier(verifies)
    try:
        manager.run(module.operation)
    except bindings.ir.MLIRError as error:
        said = list(error.error_diagnostics)
        first = next((one for one in said if "failed to legalize" not in str(one)), None)
        if first is None and said:
            first = said[0]
        message = plain(str(error if first is None else first.message))
        at = None if first is None else first.location
        raise LoweringError(message, code="lowering-failed", at=at) from None


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


def _check_translated(module: Any) -> None:
    """Raises LoweringError (left-over-op) for an op that no translation to LLVM IR exists for; translating it would
    crash."""
    # The bindings are chosen by now.
    from mlir_async_pipe.bindings.raw_ops import walk_named

    for op in module.body.operations:
        if op.operation.name == "gpu.module":
            for left in walk_named(op, lambda name: not name.startswith(_TRANSLATED)):
                why = f"'{left.name}' was not lowered to LLVM"
                raise LoweringError(why, code="left-over-op", at=Place.of(left))


def _object(module: Any) -> bytes:
    gpu = bindings.load(_GPU_ATTRIBUTES)
    for op in module.body.operations:
        if op.operation.name == "gpu.binary":
            data: bytes = gpu.ObjectAttr(op.operation.attributes["objects"][0]).object
            return data
    return b""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
