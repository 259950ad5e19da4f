"""Has what a load from tensor memory fills read after its wait, in PTX too.

    %v = nvvm.tcgen05.ld %a : vector<32xi32>         %v = nvvm.tcgen05.ld %a : vector<32xi32>
    nvvm.tcgen05.wait <load>                   -->   nvvm.tcgen05.wait <load>
    … %v …                                           %w = asm "", "=r,…,0,…" %v        … %w …

The load is asynchronous: its registers hold nothing before the wait (PTX ISA, tcgen05.ld). LLVM does not know that the wait
has to do with them. Of pairs that are stored as 64 bits it packed all 32 registers above the wait, `mov.b64 %rd63, {%r81, %r82};
…; tcgen05.wait::ld`. An empty assembly with an effect stays behind the wait, and gives the registers anew.
"""

from __future__ import annotations

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    after,
    ancestors,
    as_kind,
    operations,
    raw,
    walk,
)
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.vocabulary import tensor_use
from mlir_async_pipe.vocabulary.tensor_memory import waits_for


def read_after_waits(root: Operation) -> None:
    """Do so for the loads and waits that stand in one block below `root`."""
    waits = [op for op in walk(root) if waits_for(op) == "load"]
    for block in dict.fromkeys(op.block for op in waits):
        earlier: set[Operation] = set()
        loading: list[Value] = []
        for op in operations(block):
            earlier.add(op)
            if tensor_use(op) == "load":
                loading += op.results
            elif waits_for(op) == "load":
                for value in loading:
                    _read_after(op, value, earlier)
                loading = []


def _read_after(wait: Operation, value: Value, earlier: set[Operation]) -> None:
    build = LlvmBuilder(after(wait), wait.location)
    i32, vector = build.integer(32), as_kind(ir.VectorType, value.type)
    if (value.type if vector is None else vector.element_type) != i32:
        return
    early = [
        user
        for user in (raw(use.owner) for use in value.uses)
        if not earlier.isdisjoint((user, *ancestors(user)))
    ]
    if vector is None:
        new = build.assembly("", "=r,0", [value], [i32], has_effects=True).results[0]
        value.replace_all_uses_except(new, [*early, raw(new.owner)])
        return
    count = vector.shape[0]
    parts = [build.element(value, number) for number in range(count)]
    struct = ir.Type.parse(f"!llvm.struct<({', '.join(['i32'] * count)})>", wait.context)
    constraints = ",".join(["=r"] * count + [str(number) for number in range(count)])
    read = build.assembly("", constraints, parts, [struct], has_effects=True).results[0]
    new = build.make("llvm.mlir.poison", [], value.type, {})
    for number in range(count):
        position = {"position": ir.DenseI64ArrayAttr.get([number], wait.context)}
        member = build.make("llvm.extractvalue", [read], i32, position)
        new = build.with_element(new, member, number)
    value.replace_all_uses_except(new, [*early, *(raw(part.owner) for part in parts)])
