"""From a tensor map to the global memory that it describes.

    %map = nvgpu.tma.create.descriptor %x …     the root of %x, and how %x lies there
    %map : an argument of the kernel            memory that the kernel is given, by no name of its own

Whose memory an argument describes is not to be seen: an `llvm.noalias` on the pointer to it is said
of the map, not of that memory.
"""

from __future__ import annotations

from typing import Any

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Operation,
    Value,
    as_kind,
    constant_value,
    defining_op,
    enclosing,
    remembered,
    source_op,
    walk_named,
)
from mlir_async_pipe.facts.values.linear import Arithmetic
from mlir_async_pipe.facts.values.memory_roots import (
    Root,
    from_the_start,
    is_pointer,
    parameter_of,
    root_of,
    uses_of_memory,
)
from mlir_async_pipe.facts.values.sums import ZERO
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, CAST_OPS
from mlir_async_pipe.vocabulary.mbarrier_ops import MAKES_TENSOR_MAP
from mlir_async_pipe.vocabulary.tensor_boxes import MAP_ENCODERS

# What stands beside the map in the key of memory of which nothing else is known.
OPAQUE = "behind a map"


def is_given_map(root: Root) -> bool:
    """Whether a root is what a map describes that is an argument."""
    return root.kind == "argument" and isinstance(root.key, tuple) and root.key[0] == OPAQUE


@remembered
def described_root(tensor_map: Value) -> Root:
    """The root of the memory that a tensor map describes."""
    made, value = _maker(tensor_map)
    if made is not None and made.name == MAKES_TENSOR_MAP:
        return root_of(made.operands[0])
    place = given_place(tensor_map)
    return Root(
        *("unknown" if place is None else "argument", (OPAQUE, place or value), value, "global")
    )


def given_place(tensor_map: Value) -> tuple[Value, int] | None:
    """The parameter of a function that a tensor map is, or in whose bytes it lies, and the first of these bytes; of a
    launch a value from around it. None for other maps."""
    _, value = _maker(tensor_map)
    start: Any = value, ZERO
    if is_pointer(value):
        start = from_the_start(value, Arithmetic()) or start
    parameter, offset = start
    if isinstance(parameter, str) or not offset.is_constant:
        return None
    _, parameter = _maker(parameter)
    given = parameter_of(root_of(parameter)) or _is_from_around(parameter, tensor_map)
    return (parameter, offset.constant) if given else None


def _is_from_around(value: Value, tensor_map: Value) -> bool:
    """Whether a value is made around the launch in which a map is."""
    made, launch = defining_op(value), enclosing(source_op(tensor_map), _LAUNCH)
    return made is not None and launch is not None and enclosing(made, _LAUNCH) is None


_LAUNCH = ("gpu.launch",)


def map_root(tensor_map: Value) -> Root | None:
    """The root of the bytes of a tensor map itself, None where it is no pointer."""
    _, value = _maker(tensor_map)
    return root_of(value) if is_pointer(value) else None


@remembered
def described_memref(tensor_map: Value) -> Any:
    """The memref type that a tensor map is made of, which is all of its root; None where it is not
    known."""
    made, _ = _maker(tensor_map)
    if made is None or made.name != MAKES_TENSOR_MAP:
        return None
    root = root_of(made.operands[0])
    kind = as_kind(ir.MemRefType, root.value.type)
    viewed = defining_op(made.operands[0])
    whole = made.operands[0] == root.value or (
        viewed is not None and viewed.name == "memref.cast" and viewed.operands[0] == root.value
    )
    return kind if whole else None


def _maker(tensor_map: Value) -> tuple[Any, Value]:
    """The op that makes a map, if it is no cast, and the map before all casts."""
    value, made = tensor_map, defining_op(tensor_map)
    while made is not None and made.name in CAST_OPS and len(made.operands) == 1:
        value = made.operands[0]
        made = defining_op(value)
    return made, value


# The boxes of tensor maps that the host encodes before it launches a kernel, where its code is around the launch.
#
#     %maps = llvm.alloca …                     %box = llvm.alloca 2 x i64, to which 128 and 64 are stored
#     call @encode(%maps, …, %f16, …, %box)     the map at byte 0 of %maps has the box memref<128x64xf16>
#     %all = llvm.load %maps
#     gpu.launch … { … by the map at byte 0 of %all … }

# A value or the name of a global, and a byte after it.
Place = tuple[object, int]
_SIZE_BYTES = 8


class EncodedMaps:
    """The boxes by the places of the maps, function by function."""

    def __init__(self) -> None:
        self._found: dict[Operation, dict[Place, str | None]] = {}

    def box_of_map(self, tensor_map: Value, user: Operation) -> str | None:
        """The box of a map that an op of a launch names, memref<128x64xf16>; None if nothing says it."""
        given, host = given_place(tensor_map), enclosing(user, FUNCTION_OPS)
        loaded = None if given is None else defining_op(given[0])
        if given is None or host is None or loaded is None or loaded.name != "llvm.load":
            return None
        place = _place(loaded.operands[0])
        if host not in self._found:
            self._found[host] = _boxes(host)
        return None if place is None else self._found[host].get((place[0], place[1] + given[1]))


def _boxes(host: Operation) -> dict[Place, str | None]:
    """The boxes of the maps that a function encodes; None at a place where it does so twice."""
    found: dict[Place, str | None] = {}
    for call in walk_named(host, CALL_OPS.__contains__):
        encoder = MAP_ENCODERS.get(_callee(call))
        if encoder is None:
            continue
        place, code = (
            _place(call.operands[encoder.tensor_map]),
            constant_value(call.operands[encoder.element]),
        )
        sizes = _stored_numbers(call.operands[encoder.box], call)
        kind = None if code is None else encoder.elements.get(code)
        if place is not None:
            known = sizes and kind and place not in found
            found[place] = f"memref<{'x'.join(map(str, sizes or ()))}x{kind}>" if known else None
    return found


def _callee(call: Operation) -> str:
    name = CALL_OPS[call.name]
    return str(ir.FlatSymbolRefAttr(call.attributes[name]).value) if name in call.attributes else ""


def _place(pointer: Value) -> Place | None:
    found = from_the_start(pointer, Arithmetic())
    return (found[0], found[1].constant) if found is not None and found[1].is_constant else None


def _stored_numbers(pointer: Value, reader: Operation) -> list[int] | None:
    """The constants of 64 bits from a pointer on, where nothing but stores of them and `reader` uses the memory."""
    place = _place(pointer)
    if place is None or place[1] or not isinstance(place[0], ir.Value):
        return None
    numbers: dict[int, int] = {}
    for use, named in uses_of_memory(place[0]):
        op = use.owner.operation
        if named or op == reader:
            continue
        at = _place(op.operands[1]) if op.name == "llvm.store" else None
        number = None if at is None else constant_value(op.operands[0])
        if at is None or number is None or at[1] in numbers:
            return None
        numbers[at[1]] = number
    # One after the other: numbers at bytes 0, 8, 16, …
    in_turn = range(0, _SIZE_BYTES * len(numbers), _SIZE_BYTES)
    return [numbers[at] for at in in_turn] if numbers.keys() == {*in_turn} else None
