"""From a memref value to the memory behind it: its root, through any chain of views.

    %s = memref.subview %buffer[%i, 0] …      root_of(%s) is the root of %buffer
    %p = llvm.inttoptr %argument              an address that the function is given
    llvm.inttoptr (memref.extract_aligned_pointer_as_index %buffer)     root_of(%buffer)

Two roots are distinct memory if they come from different allocations, attributions or
globals, lie in different memory spaces, or one is a function argument with `llvm.noalias`.
Everything else may be the same memory: "cannot tell" is never "distinct".

Private memory is a thread's own: what it allocates on its stack (memref.alloca, llvm.alloca), is
passed by value, or keeps in private attributions and address space 5. Each thread has another one
under the same name, and no thread reaches that of another unless its address is shown (`is_shown`).

    %a = llvm.alloca …
    llvm.store %v, %a              nobody else knows where %a is
    llvm.store %a, %shared         whoever loads it may reach %a

A view of dynamic shared memory is a *window*, and a root of its own:

    %all = gpu.dynamic_shared_memory : memref<?xi8, …>
    %a = memref.view %all[%c0][] : … to memref<128x32xf16, …>        bytes 0 … 8191
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator
from math import prod
from operator import itemgetter
from typing import Any, Literal, NamedTuple, TypeAlias

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import (
    FUNCTION_OPS,
    Block,
    Operation,
    Value,
    as_kind,
    constant_value,
    defining_op,
    enclosing,
    function_type,
    integer_attribute,
    passed_from,
    remembered,
    source_op,
    type_text,
    users,
    walk,
    walk_named,
)
from mlir_async_pipe.facts.flow.region_flow import origins
from mlir_async_pipe.facts.values.integer_ops import INDEX_BITS, bits_of
from mlir_async_pipe.facts.values.linear import Arithmetic, Linear
from mlir_async_pipe.facts.values.sums import ZERO, Form, S, add
from mlir_async_pipe.facts.values.views import beginning
from mlir_async_pipe.vocabulary import ALLOCATION_OPS, VIEW_OPS, accesses, is_pure, row_of
from mlir_async_pipe.vocabulary.control_flow import CALL_OPS, CAST_OPS, followed_callee
from mlir_async_pipe.vocabulary.launch_ids import launch_id
from mlir_async_pipe.vocabulary.mbarrier_ops import MAKES_TENSOR_MAP
from mlir_async_pipe.vocabulary.memory_layout import element_bytes, if_known, layout_of, span_bytes
from mlir_async_pipe.vocabulary.memory_names import (
    ADDRESS_OF_MEMREF,
    ADDRESS_OPS,
    ADDRESSES_IN,
    BY_VALUE,
    DEALLOCATION_OPS,
    INDEPENDENT,
    MEMBER_TAKEN,
    NOALIAS,
    POINTER_OF_ADDRESS,
    POINTER_STEPS,
    READONLY,
    THREAD_ALLOCATION_OPS,
    binding_number,
    declaration_of,
    global_name,
    in_workgroup_memory,
    is_dynamic_memory,
    is_set,
    said_of,
    taken_member,
)
from mlir_async_pipe.vocabulary.operator_table import OPERATORS, is_operator
from mlir_async_pipe.vocabulary.tensor_boxes import MAP_ENCODERS
from mlir_async_pipe.vocabulary.tensor_memory import LANE, LANE_BITS

Space = Literal["global", "workgroup", "private"]
Kind = Literal[
    "allocation", "attribution", "global", "argument", "binding", "address", "dynamic", "unknown"
]


class Root(NamedTuple):
    """One piece of memory.

    `kind` says where it comes from, `key` tells roots of that kind apart (the value, or the
    symbol of a global), `value` is the root memref value itself. `offset` is the byte offset
    into dynamic shared memory where that is constant, `size` its bytes. `unordered`: no flag of
    other threads says when it may be touched, since nobody writes it while the kernel runs, or
    because its author marked it `async_pipe.independent`.
    """

    kind: Kind
    key: Any
    value: Value
    space: Space
    noalias: bool = False
    offset: int | None = None
    size: int | None = None
    unordered: bool = False

    def __str__(self) -> str:
        return self.describe()

    def describe(self, numbering: Any = None) -> str:
        """`allocation %alloca_0` or `@name`. Naming a value means numbering its function:
        `numbering` (ir.AsmState) saves doing that again for each."""
        if self.kind == "global":
            return f"@{self.key}"
        if self.kind == "dynamic" and self.offset is None:
            return "dynamic shared memory"
        if numbering is None:
            return f"{self.kind} {self.value.get_name()}"
        return f"{self.kind} {self.value.get_name(numbering)}"

    @property
    def identity(self) -> Any:
        """What tells one buffer from another: windows of dynamic shared memory differ."""
        return (self.kind, self.key, self.offset, self.size)

    @property
    def spaces(self) -> frozenset[str]:
        """The address spaces in which others may find this memory: all of them, of a thread's own
        memory whose address it shows, and those that threads share, of an unknown pointer."""
        if self.space == "private":
            shown = self.owned and is_shown(self.value)
            return frozenset(("global", "workgroup", "private")) if shown else OWN
        if self.kind == "unknown" and not _names_its_space(self):
            return frozenset(("global", "workgroup"))
        return frozenset((self.space,))

    @property
    def owned(self) -> bool:
        """Whether every access to this memory goes through `value` (or the symbol)."""
        return self.kind in ("allocation", "attribution", "global", "dynamic")

    @property
    def is_buffer(self) -> bool:
        """Whether only its own value names it, and is a memref: what slots can be put into."""
        return self.owned and as_kind(ir.MemRefType, self.value.type) is not None


OWN = frozenset(("private",))
"""Where memory lies that no other thread reaches."""


@remembered
def root_of(memory: Value) -> Root:
    """The root of a memref (or pointer) value, followed through views."""
    offset: int | None = None
    size: int | None = None
    current = memory
    while True:
        op = defining_op(current)
        if op is None:
            return _argument_root(current)
        if op.name == "memref.view":
            offset, size = constant_value(op.operands[1]), if_known(span_bytes, current.type)
        if op.name in VIEW_OPS or op.name in POINTER_STEPS:
            current = op.operands[0]
            continue
        if op.name in ALLOCATION_OPS:
            independent = is_set(op.attributes, INDEPENDENT)
            return Root(
                "allocation", current, current, space_of(current, op), unordered=independent
            )
        viewed = viewed_memref(op) or taken_member(op)
        if viewed is not None:
            current = viewed
            continue
        if is_dynamic_memory(op):
            return Root("dynamic", "dynamic", current, "workgroup", offset=offset, size=size)
        name = global_name(op)
        if name is not None:
            independent = is_set(op.attributes, INDEPENDENT)
            return Root("global", name, current, space_of(current), unordered=independent)
        number = binding_number(op)
        if number is not None:
            return Root("binding", number, current, space_of(current))
        counted_from = _address_in_sum(op)
        if counted_from is not None:
            current = counted_from
            continue
        argument = _address_argument(op)
        if argument is not None:
            return Root("address", argument, current, space_of(current))
        return Root("unknown", current, current, space_of(current))


def viewed_memref(op: Operation) -> Value | None:
    """The memref to whose allocation an op makes a pointer, from its address or its descriptor, without arithmetic."""
    if op.name not in ADDRESSES_IN:
        return None
    source = defining_op(op.operands[0])
    while (
        source is not None
        and len(source.operands) == 1
        and (source.name in CAST_OPS or is_operator(source.name, "cast"))
    ):
        if str(source.operands[0].type).startswith("memref<"):
            of_descriptor = op.name == MEMBER_TAKEN and _POINTER.search(
                str(op.attributes["position"])
            )
            return source.operands[0] if of_descriptor else None
        source = defining_op(source.operands[0])
    if source is None or source.name != ADDRESS_OF_MEMREF:
        return None
    return source.operands[0] if op.name == POINTER_OF_ADDRESS else None


def _address_in_sum(op: Operation) -> Value | None:
    """The pointer from which an address is counted: the only one in a sum, which may be rounded down to a power of
    two. No number that is added to an address of shared memory, or swizzles its bits, leads into other memory; into
    that leads none of other memory either, unless it is made of an address itself, as q - p is: a pointer is based on
    all those that its address is made of (LLVM language reference, pointer aliasing rules)."""
    if op.name != POINTER_OF_ADDRESS:
        return None
    shared = type_text(op.results[0].type) in SHARED_POINTERS
    bits = SHARED_BITS if shared else POINTER_BITS
    found: list[Operation] = []
    open_ones = [op.operands[0]]
    while open_ones and len(found) < 2:
        number = open_ones.pop()
        made = defining_op(number)
        if made is not None and bits_of(number.type) >= bits:
            if made.name in ADDRESS_OPS:
                found.append(made)
                continue
            if any(is_operator(made.name, kind) for kind in ("cast", "add", "xor")):
                open_ones += made.operands
                continue
            if is_operator(made.name, "and_") and (constant_value(made.operands[1]) or 0) < 0:
                open_ones.append(made.operands[0])
                continue
        if not shared and _may_hold_an_address(number):
            return None
    # The address of a memref's window may be counted on into the next window.
    one = len(found) == 1 and found[0].name != ADDRESS_OF_MEMREF
    return found[0].operands[0] if one else None


def _may_hold_an_address(number: Value) -> bool:
    """Whether an integer is made of an address, or of 64 bits of which nobody says what they are, as of loaded ones. A
    parameter is what its type says; what a loop carries holds one if what it begins with does, or what is added to it."""
    made = defining_op(number)
    block = ir.BlockArgument(number).owner if made is None else made.block
    without = _without_address(block)
    pending, seen = [number], {number}
    while pending:
        current = pending.pop()
        if current in without or bits_of(current.type) < POINTER_BITS:
            continue
        made = defining_op(current)
        found = origins(current)
        if made is not None and made.name in OPERATORS:
            parts = list(made.operands)
        elif found.complete:
            parts = found.values
        elif _is_given(current):
            parts = []
        else:
            return True
        pending += [part for part in parts if part not in seen]
        seen.update(parts)
    without |= seen
    return False


def _is_given(value: Value) -> bool:
    """Whether it is known what a number is that nothing in the function makes."""
    given = defining_op(value) is None and _argument_root(value).kind == "argument"
    return given or launch_id(value) is not None or constant_value(value) is not None


@remembered
def _without_address(block: Block) -> set[Value]:
    """The integers that were found to hold no address when those of a block were asked about."""
    return set()


# Addresses of shared memory, of which a block has less than 2^32 bytes, and of other memory.
SHARED_BITS, POINTER_BITS = 32, 64
# Pointers into shared memory of the block, and of the blocks of a cluster.
SHARED_POINTERS = ("!llvm.ptr<3>", "!llvm.ptr<7>")


# Of a memref's descriptor fields 0 and 1 are pointers to its allocation.
_POINTER = re.compile(r": [01]>")

# Memory that a kernel is given; no two are known to be apart, unless one is marked so.
GIVEN = ("argument", "binding", "address")


def may_alias(a: Root, b: Root, *, assume_noalias_arguments: bool = False) -> bool:
    """Whether two roots may be (parts of) the same memory; True when that is not known.

    `assume_noalias_arguments`: what a kernel is given, arguments, bindings and addresses, is all
    apart."""
    if a.kind == b.kind and a.key == b.key:
        return not _disjoint_windows(a, b)
    if a.space != b.space and all(r.kind != "unknown" or _names_its_space(r) for r in (a, b)):
        return False
    if a.owned and b.owned:
        return False
    for one, other in ((a, b), (b, a)):
        if one.kind in GIVEN and other.kind != "unknown":
            if one.noalias or assume_noalias_arguments:
                return False
            # Memory that this function allocates is new: no argument can point to it. A caller
            # may hand over the dynamic memory that both name.
            if other.kind in ("allocation", "attribution"):
                return False
    return True


def may_meet(some: Iterable[Root], others: Collection[Root]) -> bool:
    """Whether some of both may be one memory."""
    return any(may_alias(one, other) for one in some for other in others)


def roots_in(ops: Iterable[Operation], *, writes: bool | None = None) -> set[Root]:
    """The memory that ops, with all in them, access; or what they write, or read."""
    found = (access for op in ops for inner in walk(op) for access in accesses(inner))
    return {root_of(access.memory) for access in found if writes in (None, access.writes)}


def threads_may_meet(a: Root, b: Root) -> bool:
    """Whether one thread may reach through `b` what another one reaches through `a`, where both may
    be one memory: not a thread's own, unless that is shown and the other name is not its own."""
    return not (a.space == b.space == "private") and OWN not in (a.spaces, b.spaces)


def _names_its_space(root: Root) -> bool:
    """Whether the type says where the memory is; without a space it may be anywhere."""
    memref = as_kind(ir.MemRefType, root.value.type)
    if memref is not None:
        return memref.memory_space is not None
    return type_text(root.value.type).startswith("!llvm.ptr<")


def space_of(memory: Value, allocation: Any = None) -> Space:
    """The memory space of a memref value; an alloca without a space is private."""
    found = space_of_type(memory.type)
    if found == "global" and allocation is not None and allocation.name in THREAD_ALLOCATION_OPS:
        memref = as_kind(ir.MemRefType, memory.type)
        return "private" if memref is None or memref.memory_space is None else "global"
    return found


def touched(op: Operation) -> list[tuple[Literal["read", "write"], Space]]:
    """How an op accesses memory, and of which spaces, access by access."""
    return [("write" if a.writes else "read", root_of(a.memory).space) for a in accesses(op)]


@remembered
def space_of_type(kind: Any) -> Space:
    """The memory space that a memref or pointer type names; "global" where it names none."""
    memref = as_kind(ir.MemRefType, kind)
    if in_workgroup_memory(kind):
        return "workgroup"
    if memref is None:
        return "private" if type_text(kind) == "!llvm.ptr<5>" else "global"
    space = memref.memory_space
    text = str(space) if space is not None else ""
    if "private" in text or text.startswith("5"):
        return "private"
    return "global"


def parameter_of(root: Root) -> tuple[Operation, int] | None:
    """The function and the number of its parameter that is a root, or by whose value it is given; None for all other memory."""
    if root.kind not in ("argument", "attribution"):
        return None
    argument = ir.BlockArgument(root.value)
    function, number = argument.owner.owner.operation, argument.arg_number
    return None if number >= _inputs_up_to(function, number) else (function, number)


def _inputs_up_to(function: Operation, number: int) -> int:
    """How many parameters a function has, at least where its first block's argument `number` may be none."""
    return len(function_type(function).inputs) if function.name == "gpu.func" else number + 1


def _argument_root(argument: Value) -> Root:
    block = ir.BlockArgument(argument).owner
    function = block.owner.operation
    if function.name not in FUNCTION_OPS or block != function.regions[0].blocks[0]:
        return Root("unknown", argument, argument, space_of(argument))
    number = ir.BlockArgument(argument).arg_number
    inputs, given = _inputs_up_to(function, number), said_of(argument)
    marks = {name for name in (NOALIAS, READONLY, INDEPENDENT, BY_VALUE) if is_set(given, name)}
    if number >= inputs:
        of_block = number - inputs < (integer_attribute(function, "workgroup_attributions") or 0)
        return Root(
            *("attribution", argument, argument, "workgroup" if of_block else "private"),
            unordered=INDEPENDENT in marks,
        )
    if BY_VALUE in marks:
        return Root("attribution", argument, argument, "private")
    return Root(
        *("argument", argument, argument, space_of(argument)),
        noalias=NOALIAS in marks,
        # LLVM loads such memory through caches that other threads' stores do not reach.
        unordered=INDEPENDENT in marks or {NOALIAS, READONLY} <= marks,
    )


def _address_argument(op: Operation) -> Value | None:
    """The function argument that an op takes a pointer out of: a number, or a field of a struct.
    The fields of one struct may be one memory, as the two pointers of a memref's descriptor are."""
    source = passed_from(op.results[0], lambda one: one.name in ADDRESSES_IN)
    given = defining_op(source) is None and _argument_root(source).kind == "argument"
    return source if given else None


def _disjoint_windows(a: Root, b: Root) -> bool:
    if a.kind != "dynamic" or a.offset is None or b.offset is None:
        return False
    (begin, size), (other, _) = sorted([(a.offset, a.size), (b.offset, b.size)], key=itemgetter(0))
    return size is not None and begin + size <= other


@remembered
def is_shown(memory: Value) -> bool:
    """Whether the address of a thread's own memory may be known to others: it is stored, made a
    number, forwarded to where it is not followed, or to code that nobody can see."""
    return any(named is None for _, named in uses_of_memory(memory))


def uses_of_memory(memory: Value) -> Iterator[tuple[Any, list[Value] | None]]:
    """The uses of memory by any of its names, each with what else names it there."""
    pending, seen = [memory], {memory}
    while pending:
        for use in pending.pop().uses:
            named = _names_of_operand(use.owner, use.operand_number)
            yield use, named
            pending += [value for value in named or () if value not in seen]
            seen.update(named or ())


def _names_of_operand(user: Any, number: int) -> list[Value] | None:
    """What else names an operand's memory: results, a callee's argument. None where the op may tell others."""
    op = user.operation
    callee = followed_callee(op)
    if callee is not None:
        return [callee.regions[0].blocks[0].arguments[number]]
    if any(access.memory_operand == number for access in accesses(op)):
        return []
    if row_of(op).harmless or op.name in DEALLOCATION_OPS:
        return []
    if op.name in ADDRESS_OPS or not is_pure(op):
        return None
    return [result for result in op.results if _HOLDS_ADDRESSES.search(type_text(result.type))]


_HOLDS_ADDRESSES = re.compile(r"memref<|ptr")


def windows(function: Operation) -> list[Root]:
    """The windows that a function makes, one a view; one of unknown place for other uses of dynamic memory."""
    found = []
    for op in walk(function):
        if op.name == "memref.view" or (
            is_dynamic_memory(op) and any(u.name != "memref.view" for u in users(op.results[0]))
        ):
            found.append(root_of(op.results[0]))
    return [root for root in found if root.kind == "dynamic"]


def overlapping_windows(op: Operation, root: Root) -> bool:
    """Whether another view of the function may name bytes of this window."""
    same = 0
    for other in windows(enclosing(op, FUNCTION_OPS) or op):
        if other.identity == root.identity:
            same += 1
        elif may_alias(root, other):
            return True
    return same > 1


def end_of_windows(function: Operation, without: frozenset[Any]) -> int:
    """The first byte after all windows but those in `without`, rounded up to 16.

    Windows of unknown place overlap everything, so a function that has one never gets here.
    """
    end = 0
    for root in windows(function):
        if root.identity not in without:
            assert root.offset is not None and root.size is not None
            end = max(end, root.offset + root.size)
    return -(-end // 16) * 16


# Pointers ----------------------------------------------------------------------------------------
#
# Accesses by LLVM pointers as subscripts in bytes of the memory that they start from.
#
#     %s = llvm.mlir.addressof @s                               @s, byte 4 %i + 512, 16 bytes
#     %p = llvm.getelementptr %s[512] : …, i8             -->
#     %q = llvm.getelementptr %p[%i] : …, f32
#     llvm.store %v, %q : vector<4xf32>, !llvm.ptr<3>
#
# Steps lead into structs and arrays of arrays too; one through a type of unknown layout leaves the place
# unknown.
#
# An address of tensor memory is columns after the value that it is made of:
#
#     %at = arith.addi %base, %lanes      lanes do not count
#     %from = arith.addi %at, 64          (%base, 64)


@remembered
def is_pointer(value: Value) -> bool:
    """Whether a value is one LLVM pointer, of any space."""
    return type_text(value.type).startswith("!llvm.ptr")


def from_the_start(pointer: Value, arithmetic: Arithmetic) -> tuple[Any, Linear] | None:
    """What a pointer starts from (a value, or a global's name) and the bytes to it; None if they are not known."""
    offset: Linear = ZERO
    while (op := defining_op(pointer)) is not None:
        name = global_name(op)
        if name is not None:
            return name, offset
        if op.name in POINTER_STEPS:
            step = step_bytes(op, arithmetic.linear)
            if step is None:
                return None
            pointer = op.operands[0]
        else:
            counted = _counted_address(op, arithmetic)
            if counted is None:
                break
            pointer, step = counted
        offset = add(offset, step)
    return pointer, offset


def _counted_address(op: Operation, arithmetic: Arithmetic) -> tuple[Value, Linear] | None:
    """The pointer from whose address another one is counted, and the constant bytes between."""
    if op.name != POINTER_OF_ADDRESS or bits_of(op.operands[0].type) != INDEX_BITS:
        return None
    form = arithmetic.wrapped(op.operands[0])
    ((symbol, factor),) = form.terms if len(form.terms) == 1 else ((None, 0),)
    made = None if factor != 1 else defining_op(symbol)
    if made is None or ADDRESS_OPS.get(made.name) != "same":
        return None
    return made.operands[0], Form(form.constant)


def constant_bytes(pointer: Value, arithmetic: Arithmetic) -> int | None:
    """The bytes from the beginning of its memory to where a pointer leads, None if they are not one number."""
    found = from_the_start(pointer, arithmetic)
    if found is None or not found[1].is_constant:
        return None
    start = found[0]
    made = None if isinstance(start, str) else defining_op(start)
    known = isinstance(start, str) or (made is not None and viewed_memref(made) is not None)
    return found[1].constant if known else None


def step_bytes(op: Operation, linear: Callable[[Value], Form[S]]) -> Form[S] | None:
    """The bytes that an op of POINTER_STEPS adds, by the forms of its indices; None if not known, or of many pointers."""
    if not is_pointer(op.results[0]):
        return None
    begin = if_known(beginning, op)
    if begin is None:
        return None
    total: Form[S] = ZERO
    for step in begin.steps:
        amount = step.amount
        one = Form(amount) if isinstance(amount, int) else linear(op.operands[amount.position])
        total = add(total, one, step.size)
    return total


@remembered
def bytes_of_global(pointer: Value) -> int | None:
    """The bytes of the llvm.mlir.global whose address a value is; None if they are not known, as of
    an external one, whose size the launch decides."""
    op = defining_op(pointer)
    declared = None if op is None else declaration_of(op)
    if declared is None or "global_type" not in declared.attributes:
        return None
    layout = if_known(layout_of, ir.TypeAttr(declared.attributes["global_type"]).value)
    return None if layout is None else layout.stride_bytes or None


def static_bytes(root: Root) -> int:
    """The bytes of a root, 0 where they are not static, and of windows, which may lie over each other."""
    if root.kind == "dynamic":
        return 0
    if is_pointer(root.value):
        return bytes_of_global(root.value) or 0
    kind = ir.MemRefType(root.value.type)
    return prod(kind.shape) * (if_known(element_bytes, kind) or 0) if kind.has_static_shape else 0


Columns: TypeAlias = "tuple[Value | None, int]"


def columns_after(address: Value, known: dict[Value, Columns] | None = None) -> Columns:
    """The value that an address is made of, and the columns added to it; None if it is made of more.
    `known` keeps what was found, for addresses that are counted one from the other."""
    known = {} if known is None else known
    path: list[tuple[Value, int]] = []
    while address not in known:
        below, more = _one_step(address)
        if below is None or below == address:
            known[address] = below, more
        else:
            path.append((address, more))
            address = below
    base, columns = known[address]
    for value, more in reversed(path):
        columns += more
        known[value] = base, columns
    return base, columns


def _one_step(address: Value) -> Columns:
    """What an address is made of, itself if of nothing else, and the columns added to that."""
    op = defining_op(address)
    if op is None:
        return address, 0
    if op.name == POINTER_OF_ADDRESS or is_operator(op.name, "cast"):
        return op.operands[0], 0
    if not is_operator(op.name, "add"):
        return address, 0
    numbers = [constant_value(operand) for operand in op.operands]
    columns = sum(number % LANE for number in numbers if number is not None)
    bases = [
        operand
        for operand, number in zip(op.operands, numbers, strict=True)
        if number is None and not _is_lane(operand)
    ]
    if len(bases) > 1:
        return None, 0
    return (bases[0] if bases else None), columns


def _is_lane(value: Value) -> bool:
    """Whether a number is whole lanes."""
    op = defining_op(value)
    factor = None if op is None or len(op.operands) != 2 else constant_value(op.operands[1])
    if op is None or factor is None:
        return False
    if is_operator(op.name, "shl"):
        return factor >= LANE_BITS
    return any(is_operator(op.name, name) for name in ("mul", "and_")) and factor % LANE == 0


# Tensor maps -------------------------------------------------------------------------------------
#
# From a tensor map to the global memory that it describes.
#
#     %map = nvgpu.tma.create.descriptor %x …     the root of %x, and how %x lies there
#     %map : an argument of the kernel            memory that the kernel is given, by no name of its own
#
# Whose memory an argument describes is not to be seen: an `llvm.noalias` on the pointer to it is said
# of the map, not of that memory.


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
    # It may be made around the launch in which the map is.
    made, launch = defining_op(parameter), enclosing(source_op(tensor_map), ["gpu.launch"])
    around = made is not None and launch is not None and enclosing(made, ["gpu.launch"]) is None
    given = around or parameter_of(root_of(parameter)) is not None
    return (parameter, offset.constant) if given else None


def map_root(tensor_map: Value) -> Root | None:
    """The root of the bytes of a tensor map itself, None where it is no pointer."""
    _, value = _maker(tensor_map)
    return root_of(value) if is_pointer(value) else None


@remembered
def described_memref(tensor_map: Value) -> Any:
    """The memref type that a tensor map is made of, which is all of its root; None where it is not known."""
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
    value = passed_from(tensor_map, lambda op: op.name in CAST_OPS and len(op.operands) == 1)
    return defining_op(value), value


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
