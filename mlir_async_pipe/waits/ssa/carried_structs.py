"""Structs that loops, branches and blocks forward: fields become values that are forwarded by themselves.

      llvm.br ^bb1(%s : !llvm.struct<(ptr<3>, i32)>)        llvm.br ^bb1(%s, %p : …, !llvm.ptr<3>)
    ^bb1(%t: !llvm.struct<(ptr<3>, i32)>):            -->  ^bb1(%t: …, %q: !llvm.ptr<3>):
      %q = llvm.extractvalue %t[0]

Triton and CuTe carry the slot of a ring in such a struct. Integers and pointers are taken out; what is
in registers only (sums of products, say) stays in its struct.

Registers of products that a loop carries in vectors or one by one become sums that it carries whole.

    %r:2 = scf.for … iter_args(%x = %a, %y = %b)           %r:3 = scf.for … iter_args(%x = %a, %y = %b, %s = %t)
      %t = llvm.insertvalue of %x[0], %x[1], %y[0], %y[1]
      %u = nvvm.wgmma.mma_async …, %t                 -->    %u = nvvm.wgmma.mma_async …, %s
      yield (%u[0], %u[1]), (%u[2], %u[3])                   yield %x, %y, %u
    use %r#1                                                 use (%r#2[2], %r#2[3])

The sums stay in their registers from one iteration to the next: no thread reads or writes one, which between
products would need a fence (PTX ISA, wgmma.fence). Pallas carries them in pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    Block,
    Operation,
    OpWriter,
    Value,
    after,
    again,
    ancestors,
    create,
    defining_op,
    first_of,
    functions,
    is_block_argument,
    is_function,
    last_of,
    operations,
    parent,
    terminator,
    type_text,
    users,
    walk_named,
)
from mlir_async_pipe.facts.values.same_values import (
    element_of,
    erase_unused,
    length_of,
    moves_bits,
    number_of_fields,
    place_taken,
    register_of,
    takes_element,
)
from mlir_async_pipe.vocabulary import named_row
from mlir_async_pipe.vocabulary.control_flow import CARRYING_OPS, CAST_OPS
from mlir_async_pipe.vocabulary.memory_names import (
    BITS_TAKEN,
    MEMBER_PUT,
    MEMBER_TAKEN,
    member_of,
    position_of,
)
from mlir_async_pipe.vocabulary.op_table import INLINE_ASSEMBLY
from mlir_async_pipe.vocabulary.products import holds_sums, is_assembled, may_be_in_flight
from mlir_async_pipe.vocabulary.rows import WGMMA
from mlir_async_pipe.waits.ssa.carry import Carrier, Skeleton, Variables


class Field(NamedTuple):
    """The part of a struct type at a position, and its own type."""

    whole: Any
    position: tuple[int, ...]
    kind: Any


def split_fields(root: Operation) -> int:
    """Forward the fields that somebody takes out of forwarded structs by themselves; how many there were."""
    split = 0
    for function in functions(root):
        for field in taken_fields(function):
            _Fields(function, field).run([])
            split += 1
    return split


def taken_fields(root: Operation) -> list[Field]:
    """The integers and pointers that ops take out of structs which they are given, but for registers of products."""
    found = (_taken(op) for op in walk_named(root, MEMBER_TAKEN.__eq__))
    fields = list(dict.fromkeys(field for field in found if field is not None))
    held = _registers_of_products(root) if fields else set()
    return [field for field in fields if not any(one in type_text(field.whole) for one in held)]


def _registers_of_products(root: Operation) -> set[str]:
    """The types of structs that products add to, or out of which they take registers."""
    held: list[Value] = []
    for op in walk_named(
        root, lambda name: name == INLINE_ASSEMBLY or named_row(name).queue == WGMMA
    ):
        if op.name != INLINE_ASSEMBLY or is_assembled(op):
            taken = filter(None, map(defining_op, op.operands))
            held += op.results
            held += [one.operands[0] for one in taken if one.name == MEMBER_TAKEN]
    return {type_text(value.type) for value in held}


class _Fields(Carrier):
    """Carries one field of all structs of one type."""

    def __init__(self, function: Operation, field: Field) -> None:
        super().__init__(Skeleton(function, self._matters, lambda op: False), field.kind)
        self.field = field

    def _matters(self, op: Operation) -> bool:
        kinds = (type_text(operand.type) for operand in op.operands)
        return op.name == MEMBER_TAKEN or any(kind.startswith("!llvm.struct<") for kind in kinds)

    def over(self, op: Operation, variables: Variables) -> Variables:
        """What takes the field is the field."""
        if op.name == MEMBER_TAKEN and _taken(op) == self.field:
            whole = member_of(op.operands[0], position_of(op)).whole
            if whole in self.companions:
                op.results[0].replace_all_uses_with(self.companions[whole])
                op.erase()
        return variables

    def accompanied(self, values: Any) -> list[int]:
        return [n for n, value in enumerate(values) if value.type == self.field.whole]

    def companion(self, value: Value, variables: Variables) -> Value:
        whole, position, put = member_of(value, self.field.position)
        if put is not None:
            return put
        carried = (whole.type, position) == self.field[:2]
        if carried and whole in self.companions:
            return self.companions[whole]
        made = defining_op(whole)
        ip = ir.InsertionPoint.at_block_begin(whole.owner) if made is None else after(made)
        at = {"position": ir.DenseI64ArrayAttr.get(position, value.context)}
        loc = self.skeleton.root.location
        taken = create(MEMBER_TAKEN, (whole,), (self.kind,), at, ip=ip, loc=loc).results[0]
        if carried:
            self.bind(whole, taken)
        return taken


def _taken(op: Operation) -> Field | None:
    """The field that an op takes out of a struct which it is given; None if that is not what it does."""
    if not type_text(op.results[0].type).startswith(("i", "!llvm.ptr")):
        return None
    whole, position, put = member_of(op.operands[0], position_of(op))
    if put is not None or not _is_forwarded(whole):
        return None
    return Field(whole.type, position, op.results[0].type)


def _is_forwarded(value: Value) -> bool:
    """Whether a loop, a branch or another block gives a value."""
    if not is_block_argument(value):
        made = defining_op(value)
        return made is not None and made.name in CARRYING_OPS
    block = value.owner
    around = block.owner.operation
    first = block == block.region.blocks[0]
    return around.name in CARRYING_OPS or (is_function(around) and not first)


# Sums that are carried whole ------------------------------------------------------------------

_LOOP, _BOUNDS = "scf.for", 3
# An element of a value: a place in a vector, 0 of what is none.
Element = tuple[Value, int]


class Sums(NamedTuple):
    """What a product adds to, put together of elements of what a loop carries: `last` puts the last of them."""

    last: Operation
    elements: tuple[Element, ...]

    @property
    def arguments(self) -> list[Value]:
        """The arguments of the loop's body that hold the elements."""
        return list(dict.fromkeys(value for value, _ in self.elements))


def carry_sums(root: Operation) -> int:
    """Carry sums whole through loops below `root`; how many there were."""
    carried = 0
    for loop in list(walk_named(root, _LOOP.__eq__)):
        body = loop.regions[0].blocks[0]
        found = [sums for sums in _sums(body) if _is_carried(sums, body)]
        if found:
            _carry(loop, body, found)
            carried += len(found)
    if carried:
        erase_unused(root)
    return carried


def sink_moves(root: Operation) -> None:
    """Ops that only move registers of sums, or what is loaded from tensor memory, stand where what they give is needed first,
    after the wait for it perhaps: nobody writes or reads a register where bits are taken for those of another type.

    %x = llvm.extractvalue %sums[0]                       %x = llvm.extractvalue %sums[0]
    %v = llvm.bitcast %x : f32 to vector<1xf32>           nvvm.wgmma.wait.group.sync.aligned 0
    nvvm.wgmma.wait.group.sync.aligned 0           -->    %v = llvm.bitcast %x : f32 to vector<1xf32>
    use %v                                                use %v
    """
    moves: dict[Operation, None] = {}
    for op in walk_named(root, lambda name: moves_bits(name) or name in CAST_OPS):
        makers = [defining_op(operand) for operand in op.operands]
        if any(map(may_be_in_flight, op.operands)) or any(one in moves for one in makers if one):
            moves[op] = None
    for op in reversed(moves):
        uses = [use for result in op.results for use in users(result)]
        # The root stands in no block.
        around = (one for use in uses for one in (use, *ancestors(use)) if parent(one))
        there = [one for one in around if one.block == op.block]
        if there:
            op.move_before(first_of(there))


def _sums(body: Block) -> list[Sums]:
    """What products in a body add to that is put together of elements of the body's arguments."""
    found: dict[Operation, Sums] = {}
    products = [op for op in operations(body) if named_row(op.name).queue == WGMMA]
    for operand in (operand for op in products for operand in op.operands):
        last = defining_op(operand)
        if last is None or last.name != MEMBER_PUT or not holds_sums(operand):
            continue
        elements = _put(last)
        if elements and all(is_block_argument(value) for value, _ in elements):
            found[last] = Sums(last, elements)
    return list(found.values())


def _put(last: Operation) -> tuple[Element, ...] | None:
    """The elements that were put into all fields of a struct."""
    put: dict[int, Element] = {}
    op: Operation | None = last
    while op is not None and op.name == MEMBER_PUT:
        position = position_of(op)
        if len(position) != 1:
            return None
        put.setdefault(position[0], _element(op.operands[1]))
        op = defining_op(op.operands[0])
    count = number_of_fields(last.results[0].type)
    return tuple(put[n] for n in range(count)) if set(put) == set(range(count)) else None


def _element(value: Value) -> Element:
    """The element whose bits a register is."""
    while (made := defining_op(value)) is not None:
        if made.name == BITS_TAKEN:
            value = made.operands[0]
        elif takes_element(made.name):
            return place_taken(made) or (value, 0)
        else:
            break
    return value, 0


def _is_carried(sums: Sums, body: Block) -> bool:
    """Whether the elements are all that the loop carries in some of its arguments, and each goes to the sums alone; the
    sums that it forwards are then those that a product leaves in their places."""
    arguments = sums.arguments
    if any(value.owner != body or value == body.arguments[0] for value in arguments):
        return False
    lengths = sum(length_of(value) or 1 for value in arguments)
    if len(set(sums.elements)) != len(sums.elements) or lengths != len(sums.elements):
        return False
    moves = [use for value in arguments for use in users(value)]
    while moves:
        op = moves.pop()
        if op.name == BITS_TAKEN or takes_element(op.name):
            moves += users(op.results[0])
        elif op.name != MEMBER_PUT:
            return False
    yielded = terminator(body).operands
    whole = _whole([yielded[_number(value) - 1] for value in arguments], sums)
    return whole is not None and whole.type == sums.last.results[0].type


def _number(argument: Value) -> int:
    return int(ir.BlockArgument(argument).arg_number)


def _whole(values: Sequence[Value], sums: Sums) -> Value | None:
    """The struct of which each element of some values is the register in its place."""
    wholes, arguments = set(), sums.arguments
    for place, (argument, number) in enumerate(sums.elements):
        element = _register(values[arguments.index(argument)], number)
        made = None if element is None else defining_op(element)
        if made is None or made.name != MEMBER_TAKEN or position_of(made) != (place,):
            return None
        wholes.add(made.operands[0])
    return wholes.pop() if len(wholes) == 1 else None


def _register(value: Value, number: int) -> Value | None:
    """The register whose bits are an element of a value."""
    element = value if length_of(value) is None else element_of(value, number)
    return None if element is None else register_of(element)


def _carry(loop: Operation, body: Block, found: list[Sums]) -> None:
    end = terminator(body)
    starts, ends = list(loop.operands), list(end.operands)
    kept, kinds = len(loop.results), [result.type for result in loop.results]
    for sums in found:
        own = sums.arguments
        numbers = [_number(value) - 1 for value in own]
        starts.append(_put_together(loop, [loop.operands[_BOUNDS + n] for n in numbers], sums))
        whole = _whole([ends[n] for n in numbers], sums)
        assert whole is not None
        kinds.append(whole.type)
        ends.append(whole)
        for number, value in zip(numbers, own, strict=True):
            ends[number] = value
    made = again(loop, starts, kinds)
    for sums in found:
        carried = body.add_argument(sums.last.results[0].type, made.location)
        sums.last.results[0].replace_all_uses_with(carried)
    again(end, ends)
    for n, sums in enumerate(found):
        for value in sums.arguments:
            _take_apart(made.results[_number(value) - 1], made.results[kept + n], sums, value)


def _put_together(loop: Operation, values: list[Value], sums: Sums) -> Value:
    """The sums with which a loop begins, made where the last of their elements is there: a fence before the loop
    orders that its thread writes them."""
    whole = _whole(values, sums)
    if whole is not None:
        return whole
    given = [values[sums.arguments.index(argument)] for argument, _ in sums.elements]
    elements = [_register(one, n) or one for one, (_, n) in zip(given, sums.elements, strict=True)]
    made = [op for op in map(defining_op, elements) if op is not None and op.block == loop.block]
    ip = after(last_of(made)) if made else ir.InsertionPoint.at_block_begin(loop.block)
    write, kind = OpWriter(ip, loop.location), sums.last.results[0].type
    whole = write.make("llvm.mlir.poison", [], kind)
    field = sums.last.operands[1].type
    for place, (element, (_, number)) in enumerate(zip(elements, sums.elements, strict=True)):
        if length_of(element) is not None and element.type != field:
            at = {"static_position": ir.DenseI64ArrayAttr.get([number], loop.context)}
            element = write.make("vector.extract", [element], _element_type(element), at)
        if element.type != field:
            element = write.make(BITS_TAKEN, [element], field)
        whole = write.make(MEMBER_PUT, [whole, element], kind, _position(loop, place))
    return whole


def _take_apart(result: Value, whole: Value, sums: Sums, argument: Value) -> None:
    """Each user of what a loop gives takes it out of the sums, where it needs it."""
    places = {n: place for place, (value, n) in enumerate(sums.elements) if value == argument}
    field = sums.last.operands[1].type
    for use in list(result.uses):
        op = use.owner.operation
        write = OpWriter.before(op)
        is_vector = length_of(result) is not None
        kind = _element_type(result) if is_vector else result.type
        taken = [
            write.make(MEMBER_TAKEN, [whole], field, _position(op, places[n]))
            for n in sorted(places)
        ]
        taken = [one if field == kind else write.make(BITS_TAKEN, [one], kind) for one in taken]
        value = write.make("vector.from_elements", taken, result.type) if is_vector else taken[0]
        op.operands[use.operand_number] = value


def _element_type(vector: Value) -> Any:
    return ir.VectorType(vector.type).element_type


def _position(op: Operation, place: int) -> dict[str, Any]:
    return {"position": ir.DenseI64ArrayAttr.get([place], op.context)}
