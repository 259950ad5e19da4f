"""Makes ops of the LLVM dialect in one place."""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import Operation, OpWriter, Value
from mlir_async_pipe.vocabulary.op_table import INLINE_ASSEMBLY

# Register classes of inline PTX, by their bits.
REGISTERS = {16: "h", 32: "r", 64: "l"}
_DYNAMIC_INDEX = -(2**31)


class LlvmBuilder(OpWriter):
    """Writes what the dialect has in many forms."""

    def integer(self, width: int) -> Any:
        return ir.IntegerType.get_signless(width, self.location.context)

    def number(self, value: int, width: int = 64) -> Value:
        return self.constant(value, self.integer(width))

    def constant(self, value: int, kind: Any) -> Value:
        attribute = ir.IntegerAttr.get(kind, value)
        return self.make("llvm.mlir.constant", [], kind, {"value": attribute})

    def cast(self, name: str, value: Value, kind: Any) -> Value:
        return self.make(name, [value], kind)

    def binary(self, name: str, a: Value, b: Value | int) -> Value:
        b = self.constant(b, a.type) if isinstance(b, int) else b
        return self.make(name, [a, b], a.type)

    def element(self, vector: Value, number: int) -> Value:
        kind = ir.VectorType(vector.type).element_type
        return self.make("llvm.extractelement", [vector, self.number(number)], kind)

    def with_element(self, vector: Value, element: Value, number: int) -> Value:
        operands = [vector, element, self.number(number)]
        return self.make("llvm.insertelement", operands, vector.type)

    def hidden(self, value: Value, register: str = "") -> Value:
        """The same integer, of which LLVM knows nothing: an inline asm without instructions.
        `register` is its class, by default that of NVIDIA's registers of its width; "s" is AMD's scalar one."""
        register = register or REGISTERS[ir.IntegerType(value.type).width]
        if register == "s":
            # LLVM may compute what is the same in all lanes in vector registers, and then has no move into the
            # scalar one that an assembly asks for: it writes "; illegal copy" instead.
            value = self.make("rocdl.readfirstlane", [value], value.type)
        return self.assembly("", f"={register},0", [value], [value.type]).results[0]

    def assembly(
        self,
        text: str,
        constraints: str,
        operands: list[Value],
        results: list[Any],
        *,
        has_effects: bool = False,
    ) -> Operation:
        """Inline assembly; without effects it may be moved, or removed where nobody needs its result."""
        context = self.location.context
        attributes: dict[str, Any] = {
            "asm_string": ir.StringAttr.get(text, context),
            "constraints": ir.StringAttr.get(constraints, context),
        }
        if has_effects:
            attributes["has_side_effects"] = ir.UnitAttr.get(context)
        return self.op(INLINE_ASSEMBLY, operands, results, attributes)

    def at(self, pointer: Value, offset: Value | int) -> Value:
        index, moving = (offset, []) if isinstance(offset, int) else (_DYNAMIC_INDEX, [offset])
        attributes = {
            "rawConstantIndices": ir.DenseI32ArrayAttr.get([index], self.location.context),
            "elem_type": ir.TypeAttr.get(self.integer(8), self.location.context),
        }
        return self.make("llvm.getelementptr", [pointer, *moving], pointer.type, attributes)
