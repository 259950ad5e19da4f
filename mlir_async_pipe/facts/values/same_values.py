"""Values that are others by another name, and the rewrite that says so.

    %b = nvvm.shfl.sync idx %mask, %a, %lane, %last      %a, if all lanes of the warp have the same %a
    %w = rocdl.readfirstlane %v                          %v, if it is the number of the wave
    %q = llvm.inttoptr (llvm.ptrtoint %p)                %p, also through casts that lose nothing of it
    %n = llvm.ptrtoint (llvm.inttoptr %m)                %m, of the same type
    %y = llvm.extractvalue (llvm.insertvalue %x, …[1])[1]        %x
    %t = llvm.insertvalue of each field of %s in turn            %s
    %d = llvm.bitcast of the vector of %low, %high : i32         llvm.or %low, (%high << 32) : i64
    %v = llvm.bitcast %d : i64 to vector<2xi32>, then %v[1]      llvm.trunc (%d >> 32)
    %y = vector.extract_strided_slice (vector.shuffle %a, %b [0, 1]) [1]     %b
    %b = unrealized_conversion_cast (unrealized_conversion_cast %a : A to B) : B to A       %a
    llvm.bitcast of %v with %w for %v[0], llvm.or %w, (%d >> 32 << 32)     %d + (%w - lower half of %d)

CuTe hands the base of dynamic shared memory from lane to lane, as a number, so that the compiler below
keeps it in a register of the warp; then nobody sees which memory it is. Triton takes the sums of a product apart
and puts them together again before the next one: no thread reads or writes a register for that. Its descriptors
are vectors of two numbers, and CuTe goes through those that it has by adding to the lower one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Operation,
    Value,
    as_kind,
    constant_value,
    defining_op,
    passed_from,
    result_number,
    type_text,
    users,
    walk_named,
)
from mlir_async_pipe.facts.values.integer_ops import bits_of, bits_of_text
from mlir_async_pipe.facts.values.llvm_builder import LlvmBuilder
from mlir_async_pipe.facts.values.memory_roots import POINTER_BITS, SHARED_BITS, SHARED_POINTERS
from mlir_async_pipe.facts.values.views import Operand, beginning
from mlir_async_pipe.facts.values.warp_values import WarpValues
from mlir_async_pipe.vocabulary.control_flow import CAST_OPS
from mlir_async_pipe.vocabulary.memory_layout import if_known
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OF_MEMREF,
    ADDRESS_OPS,
    BITS_TAKEN,
    ELEMENT_PUT,
    MEMBER_PUT,
    MEMBER_TAKEN,
    PARTS,
    POINTER_OF_ADDRESS,
    VIEW_OPS,
    is_dynamic_memory,
    position_of,
    taken_member,
)
from mlir_async_pipe.vocabulary.operator_table import is_operator
from mlir_async_pipe.vocabulary.products import UNDEFINED
from mlir_async_pipe.vocabulary.shuffles import SHUFFLES
from mlir_async_pipe.vocabulary.tensor_boxes import tensor_map_type

# Puts two halves together.
_JOINED = "llvm.or"
# Take an element of a vector, or vectors apart and together.
SLICE, EXTRACT = "vector.extract_strided_slice", "vector.extract"
_TAKES = (SLICE, EXTRACT, "llvm.extractelement")
_SHUFFLE, _BITCAST, _FROM = "vector.shuffle", "vector.bitcast", "vector.from_elements"


def replace(root: Operation) -> int:
    """Make what is another value below `root` that value; how often."""
    replaced = 0
    for result, value in _found(root):
        result.replace_all_uses_with(value)
        replaced += 1
    if replaced:
        erase_unused(root)
    return replaced


def erase_unused(root: Operation) -> None:
    """Erase what only moves registers, and of which nobody needs a result."""

    def moves_registers(name: str) -> bool:
        return name in PARTS or name in CAST_OPS or name in UNDEFINED or moves_bits(name)

    for op in reversed(list(walk_named(root, moves_registers))):
        if not any(True for result in op.results for _ in result.uses):
            op.erase()


def may_be_another(name: str) -> bool:
    """Whether results of ops called `name` may be values by another name."""
    others = POINTER_OF_ADDRESS, BITS_TAKEN, _JOINED
    return name in SHUFFLES or name in PARTS or name in CAST_OPS or name in others


def _found(root: Operation) -> Iterator[tuple[Value, Value]]:
    """Results that are other values, in the order in which they stand; each is asked when those before it were seen to."""
    of_warps = WarpValues()
    kinds = (*CAST_OPS, *SHUFFLES, METADATA, *_VALUES)
    for op in walk_named(root, frozenset(kinds).__contains__):
        if op.name in CAST_OPS:
            back = [(result, before_casts(result)) for result in op.results]
            yield from ((result, value) for result, value in back if value is not None)
            continue
        if op.name == METADATA:
            offset = offset_of_metadata(op)
            if offset is not None:
                yield op.results[OFFSET_IN_METADATA], offset
            continue
        if op.name == BITS_TAKEN:
            yield from _parts_of_number(op)
        if op.name in SHUFFLES:
            shuffle = SHUFFLES[op.name]
            given = op.operands[shuffle.operand]
            value = given if of_warps.is_of_warp(given, shuffle.lanes) else None
        else:
            value = _VALUES[op.name](op)
        if value is not None and value.type == op.results[0].type:
            yield op.results[0], value


def _one_that_is_defined(op: Operation) -> Value | None:
    """What is chosen where the other one may be anything: a register that instructions with a predicate write."""
    _, yes, no = op.operands
    made = defining_op(no)
    return yes if made is not None and made.name in UNDEFINED else None


def _number_back(op: Operation) -> Value | None:
    """The number that is taken for the pointer whose number an op gives."""
    made = defining_op(op.operands[0])
    return made.operands[0] if made is not None and made.name == POINTER_OF_ADDRESS else None


def _bits_back(op: Operation, value: Value) -> Value | None:
    """The value of an op's type whose bits ops have taken for those of other types, until they are `value`."""
    register, kind = register_of(value), op.results[0].type
    return register if register.type == kind else None


def _taken_element(op: Operation) -> Value | None:
    """The value that was put where an op takes an element of a vector, in the type of the op."""
    element = element_taken(op)
    if element is None or element.type == op.results[0].type:
        return element
    same = _bits_back(op, element)
    return same or LlvmBuilder.before(op).cast(BITS_TAKEN, element, op.results[0].type)


def _viewed_pointer(op: Operation) -> Value | None:
    """The pointer whose whole address a number is that is taken for one."""
    kind = type_text(op.results[0].type)
    bits = SHARED_BITS if kind in SHARED_POINTERS else POINTER_BITS
    number = passed_from(
        op.operands[0],
        lambda one: is_operator(one.name, "cast") and bits_of(one.results[0].type) >= bits,
    )
    made = defining_op(number)
    is_address = made is not None and made.name in ADDRESS_OPS and bits_of(number.type) >= bits
    return made.operands[0] if made is not None and is_address else None


def _number_of_parts(op: Operation) -> Value | None:
    """The number whose halves are the elements of a vector of two, lower first: made before the op that gives it."""
    put = defining_op(op.operands[0])
    bits = bits_of_text(type_text(op.results[0].type))
    if put is not None and put.name == "vector.insert" and bits is not None:
        return _with_part(op, put)
    halves: dict[int | None, Value] = {}
    while put is not None and put.name == ELEMENT_PUT and len(halves) < 2:
        whole, element, index = put.operands
        halves.setdefault(constant_value(index), element)
        put = defining_op(whole)
    each = {2 * (bits_of_text(type_text(half.type)) or 0) for half in halves.values()}
    if set(halves) != {0, 1} or bits is None or each != {bits}:
        return None
    write = LlvmBuilder.before(op)
    low, high = (write.cast("llvm.zext", halves[n], op.results[0].type) for n in (0, 1))
    return write.binary("llvm.or", low, write.binary("llvm.shl", high, bits // 2))


def _with_part(op: Operation, put: Operation) -> Value | None:
    """The number that `op` makes of another one of which the lowest element has been put anew."""
    element, vector = put.operands
    number = _number_in(vector)
    if number is None or _place(put) != 0 or number.type != op.results[0].type:
        return None
    return _with_lower_part(op, number, element)


def _joined_halves(op: Operation) -> Value | None:
    """The number whose upper half is that of another one, and the lower half a number of its own."""
    bits, (lower, upper) = bits_of(op.results[0].type), op.operands
    shift, cast = defining_op(upper), defining_op(lower)
    if shift is None or shift.name != "llvm.shl" or cast is None or cast.name != "llvm.zext":
        return None
    lower_part, half = cast.operands[0], bits // 2
    down = defining_op(passed_from(shift.operands[0], lambda op: is_operator(op.name, "cast")))
    if down is None or down.name != "llvm.lshr" or bits_of(lower_part.type) != half:
        return None
    number = down.operands[0]
    by_half = all(constant_value(one.operands[1]) == half for one in (shift, down))
    if not by_half or number.type != op.results[0].type:
        return None
    return _with_lower_part(op, number, lower_part)


def _with_lower_part(op: Operation, number: Value, part: Value) -> Value:
    """number + (part - its lower bits), before an op: of a descriptor to which something is added that is its address, and that."""
    kind, write = number.type, LlvmBuilder.before(op)
    before_that = write.cast("llvm.zext", _part(op, number, 0, part.type), kind)
    more = write.binary("llvm.sub", write.cast("llvm.zext", part, kind), before_that)
    return write.binary("llvm.add", number, more)


def _parts_of_number(op: Operation) -> Iterator[tuple[Value, Value]]:
    """What takes elements of a number whose bits `op` takes for a vector."""
    number = _number_in(op.results[0])
    if number is None:
        return
    for take in list(users(op.results[0])):
        place = _place(take) if take.name == EXTRACT else None
        if place is not None:
            yield take.results[0], _part(take, number, place, take.results[0].type)


def _number_in(vector: Value) -> Value | None:
    """The number whose bits a vector of numbers is made of."""
    made = defining_op(vector)
    if made is None or made.name != BITS_TAKEN or not type_text(vector.type).startswith("vector<"):
        return None
    number = made.operands[0]
    of_numbers = bits_of_text(type_text(ir.VectorType(vector.type).element_type)) is not None
    return number if of_numbers and bits_of_text(type_text(number.type)) is not None else None


def _place(op: Operation) -> int | None:
    """Which element of a vector an op takes or puts, if it says so by a number."""
    static = ir.DenseI64ArrayAttr(op.attributes["static_position"])
    return static[0] if len(static) == 1 and static[0] >= 0 else None


def _part(op: Operation, number: Value, place: int, kind: Any) -> Value:
    """An element of the number, made before an op."""
    write, by = LlvmBuilder.before(op), place * bits_of(kind)
    lower = write.binary("llvm.lshr", number, by) if by else number
    return write.cast("llvm.trunc", lower, kind)


def _put_together_again(op: Operation) -> Value | None:
    """The struct of which all fields are put, each in its place, into the one that an op makes last."""
    kind = op.results[0].type
    last = number_of_fields(kind) - 1
    if position_of(op) != (last,):
        return None
    whole: Value | None = None
    for place in range(last, -1, -1):
        put = op if place == last else defining_op(op.operands[0])
        if put is None or put.name != MEMBER_PUT or position_of(put) != (place,):
            return None
        op = put
        taken = defining_op(op.operands[1])
        if taken is None or taken.name != MEMBER_TAKEN or position_of(taken) != (place,):
            return None
        if whole is not None and taken.operands[0] != whole:
            return None
        whole = taken.operands[0]
    return whole


_VALUES: dict[str, Callable[[Operation], Value | None]] = {
    POINTER_OF_ADDRESS: _viewed_pointer,
    "llvm.select": _one_that_is_defined,
    "llvm.ptrtoint": _number_back,
    BITS_TAKEN: lambda op: _bits_back(op, op.operands[0]) or _number_of_parts(op),
    _JOINED: _joined_halves,
    MEMBER_TAKEN: lambda op: taken_member(op) or field_of_descriptor(op),
    MEMBER_PUT: _put_together_again,
    **dict.fromkeys(_TAKES, _taken_element),
}


def number_of_fields(kind: Any) -> int:
    """How many fields a struct type has.

    !llvm.struct<(f32, struct<(i32, i32)>, array<2 x i8>)>     3
    """
    return _fields_in(type_text(kind))


@lru_cache(maxsize=1 << 8)
def _fields_in(text: str) -> int:
    depth, count = 0, 1
    for letter in text:
        depth += (letter in "<(") - (letter in ">)")
        count += letter == "," and depth == 2
    return count


# Fields of the descriptor that a memref of shared memory is lowered to, as pointers and numbers.
#
#     %all = gpu.dynamic_shared_memory
#     %v = memref.view %all[%c1024][] : … to memref<4x64xf16, …>
#     %w = memref.subview %v[%k, 0] [1, 64] [1, 1]
#     %s = unrealized_conversion_cast %w : … to !llvm.struct<(ptr<3>, ptr<3>, i64, …)>
#     llvm.extractvalue %s[1]     the pointer to byte 1024 of %all, where %v has its aligned pointer
#     llvm.extractvalue %s[2]     64 %k, the elements from there to the first one of %w
#
# A memref.view has its own aligned pointer, all other views that of their source (MLIR, memref to LLVM: descriptors).


# Numbers of a memref: its buffer without strides, the offset of its first element, sizes, strides.
METADATA, OFFSET_IN_METADATA = "memref.extract_strided_metadata", 1
# Fields of a descriptor.
_POINTERS, _OFFSET = (0, 1), 2
# A sum of numbers, each times a constant; None stands for 1.
Sum = tuple[tuple["Value | None", int], ...]


class Descriptor(NamedTuple):
    """Bytes from the begin of `base` to the aligned pointer, and elements from there to the first element."""

    base: Value
    aligned: Sum = ()
    offset: Sum = ()


def field_of_descriptor(op: Operation) -> Value | None:
    """What an op takes out of a descriptor of dynamic shared memory, made before the op; None for all others."""
    cast, position = defining_op(op.operands[0]), position_of(op)
    if cast is None or cast.name not in CAST_OPS or len(cast.operands) != 1 or len(position) != 1:
        return None
    found = descriptor_of(cast.operands[0])
    if found is None or not (position[0] in _POINTERS or position[0] == _OFFSET):
        return None
    write = LlvmBuilder.before(op)
    if position[0] == _OFFSET:
        return _sum(write, found.offset)
    i64 = write.integer(64)
    address = write.make(ADDRESS_OF_MEMREF, [found.base], ir.IndexType.get(op.context))
    number = write.cast("arith.index_cast", address, i64)
    pointer = write.cast(POINTER_OF_ADDRESS, number, op.results[0].type)
    return write.at(pointer, _sum(write, found.aligned)) if found.aligned else pointer


def offset_of_metadata(op: Operation) -> Value | None:
    """The offset that an op takes of a memref of dynamic shared memory, made before the op; None for all others."""
    found = descriptor_of(op.operands[0])
    if found is None:
        return None
    write = LlvmBuilder.before(op)
    return write.cast("arith.index_cast", _sum(write, found.offset), ir.IndexType.get(op.context))


def descriptor_of(memory: Value) -> Descriptor | None:
    """The descriptor of a memref of dynamic shared memory, None for all others."""
    made = defining_op(memory)
    if made is None or as_kind(ir.MemRefType, memory.type) is None:
        return None
    if is_dynamic_memory(made):
        return Descriptor(memory)
    if made.name in CAST_OPS and len(made.operands) == 1:
        # Both types stand for one descriptor.
        return descriptor_of(made.operands[0])
    if made.name not in VIEW_OPS:
        return None
    source = descriptor_of(made.operands[0])
    begin = None if source is None else if_known(beginning, made)
    if source is None or begin is None or any(step.stride is None for step in begin.steps):
        return None
    amounts = [
        (made.operands[step.amount.position], step.stride or 0)
        if isinstance(step.amount, Operand)
        else (None, step.amount * (step.stride or 0))
        for step in begin.steps
    ]
    steps: Sum = tuple((amount, factor) for amount, factor in amounts if factor)
    if VIEW_OPS[made.name] == "bytes":
        return None if source.offset else source._replace(aligned=(*source.aligned, *steps))
    before = () if begin.of_aligned else source.offset
    return source._replace(offset=(*before, *steps))


def _sum(write: LlvmBuilder, terms: Sum) -> Value:
    """A sum in 64 bits."""
    total = write.number(sum(factor for amount, factor in terms if amount is None))
    for amount, factor in terms:
        if amount is not None:
            one = write.cast("arith.index_cast", amount, write.integer(64))
            total = write.binary("llvm.add", total, write.binary("llvm.mul", one, factor))
    return total


# Elements of short vectors, followed to where they were put.
#
#     %v = vector.shuffle %a, %b [0, 1] : vector<1xf32>, vector<1xf32>
#     %y = vector.extract_strided_slice %v {offsets = [1], sizes = [1], …}       the bits of %b
#
#     %v = llvm.insertelement %x, %u[%c0]
#     %w = vector.bitcast %v : vector<2xi32> to vector<2xf32>
#     %y = vector.extract %w[0]                                                  the bits of %x
#
# Vectors of rank 1 only. Registers of products are handed on in such pairs (Pallas), and no thread reads or
# writes a register for that.


def takes_element(name: str) -> bool:
    """Whether ops called `name` may take one element of a vector."""
    return name in _TAKES


def moves_bits(name: str) -> bool:
    """Whether ops called `name` only take and join elements of vectors, or take bits for those of another type."""
    return name in (*_TAKES, _SHUFFLE, _BITCAST, _FROM, ELEMENT_PUT, BITS_TAKEN)


def place_taken(op: Operation) -> tuple[Value, int] | None:
    """The vector and the place in it from which an op takes one element; None if it takes several, or where is not known."""
    vector, place = op.operands[0], None
    if length_of(vector) is None:
        return None
    if op.name == SLICE:
        offsets, sizes = (_numbers(op, name) for name in ("offsets", "sizes"))
        place = offsets[0] if sizes == [1] else None
    elif op.name == EXTRACT:
        place = _place(op)
    else:
        place = constant_value(op.operands[1])
    return None if place is None else (vector, place)


def element_taken(op: Operation) -> Value | None:
    """The value whose bits are the element that an op takes; None if that is not seen."""
    taken = place_taken(op)
    element = None if taken is None else element_of(*taken)
    return None if element is None or element == op.results[0] else element


def element_of(vector: Value, place: int) -> Value | None:
    """The value, a number or a vector of one element, whose bits are an element of a vector; None if that is not seen."""
    while (length := length_of(vector)) is not None:
        made = defining_op(vector)
        name = "" if made is None else str(made.name)
        if name in CAST_OPS:
            before = before_casts(vector)
            if before is None:
                return vector if length == 1 else None
            vector = before
        elif made is not None and name == _SHUFFLE and None not in map(length_of, made.operands):
            mask, first = ir.DenseI64ArrayAttr(made.attributes["mask"]), length_of(made.operands[0])
            chosen, first = mask[place], first or 0
            if chosen < 0:
                return None
            vector = made.operands[int(chosen >= first)]
            place = chosen - first * (chosen >= first)
        elif made is not None and name == SLICE:
            vector, place = made.operands[0], place + _numbers(made, "offsets")[0]
        elif (
            made is not None
            and name in (_BITCAST, BITS_TAKEN)
            and length_of(made.operands[0]) == length
        ):
            vector = made.operands[0]
        elif made is not None and name == ELEMENT_PUT:
            put = constant_value(made.operands[2])
            if put is None or put == place:
                return None if put is None else made.operands[1]
            vector = made.operands[0]
        elif made is not None and name == _FROM:
            return made.operands[place]
        elif length == 1:
            return vector
        else:
            return None
    return None


def before_casts(value: Value) -> Value | None:
    """The value that a cast gives back after another one; None if that is not what makes it, or the type between says
    the box of a tensor map.

    %v = unrealized_conversion_cast %a, %b : A, A to B
    %c:2 = unrealized_conversion_cast %v : B to A, A           %c#1 is %b
    """
    made = defining_op(value)
    first = None if made is None or not len(made.operands) else defining_op(made.operands[0])
    if made is None or first is None or not {made.name, first.name} <= {*CAST_OPS}:
        return None
    if list(made.operands) != list(first.results) or tensor_map_type(value):
        return None
    kinds = [[one.type for one in values] for values in (first.operands, made.results)]
    return first.operands[result_number(value)] if kinds[0] == kinds[1] else None


def register_of(value: Value) -> Value:
    """The value whose bits another one is, as far as ops only take bits for those of another type.

    llvm.bitcast (llvm.insertelement (llvm.bitcast %x : f32 to i32), …[0] : vector<1xi32>) to vector<1xf32>      %x
    """
    while True:
        made = defining_op(value)
        if made is not None and made.name in (BITS_TAKEN, _BITCAST):
            value = made.operands[0]
            continue
        if made is not None and takes_element(made.name):
            element = element_taken(made)
        else:
            element = element_of(value, 0) if length_of(value) == 1 else None
        if element is None or element == value:
            return value
        value = element


def length_of(vector: Value) -> int | None:
    """How many elements a vector of rank 1 has; None for all other values."""
    kind = as_kind(ir.VectorType, vector.type)
    return int(kind.shape[0]) if kind is not None and kind.rank == 1 else None


def _numbers(op: Operation, name: str) -> list[int]:
    return [int(ir.IntegerAttr(one)) for one in ir.ArrayAttr(op.attributes[name])]
