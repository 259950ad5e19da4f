"""Lines of a kernel while it is written, and how its memories' types are spelled."""

from __future__ import annotations

from dataclasses import dataclass, field

from helpers.random_lowering.element_types import Element
from helpers.random_lowering.model import source_columns
from helpers.random_lowering.spec import Source, Spec, Tile

WG = "#gpu.address_space<workgroup>"


@dataclass
class Lines:
    """Lines of a function; each statement of the loop's body has a role."""

    constants: dict[str, str] = field(default_factory=dict)
    head: list[str] = field(default_factory=list)
    body: list[str] = field(default_factory=list)
    roles: list[str] = field(default_factory=list)
    number: int = 0

    def fresh(self) -> str:
        self.number += 1
        return f"%v{self.number}"

    def constant(self, value: int | str, kind: str = "index") -> str:
        text = f"arith.constant {value}" + ("" if kind == "i1" else f" : {kind}")
        if text not in self.constants:
            self.constants[text] = f"%c{len(self.constants)}"
        return self.constants[text]

    def value(self, text: str) -> str:
        name = self.fresh()
        self.body.append(f"{name} = {text}")
        return name

    def statement(self, text: str, role: str, result: bool = False) -> str:
        """A statement of the loop, with the role that its stage depends on."""
        self.roles.append(role)
        if result:
            return self.value(text)
        self.body.append(text)
        return ""

    def binary(self, op: str, a: str, b: str, kind: str = "index") -> str:
        return self.value(f"arith.{op} {a}, {b} : {kind}")


def vector_of(spec: Spec, element: Element) -> str:
    return element.name if spec.width == 1 else f"vector<{spec.width}x{element.name}>"


def source_type(spec: Spec, source: Source) -> str:
    name, rows = spec.element.name, spec.blocks * spec.outer * spec.trips
    columns = source_columns(spec, source)
    if source.form == "static":
        return f"memref<{rows}x{columns}x{name}>"
    if source.form == "dynamic":
        return f"memref<?x?x{name}>"
    offset = source.offset if spec.amount % 2 else "?"
    stride = source.stride if spec.amount % 3 else "?"
    return f"memref<?x?x{name}, strided<[{stride}, 1], offset: {offset}>>"


def tile_type(spec: Spec, tile: Tile) -> str:
    name, rows = spec.element.name, spec.columns // tile.row
    if rows == 1:
        return f"memref<{spec.columns}x{name}, {WG}>"
    if not tile.strided:
        return f"memref<{rows}x{tile.row + tile.pad}x{name}, {WG}>"
    return f"memref<{rows}x{tile.row}x{name}, strided<[{tile.row + tile.pad}, 1]>, {WG}>"


def scratch_elements(spec: Spec) -> int:
    return max(spec.scratch // spec.scratch_element.bytes, 2 * spec.threads)


def scratch_type(spec: Spec) -> str:
    return f"memref<{scratch_elements(spec)}x{spec.scratch_element.name}, {WG}>"


def indices(at: str, column: str, tile: Tile, spec: Spec, lines: Lines) -> str:
    """The subscripts of linear element `column` of a tile."""
    if spec.columns == tile.row:
        return column
    row = lines.constant(tile.row)
    return f"{lines.binary('divui', column, row)}, {lines.binary('remui', column, row)}"


def module_text(functions: list[str]) -> str:
    inner = "\n".join(functions)
    return (
        f"module attributes {{gpu.container_module}} {{\ngpu.module @kernels {{\n{inner}\n}}\n}}\n"
    )
