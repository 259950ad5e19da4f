"""Small, portable idioms on raw operations; they work on every stack of `bindings`.

Everything is an `ir.Operation` (never an OpView class, which some stacks lack), told apart
by `op.name`. Handles die with their op and with every C++ pass, so nothing here caches one.

In numba-cuda-mlir 0.6 the hash of an operation covers its attributes and operands (equality
is identity): an op in a set or a dict is not found any more once either changed. Values and
blocks hash by identity.

Questions about IR that nobody edits for a while are answered once: planning a loop asks for the root
of a buffer and the maker of a value some hundred times, and questions to the bindings are dear
(docs/speed.md). The answers are forgotten at the end of the block.

    with unchanged():
        plan = make_plan(loop)         root_of(%b) follows the views of %b once

Kinds of types are told without asking in vain. The bindings say no by an exception, which takes 5
microseconds; but they hand out types and attributes as objects of the class that they have for them,
and what one of a class is not, none of that class is.

    as_kind(ir.MemRefType, %a.type)     the memref type, or None

Stacks that are languages cast each value to a class of their own, in which `==` builds a comparison.
Sets, dicts and `in` ask it too. Inside of `plain_values` such classes lose these methods; nobody may
trace a kernel in another thread meanwhile.

    with plain_values():
        %a == %b            True or False, and no `arith.cmpi eq, %a, %b`
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce, update_wrapper
from io import StringIO
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias, TypeVar

from mlir_async_pipe.bindings import ir
from mlir_async_pipe.session.nesting import WhileAny

if TYPE_CHECKING:
    from flydsl._mlir._mlir_libs._mlir import ir as stubs


Answer = TypeVar("Answer")


class _Thread(threading.local):
    """Whether this thread leaves the IR as it is."""

    reads = False


_thread = _Thread()


class _Answers(dict[Any, Any]):
    """What a function of one value or op has answered, as long as that cannot have changed: calling it
    looks the answer up, and only a new question runs Python. Threads work on modules of their own, so
    one may forget what others know, and never gets an answer that was true before."""

    every: ClassVar[list[_Answers]] = []

    def __init__(self, function: Callable[[Any], Any]) -> None:
        super().__init__()
        self._function = function
        update_wrapper(self, function)
        self.every.append(self)

    __call__ = dict.__getitem__

    def __missing__(self, about: Any) -> Any:
        answer = self._function(about)
        if _thread.reads:
            self[about] = answer
        return answer


@contextmanager
def unchanged() -> Iterator[None]:
    """Inside, the IR is not edited (by this thread); nesting is the outer block."""
    if _thread.reads:
        yield
        return
    _thread.reads = True
    try:
        yield
    finally:
        _thread.reads = False
        edited()


@contextmanager
def edits() -> Iterator[None]:
    """Inside, IR is edited, also where all that is around leaves its own `unchanged`: a copy of it is."""
    reads, _thread.reads = _thread.reads, False
    edited()
    try:
        yield
    finally:
        edited()
        _thread.reads = reads


def edited() -> None:
    """The IR was edited all the same: what was answered before is forgotten."""
    for answers in _Answers.every:
        answers.clear()


def remembered(function: Callable[[Any], Answer]) -> Callable[[Any], Answer]:
    """Let a function of one value or op answer each question once while the IR is `unchanged`. Its answers are
    shared, so they must not be changed."""
    return _Answers(function)


_refused: set[tuple[type, type]] = set()


def as_kind(kind: Any, thing: Any) -> Any | None:
    """A type or an attribute as one of the bindings' class `kind`, None if it is none."""
    given = type(thing)
    if given is kind:
        return thing
    if (kind, given) in _refused:
        return None
    try:
        return kind(thing)
    except (ValueError, TypeError):
        # Of these classes are all those for which the bindings have no class of their own.
        if given not in (ir.Type, ir.Attribute):
            _refused.add((kind, given))
        return None


@remembered
def type_text(kind: Any) -> str:
    """A type, or an attribute, as it is printed."""
    return str(kind)


# Of the stacks this one has type stubs; the handles of all have the same classes.

Operation: TypeAlias = "stubs.Operation"
Value: TypeAlias = "stubs.Value"
Block: TypeAlias = "stubs.Block"


def raw(op: Any) -> Operation:
    """The ir.Operation behind an OpView, a Module, or itself."""
    return op.operation


def walk(root: Any) -> Iterator[Operation]:
    """All ops below and including `root`, in pre-order, collected before the first is given. Collecting first makes
    it safe to rewrite while iterating, as long as no op that is still to come gets erased."""
    op = root.operation
    return iter(_walked(op) if len(op.regions) else (op,))


@remembered
def _walked(root: Operation) -> list[Operation]:
    found: list[Operation] = []

    def collect(op: Any) -> Any:
        found.append(op.operation)
        return ir.WalkResult.ADVANCE

    root.walk(collect, ir.WalkOrder.PRE_ORDER)
    return found


def walk_named(root: Any, wanted: Callable[[str], bool], *, inside: bool = True) -> list[Operation]:
    """The ops of `walk` whose names are `wanted`, each name asked about once: of all others only the
    name is read, which takes half the time. Without `inside` none is looked for in what was found."""
    found: list[Operation] = []
    known: dict[str, bool] = {}
    advance = ir.WalkResult.ADVANCE
    after_one = advance if inside else ir.WalkResult.SKIP

    def visit(op: Any) -> Any:
        name = op.name
        keep = known.get(name)
        if keep is None:
            keep = known[name] = wanted(name)
        if not keep:
            return advance
        found.append(op.operation)
        return after_one

    root.operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def operations(block: Block) -> list[Operation]:
    """The ops of a block as raw operations (indexing a block is linear, a list is not)."""
    return list(_operations(block))


@remembered
def _operations(block: Block) -> list[Operation]:
    return [op.operation for op in block.operations]


def parent(op: Operation) -> Operation | None:
    """The op that holds the block of `op`, None at the root."""
    try:
        above = op.parent
    except ValueError:
        # The root of a copy: the bindings tell it from that of a module.
        return None
    return None if above is None else above.operation


def ancestors(op: Operation) -> Iterator[Operation]:
    """The ops around `op`, innermost first."""
    above = parent(op)
    while above is not None:
        yield above
        above = parent(above)


def ancestor_in_block(op: Operation, block: Block) -> Operation | None:
    """The op of a block that is `op` or around it."""
    above = parent(op)
    while above is not None:
        if op.block == block:
            return op
        op, above = above, parent(above)
    return None


def outermost(op: Operation) -> Operation:
    """The root of the IR that holds `op`, usually the module."""
    top = op
    for top in ancestors(op):  # noqa: B007 - the last one is wanted
        pass
    return top


def enclosing(op: Operation, names: Sequence[str]) -> Operation | None:
    """The innermost op around `op` whose name is in `names`."""
    return next((above for above in ancestors(op) if above.name in names), None)


# A size, stride or offset of a type or an attribute that is not known.
DYNAMIC = -(2**63)

FUNCTION_OPS = ("func.func", "gpu.func", "llvm.func", "cuda.kernel")
# What holds the code of a kernel.
LAUNCH = "gpu.launch"
KERNEL_OPS = (*FUNCTION_OPS, LAUNCH)
SYMBOL_TABLES = ("builtin.module", "gpu.module")
KERNEL_ATTRIBUTES = ("kernel", "gpu.kernel", "rocdl.kernel", "nvvm.kernel")


def is_function(op: Operation) -> bool:
    """Whether `op` is function-like (it may be a declaration without body)."""
    return op.name in FUNCTION_OPS


def is_kernel(holder: Operation) -> bool:
    """Whether a function or launch is entered by all threads of a block with the same arguments."""
    given = holder.attributes
    named = holder.name == LAUNCH or any(name in given for name in KERNEL_ATTRIBUTES)
    return named or (
        # Triton inlines all functions that it may; its kernels for AMD are what is left, and have no attribute of their own.
        _OF_TRITON in given and "noinline" in given and not ir.BoolAttr(given["noinline"]).value
    )


_OF_TRITON = "ttg.global_scratch_memory_size"


def functions(root: Any) -> list[Operation]:
    """All function-like ops with a body, in textual order."""
    return [op for op in walk(root) if is_function(op) and has_body(op)]


def has_body(op: Operation) -> bool:
    """Whether the first region of `op` holds at least one block."""
    return len(op.regions) > 0 and len(list(op.regions[0].blocks)) > 0


def symbol_name(op: Operation) -> str:
    """The symbol name of a function-like op or global, "" if it has none."""
    if "sym_name" not in op.attributes:
        return ""
    return str(ir.StringAttr(op.attributes["sym_name"]).value)


@remembered
def function_type(function: Operation) -> Any:
    """What a gpu.func or func.func takes and returns, without its attributions."""
    return ir.FunctionType(ir.TypeAttr(function.attributes["function_type"]).value)


def function_name(op: Operation) -> str:
    """The name of the function that `op` is or stands in, "" if it has none."""
    function = op if is_function(op) else enclosing(op, FUNCTION_OPS)
    return "" if function is None else symbol_name(function)


@remembered
def defining_op(value: Value) -> Operation | None:
    """The op that makes `value`, None for a block argument."""
    owner: Any = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def passed_from(value: Value, passes: Callable[[Operation], bool]) -> Value:
    """What `value` is made from by ops that pass their first operand on."""
    while (op := defining_op(value)) is not None and passes(op):
        value = op.operands[0]
    return value


def source_op(value: Value) -> Operation:
    """The op that makes `value`, or the one around the block whose argument it is."""
    owner: Any = value.owner
    return owner.owner.operation if isinstance(owner, ir.Block) else owner.operation


def made_in(value: Value) -> tuple[Operation | None, Block]:
    """The op that makes `value`, None for a block argument, and the block that holds either."""
    owner: Any = value.owner
    if isinstance(owner, ir.Block):
        return None, owner
    return owner.operation, owner.operation.block


def is_block_argument(value: Value) -> bool:
    return isinstance(value.owner, ir.Block)


def is_made_in(value: Value, holder: Operation) -> bool:
    """Whether a value is made inside of an op, or is one of its block arguments."""
    op = source_op(value)
    return holder in ancestors(op) or (op == holder and is_block_argument(value))


def result_number(value: Value) -> int:
    """Which result of its op `value` is."""
    return int(ir.OpResult(value).result_number)


def users(value: Value) -> list[Operation]:
    """The ops that use `value`, each once for every use."""
    return [use.owner.operation for use in value.uses]


def is_used(value: Value) -> bool:
    return next(iter(value.uses), None) is not None


def terminator(block: Block) -> Operation:
    ops = block.operations
    # The list is linked: its length counts without a handle for each op.
    return ops[len(ops) - 1].operation


def integer_attribute(op: Operation, name: str) -> int | None:
    """The integer attribute `name`, None if it is absent or no integer."""
    attributes = op.attributes
    number = as_kind(ir.IntegerAttr, attributes[name]) if name in attributes else None
    return None if number is None else int(number.value)


def attribute_names(op: Operation) -> list[str]:
    """The names of all attributes of an op, inherent ones too."""
    return [getattr(entry, "name", entry) for entry in op.attributes]


def attributes_of(op: Operation) -> dict[str, Any]:
    """All attributes of an op by name, inherent ones too."""
    return {name: op.attributes[name] for name in attribute_names(op)}


def set_attributes(op: Operation, wanted: dict[str, Any]) -> None:
    """Let an op have these attributes and no others."""
    for name in attributes_of(op).keys() - wanted.keys():
        del op.attributes[name]
    for name, value in wanted.items():
        op.attributes[name] = value


def set_integer(op: Operation, name: str, value: int, bits: int) -> None:
    """Set an integer attribute of the given width; 0 bits stands for `index`."""
    kind = (
        ir.IndexType.get(op.context) if bits == 0 else ir.IntegerType.get_signless(bits, op.context)
    )
    op.attributes[name] = ir.IntegerAttr.get(kind, value)


@remembered
def constant_value(value: Value) -> int | None:
    """The integer behind an arith.constant, index.constant or llvm.mlir.constant."""
    op = defining_op(value)
    if op is None or op.name not in CONSTANT_OPS:
        return None
    return integer_attribute(op, "value")


CONSTANT_OPS = ("arith.constant", "index.constant", "llvm.mlir.constant")


def create(
    name: str,
    operands: Iterable[Value] = (),
    results: Iterable[Any] = (),
    attributes: dict[str, Any] | None = None,
    *,
    regions: int = 0,
    ip: Any,
    loc: Any,
    successors: Iterable[Block] = (),
) -> Operation:
    """Create an op by its name at an insertion point; the generic form of every builder."""
    return ir.Operation.create(
        name,
        results=list(results),
        operands=list(operands),
        attributes=attributes or {},
        successors=list(successors),
        regions=regions,
        loc=loc,
        ip=ip,
    )


class OpWriter:
    """Makes ops at one place."""

    def __init__(self, ip: Any, location: Any) -> None:
        self.ip = ip
        self.location = location

    @classmethod
    def before(cls, op: Operation) -> Self:
        """The writer of what stands before an op, with its location."""
        return cls(before(op), op.location)

    def op(
        self,
        name: str,
        operands: Iterable[Value] = (),
        results: Iterable[Any] = (),
        attributes: dict[str, Any] | None = None,
    ) -> Operation:
        return create(name, operands, results, attributes, ip=self.ip, loc=self.location)

    def make(
        self,
        name: str,
        operands: Iterable[Value],
        kind: Any,
        attributes: dict[str, Any] | None = None,
    ) -> Value:
        """The value of type `kind` that an op gives."""
        return self.op(name, operands, [kind], attributes).results[0]


def constant(number: int, kind: Any, ip: Any, loc: Any) -> Value:
    """An arith.constant of an integer type or index."""
    value = {"value": ir.IntegerAttr.get(kind, number)}
    return OpWriter(ip, loc).make("arith.constant", (), kind, value)


def again(
    op: Operation,
    operands: Sequence[Value],
    results: Sequence[Any] | None = None,
    attributes: dict[str, Any] | None = None,
) -> Operation:
    """The op written again in its place with other operands, and with other types of results and
    other attributes if they are given. Results may be added after its own; regions move."""
    kinds = [result.type for result in op.results] if results is None else results
    kept = attributes_of(op) if attributes is None else attributes
    count = len(op.regions)
    made = create(op.name, operands, kinds, kept, regions=count, ip=before(op), loc=op.location)
    for old_region, region in zip(op.regions, made.regions, strict=True):
        for block in list(old_region.blocks):
            block.append_to(region)
    for old, new in zip(op.results, made.results, strict=False):
        old.replace_all_uses_with(new)
    op.erase()
    return made


def grow_group(attributes: dict[str, Any], number: int, more: int) -> None:
    """Let an operand group have so many more operands, in the attributes of an op that says how many each has."""
    known = attributes.get("operandSegmentSizes")
    if known is not None:
        sizes = list(ir.DenseI32ArrayAttr(known))
        sizes[number] += more
        attributes["operandSegmentSizes"] = ir.DenseI32ArrayAttr.get(sizes, known.context)


def retype(value: Value, kind: Any, write: Callable[[], Value]) -> Value:
    """Give a value another type; its uses so far get what `write` makes of it then."""
    uses = [(use.owner.operation, use.operand_number) for use in value.uses]
    value.set_type(kind)
    seen = write()
    for user, number in uses:
        user.operands[number] = seen
    return seen


def before(op: Operation) -> Any:
    return ir.InsertionPoint(op)


def first_of(ops: Sequence[Operation]) -> Operation:
    """The first of some ops of one block."""
    return reduce(lambda one, other: other if other.is_before_in_block(one) else one, ops)


def last_of(ops: Sequence[Operation]) -> Operation:
    """The last of some ops of one block."""
    return reduce(lambda one, other: other if one.is_before_in_block(other) else one, ops)


def after(op: Operation) -> Any:
    """The insertion point after `op`, which is not a terminator."""
    return ir.InsertionPoint.after(op)


def attribute(text: str, context: Any) -> Any:
    """Parse an attribute from its text."""
    return ir.Attribute.parse(text, context)


def remap(op: Operation, mapping: dict[Value, Value]) -> None:
    """Replace operands of `op`, and captures in its nested regions, by `mapping`."""
    for inner in walk(op) if len(op.regions) else (op,):
        for number, operand in enumerate(inner.operands):
            replacement = mapping.get(operand)
            if replacement is not None:
                inner.operands[number] = replacement


def clone(op: Operation, mapping: dict[Value, Value], ip: Any) -> Operation:
    """Clone `op` at `ip` with its operands and captures remapped; results join `mapping`."""
    copy = op.clone(ip=ip).operation
    remap(copy, mapping)
    for old, new in zip(op.results, copy.results, strict=True):
        mapping[old] = new
    return copy


@remembered
def captured(op: Operation) -> list[Value]:
    """The values that `op` uses from outside itself: operands, and captures of its regions."""
    if len(op.regions) == 0:
        return list(op.operands)
    inside: set[Value] = set()
    used: list[Value] = []
    for inner in walk(op):
        used.extend(inner.operands)
        if inner != op:
            inside.update(inner.results)
        for region in inner.regions:
            for block in region.blocks:
                inside.update(block.arguments)
    return list(dict.fromkeys(value for value in used if value not in inside))


def erase(ops: Iterable[Operation]) -> None:
    """Erase ops that nobody uses any more, last first."""
    for op in reversed(list(ops)):
        op.erase()


def printed(op: Operation) -> str:
    """An op without regions as a line of text."""
    text = StringIO()
    op.print(file=text, state=_numbering(enclosing(op, FUNCTION_OPS) or op))
    return text.getvalue()


# To number its values for each line would make a function of n ops cost n squared.
@remembered
def _numbering(function: Operation) -> Any:
    return ir.AsmState(function)


_METHODS = ("__eq__", "__ne__", "__hash__")


def _take_methods() -> Callable[[], None]:
    taken = [
        (kind, name, vars(kind)[name])
        for kind in _below(ir.Value)
        for name in _METHODS
        if name in vars(kind)
    ]
    for kind, name, _ in taken:
        delattr(kind, name)

    def put_back() -> None:
        for kind, name, method in taken:
            setattr(kind, name, method)

    return put_back


_PLAIN = WhileAny(_take_methods)


def plain_values() -> WhileAny:
    """Values compare by identity inside; may be nested, and decorates functions."""
    return _PLAIN


def _below(kind: type) -> list[type]:
    """The classes of a stack's language: those below the bindings' own."""
    found: list[type] = []
    near: type
    for near in kind.__subclasses__():
        found += [] if near.__module__ == kind.__module__ else [near]
        found += _below(near)
    return found
