"""What a user promises of tensor maps that are made elsewhere, on the host: which box a copy by them moves.

    assume-boxes=0=128x64xf16,2+64=64x64xf16

    nvvm.cp.async.bulk.tensor… by the map that argument 0 is    -->  … {async_pipe.box = memref<128x64xf16>}
    … by the map at byte 64 of argument 2                       -->  … {async_pipe.box = memref<64x64xf16>}

A promise that nothing uses, or that no tensor map can keep, is an error: the user means another argument.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, symbol_name, walk
from mlir_async_pipe.facts.values.map_memory import given_place
from mlir_async_pipe.facts.values.memory_roots import parameter_of, root_of
from mlir_async_pipe.session.diagnostics import UsageError
from mlir_async_pipe.vocabulary import groups_of, row_of
from mlir_async_pipe.vocabulary.tensor_boxes import BOX, box_of

_PROMISE = re.compile(r"(?:([\w$.]+):)?(\d+)(?:\+(\d+))?=((?:\d+x)+)([a-zA-Z]\w*)")


class Promise(NamedTuple):
    """The box of the map at a byte of an argument, of the kernel of a name or of all."""

    text: str
    kernel: str | None
    argument: int
    byte: int
    box: str

    def is_of(self, kernel: str, argument: int, byte: int) -> bool:
        return self.kernel in (None, kernel) and (self.argument, self.byte) == (argument, byte)


def read(text: str) -> list[Promise]:
    """The promises of an option `[KERNEL:]ARGUMENT[+BYTE]=SHAPExTYPE,…`. Raises UsageError (bad-option-value)."""
    promises = []
    for part in filter(None, text.split(",")):
        found = _PROMISE.fullmatch(part)
        if found is None:
            raise UsageError(
                f"'{part}' of assume-boxes is no box",
                code="bad-option-value",
                advice="the number of the argument, and the box as a shape whose rows come last: 0=128x64xf16; "
                "1+64=… for a map at byte 64 of argument 1, gemm:0=… for one kernel",
            )
        kernel, argument, byte, shape, kind = found.groups()
        box = f"memref<{shape}{kind}>"
        promises.append(Promise(part, kernel, int(argument), int(byte or 0), box))
    return promises


def promise(root: Operation, promises: list[Promise]) -> None:
    """Write the boxes to the tensor copies by maps that are given. Raises InputError (bad-box), UsageError (unused-box)."""
    unused = set(promises)
    given: list[str] = []
    for op in walk(root):
        place = _map_of(op)
        if place is None or box_of(op) is not None:
            continue
        function, argument, byte = place
        kernel = symbol_name(function)
        given.append(f"{kernel}:{argument}" + (f"+{byte}" if byte else ""))
        for one in promises:
            if one.is_of(kernel, argument, byte):
                op.attributes[BOX] = _attribute(op, one)
                box_of(op)
                unused.discard(one)
    if unused:
        one = next(promise for promise in promises if promise in unused)
        raise UsageError(
            f"no tensor copy is by the map of '{one.text}'",
            code="unused-box",
            advice="maps whose box nothing says: " + (", ".join(dict.fromkeys(given)) or "none"),
        )


def _map_of(op: Operation) -> tuple[Operation, int, int] | None:
    """The function, the number of the argument and the byte in it of the map by which an op copies."""
    copies = "tensor_map" in row_of(op).operands
    place = given_place(op.operands[groups_of(op)["tensor_map"][0]]) if copies else None
    parameter = None if place is None else parameter_of(root_of(place[0]))
    return None if place is None or parameter is None else (*parameter, place[1])


def _attribute(op: Operation, one: Promise) -> Any:
    try:
        return ir.TypeAttr.get(ir.Type.parse(one.box, op.context), op.context)
    except ir.MLIRError:
        raise UsageError(
            f"'{one.text}' of assume-boxes is no type of MLIR", code="bad-option-value"
        ) from None
