"""One copy, one read and one write of a thread's chunk, in each form that a Spec can ask for."""

from __future__ import annotations

from typing import TYPE_CHECKING

from helpers.random_lowering.lines import indices, source_type, tile_type, vector_of
from helpers.random_lowering.model import constant_kept, result_element

if TYPE_CHECKING:
    from helpers.random_lowering.kernel_text import Kernel


def copy_text(kernel: Kernel, number: int, row: str, copy: int) -> list[str]:
    """tile[place] = A[row, me], zeros where the form keeps none; returns the token if async."""
    spec, lines = kernel.spec, kernel.lines
    memory, tile = f"%A{number}", kernel.tiles[number]
    from_, to = source_type(spec, spec.sources[number]), tile_type(spec, spec.tiles[number])
    kind, width = vector_of(spec, spec.element), spec.width
    column = kernel._column(kernel.me, copy)
    place = indices(tile, kernel._column(kernel.place, copy), spec.tiles[number], spec, lines)
    at = f"{row}, {column}"
    form = spec.sources[number].copy
    if form.startswith("async"):
        kept = ""
        if form == "async-zero-fill":
            left = lines.binary("subi", kernel._bound(), column)
            left = lines.binary("maxsi", left, lines.constant(0))
            kept = ", " + lines.binary("minsi", left, lines.constant(width))
        bypass = " {bypassL1}" if spec.copy_bytes == 16 and spec.amount % 2 and not kept else ""
        return [lines.statement(
            f"nvgpu.device_async_copy {memory}[{at}], {tile}[{place}], {width}{kept}{bypass} : "
            f"{from_} to {to}", "copy", result=True,
        )]  # fmt: skip
    value = _loaded(kernel, form, memory, from_, at, column, kind)
    op = "memref.store" if width == 1 else "vector.store"
    tail = "" if width == 1 else f", {kind}"
    lines.statement(f"{op} {value}, {tile}[{place}] : {to}{tail}", "copy")
    return []


def _loaded(
    kernel: Kernel, form: str, memory: str, from_: str, at: str, column: str, kind: str
) -> str:
    lines = kernel.lines
    match form:
        case "scalar":
            return lines.statement(f"memref.load {memory}[{at}] : {from_}", "copy", True)
        case "vector":
            return lines.statement(f"vector.load {memory}[{at}] : {from_}, {kind}", "copy", True)
        case "masked" | "constant-mask":
            return _masked(kernel, form, memory, from_, at, column, kind)
        case "transfer" | "transfer-edge":
            inside = "true" if form == "transfer" else "false"
            pad = kernel_zero(kernel, scalar=True)
            return lines.statement(
                f"vector.transfer_read {memory}[{at}], {pad} {{in_bounds = [{inside}]}} : "
                f"{from_}, {kind}", "copy", True,
            )  # fmt: skip
        case "select":
            inside = lines.value(f"arith.cmpi ult, {column}, {kernel._bound()} : index")
            value = lines.statement(f"memref.load {memory}[{at}] : {from_}", "copy", True)
            zero = kernel_zero(kernel, scalar=True)
            return lines.value(f"arith.select {inside}, {value}, {zero} : {kind}")
    inside = lines.value(f"arith.cmpi ult, {column}, {kernel._bound()} : index")
    inner, zero = lines.fresh(), kernel_zero(kernel, scalar=True)
    return lines.statement(
        f"scf.if {inside} -> ({kind}) {{\n{inner} = memref.load {memory}[{at}] : {from_}\n"
        f"scf.yield {inner} : {kind}\n}} else {{\nscf.yield {zero} : {kind}\n}}", "copy", True,
    )  # fmt: skip


def _masked(
    kernel: Kernel, form: str, memory: str, from_: str, at: str, column: str, kind: str
) -> str:
    spec, lines = kernel.spec, kernel.lines
    mask_kind = f"vector<{spec.width}xi1>"
    if form == "masked":
        left = lines.binary("subi", kernel._bound(), column)
        mask = lines.value(f"vector.create_mask {left} : {mask_kind}")
    elif spec.amount % 2:
        mask = lines.value(f"vector.constant_mask [{constant_kept(spec)}] : {mask_kind}")
    else:
        kept = constant_kept(spec)
        flags = ", ".join(["true"] * kept + ["false"] * (spec.width - kept))
        mask = lines.constant(f"dense<[{flags}]>", mask_kind)
    zeros = kernel_zero(kernel, scalar=False)
    return lines.statement(
        f"vector.maskedload {memory}[{at}], {mask}, {zeros} : {from_}, {mask_kind}, {kind} "
        f"into {kind}", "copy", True,
    )  # fmt: skip


def kernel_zero(kernel: Kernel, *, scalar: bool) -> str:
    spec = kernel.spec
    text = "false" if spec.element.name == "i1" else spec.element.literal(0)
    if scalar:
        return kernel.lines.constant(text, spec.element.name)
    return kernel.lines.constant(f"dense<{text}>", f"vector<{spec.width}x{spec.element.name}>")


def read_text(kernel: Kernel, number: int, copy: int) -> str:
    """The chunk that the partner copied."""
    spec, lines = kernel.spec, kernel.lines
    tile, shape = kernel.tiles[number], spec.tiles[number]
    to, kind = tile_type(spec, shape), vector_of(spec, spec.element)
    column = kernel._column(kernel.other, copy)
    if spec.width == 1:
        at = indices(tile, column, shape, spec, lines)
        return lines.statement(f"memref.load {tile}[{at}] : {to}", "read", True)
    if spec.read == "scalar":
        value = kernel_zero(kernel, scalar=False)
        for element in range(spec.width):
            here = lines.binary("addi", column, lines.constant(element)) if element else column
            at = indices(tile, here, shape, spec, lines)
            one = lines.statement(f"memref.load {tile}[{at}] : {to}", "read", True)
            value = lines.value(f"vector.insert {one}, {value} [{element}] : {spec.element.name} into {kind}")  # fmt: skip
        return value
    at = indices(tile, column, shape, spec, lines)
    if spec.read == "transfer":
        pad = kernel_zero(kernel, scalar=True)
        return lines.statement(
            f"vector.transfer_read {tile}[{at}], {pad} {{in_bounds = [true]}} : {to}, {kind}",
            "read", True,
        )  # fmt: skip
    if spec.read == "masked":
        mask_kind = f"vector<{spec.width}xi1>"
        mask = lines.constant("dense<true>", mask_kind)
        zeros = kernel_zero(kernel, scalar=False)
        return lines.statement(
            f"vector.maskedload {tile}[{at}], {mask}, {zeros} : {to}, {mask_kind}, {kind} "
            f"into {kind}", "read", True,
        )  # fmt: skip
    return lines.statement(f"vector.load {tile}[{at}] : {to}, {kind}", "read", True)


def write_text(kernel: Kernel, value: str, row: str, copy: int) -> None:
    """D[row * columns + me] = value"""
    spec, lines = kernel.spec, kernel.lines
    element = result_element(spec)
    kind, to = vector_of(spec, element), f"memref<?x{element.name}>"
    start = lines.binary("muli", row, lines.constant(spec.columns))
    at = lines.binary("addi", start, kernel._column(kernel.me, copy))
    if spec.width == 1:
        lines.statement(f"memref.store {value}, %D[{at}] : {to}", "write")
    elif spec.write == "scalar":
        for number in range(spec.width):
            one = lines.value(f"vector.extract {value}[{number}] : {element.name} from {kind}")
            here = lines.binary("addi", at, lines.constant(number)) if number else at
            lines.statement(f"memref.store {one}, %D[{here}] : {to}", "write")
    elif spec.write == "transfer":
        lines.statement(
            f"vector.transfer_write {value}, %D[{at}] {{in_bounds = [true]}} : {kind}, {to}",
            "write",
        )
    else:
        lines.statement(f"vector.store {value}, %D[{at}] : {to}, {kind}", "write")
