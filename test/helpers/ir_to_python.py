"""Turns the functions of a module into Python source, and runs that.

An interpreter for thousands of short runs: it knows integer arithmetic, memory, scf.for and
scf.if only, takes everything asynchronous as done on the spot, and shares no code with the
package. (What copies in flight do to a result is the machine's affair.)

    %1 = arith.addi %0, %c1 : i32   -->   v2 = wrap(v1 + v0, 32)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

INDEX_BITS = 64
IGNORED = (
    "memref.dealloc",
    "async_pipe.wait_queue",
    "async_pipe.yield",
    "nvgpu.device_async_wait",
    "gpu.barrier",
)
# LLVM LangRef, icmp, in the order of MLIR's enumeration.
PREDICATES = (
    ("==", False),
    ("!=", False),
    ("<", False),
    ("<=", False),
    (">", False),
    (">=", False),
    ("<", True),
    ("<=", True),
    (">", True),
    (">=", True),
)


def wrap(value: int, bits: int) -> int:
    """The signed number of `bits` bits."""
    return (value + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


def unsigned(value: int, bits: int) -> int:
    """The same bits read as an unsigned number."""
    return value % (1 << bits)


class Buffer:
    """A memref: the elements, and which part of them a view sees (dense, row major)."""

    def __init__(self, shape: tuple[int, ...], data: dict[int, Any] | None = None, start: int = 0):
        self.shape, self.start = shape, start
        self.data: dict[int, Any] = {} if data is None else data

    def _at(self, indices: tuple[int, ...]) -> int:
        flat = 0
        for index, size in zip(indices, self.shape, strict=True):
            assert 0 <= index < size, f"index {indices} outside of {self.shape}"
            flat = flat * size + index
        return self.start + flat

    def load(self, *indices: int) -> Any:
        """The element; an AssertionError if nobody wrote it."""
        place = self._at(indices)
        assert place in self.data, f"element {indices} is read before it is written"
        return self.data[place]

    def store(self, value: Any, *indices: int) -> None:
        """Write one element."""
        self.data[self._at(indices)] = value

    def slot(self, number: int, shape: tuple[int, ...]) -> Buffer:
        """The view of one index of the first dimension."""
        return Buffer(shape, self.data, self._at((number, *[0] * (len(self.shape) - 1))))


def compile_function(ir: Any, module: Any, name: str) -> Callable[..., Any]:
    """Function `name` of a module as a Python function of its arguments."""
    function = next(
        op
        for op in module.body.operations
        if "sym_name" in op.attributes and ir.StringAttr(op.attributes["sym_name"]).value == name
    )
    writer = _Writer(ir)
    block = function.regions[0].blocks[0]
    arguments = ", ".join(writer.name(a) for a in block.arguments)
    writer.lines.append(f"def run({arguments}):")
    writer.block(block, 1, [])
    scope = {"wrap": wrap, "unsigned": unsigned, "Buffer": Buffer}
    exec(compile("\n".join(writer.lines), name, "exec"), scope)
    return scope["run"]


class _Writer:
    def __init__(self, ir: Any) -> None:
        self.ir = ir
        self.lines: list[str] = []
        self.names: dict[Any, str] = {}

    def name(self, value: Any) -> str:
        return self.names.setdefault(value, f"v{len(self.names)}")

    def bits(self, value: Any) -> int:
        text = str(value.type)
        return INDEX_BITS if text == "index" else int(text[1:])

    def block(self, block: Any, depth: int, targets: list[str]) -> None:
        """All ops of a block; what it yields goes to `targets`."""
        count = len(self.lines)
        for op in block.operations:
            self.op(op.operation, "    " * depth, depth, targets)
        if len(self.lines) == count:
            self.lines.append("    " * depth + "pass")

    def op(self, op: Any, indent: str, depth: int, targets: list[str]) -> None:
        if op.name in IGNORED:
            return
        results = [self.name(r) for r in op.results]
        operands = [self.name(o) for o in op.operands]
        add = self.lines.append
        match op.name:
            case "func.return":
                add(f"{indent}return ({', '.join(operands)}{',' if operands else ''})")
            case "scf.yield":
                if targets:
                    add(f"{indent}{', '.join(targets)}, = {', '.join(operands)},")
            case "arith.constant":
                value = self.ir.IntegerAttr(op.attributes["value"]).value
                add(f"{indent}{results[0]} = {value}")
            case "arith.addi" | "arith.subi" | "arith.muli" | "arith.andi":
                sign = {"add": "+", "sub": "-", "mul": "*", "and": "&"}[op.name[6:9]]
                width = self.bits(op.results[0])
                add(f"{indent}{results[0]} = wrap({operands[0]} {sign} {operands[1]}, {width})")
            case "arith.divui" | "arith.remui":
                sign = "//" if op.name == "arith.divui" else "%"
                w = self.bits(op.results[0])
                a, b = (f"unsigned({o}, {w})" for o in operands)
                add(f"{indent}{results[0]} = wrap({a} {sign} {b}, {w})")
            case "arith.cmpi":
                number = self.ir.IntegerAttr(op.attributes["predicate"]).value
                sign, as_unsigned = PREDICATES[number]
                w = self.bits(op.operands[0])
                a, b = (f"unsigned({o}, {w})" if as_unsigned else o for o in operands)
                add(f"{indent}{results[0]} = {a} {sign} {b}")
            case "arith.select":
                add(f"{indent}{results[0]} = {operands[1]} if {operands[0]} else {operands[2]}")
            case "arith.index_cast":
                width = self.bits(op.results[0])
                add(f"{indent}{results[0]} = wrap({operands[0]}, {width})")
            case "memref.alloca" | "memref.alloc":
                shape = tuple(self.ir.MemRefType(op.results[0].type).shape)
                add(f"{indent}{results[0]} = Buffer({shape})")
            case "memref.cast":
                add(f"{indent}{results[0]} = {operands[0]}")
            case "memref.subview":
                offsets = list(self.ir.DenseI64ArrayAttr(op.attributes["static_offsets"]))
                first = operands[1] if offsets[0] < 0 else offsets[0]
                shape = tuple(self.ir.MemRefType(op.results[0].type).shape)
                assert not any(offsets[1:])
                add(f"{indent}{results[0]} = {operands[0]}.slot({first}, {shape})")
            case "memref.load":
                add(f"{indent}{results[0]} = {operands[0]}.load({', '.join(operands[1:])})")
            case "memref.store":
                rest = ", ".join([operands[0], *operands[2:]])
                add(f"{indent}{operands[1]}.store({rest})")
            case "async_pipe.commit_queue" | "nvgpu.device_async_create_group":
                add(f"{indent}{results[0]} = None")
            case "async_pipe.scope" | "scf.execute_region":
                self.block(op.regions[0].blocks[0], depth, results)
            case "scf.if":
                for keyword, region in zip(("if " + operands[0], "else"), op.regions, strict=True):
                    if len(list(region.blocks)):
                        add(f"{indent}{keyword}:")
                        self.block(region.blocks[0], depth + 1, results)
            case "scf.for":
                self.loop(op, results, operands, indent, depth)
            case _:
                raise NotImplementedError(op.name)

    def loop(
        self, op: Any, results: list[str], operands: list[str], indent: str, depth: int
    ) -> None:
        """scf.for compares before each iteration, in the signedness that it states."""
        block = op.regions[0].blocks[0]
        counter, *carried = (self.name(a) for a in block.arguments)
        width = self.bits(op.operands[0])
        lower, upper, step, *initial = operands
        turn = f"{counter}_next"
        if carried:
            self.lines.append(f"{indent}{', '.join(carried)}, = {', '.join(initial)},")
        self.lines.append(f"{indent}{turn} = {lower}")
        less = (
            f"unsigned({turn}, {width}) < unsigned({upper}, {width})"
            if "unsignedCmp" in op.attributes
            else f"{turn} < {upper}"
        )
        self.lines.append(f"{indent}while {less}:")
        self.lines.append(f"{indent}    {counter} = {turn}")
        self.block(block, depth + 1, carried)
        self.lines.append(f"{indent}    {turn} = wrap({counter} + {step}, {width})")
        if carried:
            self.lines.append(f"{indent}{', '.join(results)}, = {', '.join(carried)},")
