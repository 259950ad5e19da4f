"""The table of PTX instructions: which ops each one is.

    add.s32 %r1, %r2, 4;                        llvm.add
    cp.async.cg.shared.global [%r1], [%rd2], 16;     nvvm.cp.async.shared.global
    @!%p1 bra again;  after mbarrier.try_wait   nvvm.mbarrier.try_wait.parity (`raise_ptx`)

What an op issues, waits for, reads and writes stands in the vocabulary's table; here stands only its name. An
instruction that makes numbers of numbers and has no row is kept as inline assembly without effects; any other
is inline assembly that may do anything, and the checker says so with its text. Source: PTX ISA, chapter 9.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from mlir_async_pipe.ptx.function_writer import (
    SPACES,
    TYPES,
    Bank,
    FunctionWriter,
    UnreadError,
    Value,
    bits_of,
    elements_of,
    pointer_type,
    registers_of,
    storage_type,
    struct_of,
    vector_type,
)
from mlir_async_pipe.ptx.syntax import (
    BYTES,
    Address,
    Instruction,
    Number,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)
from mlir_async_pipe.vocabulary.barriers import named_barrier_sizes
from mlir_async_pipe.vocabulary.op_table import INLINE_ASSEMBLY
from mlir_async_pipe.vocabulary.products import ProductForm, assembled
from mlir_async_pipe.vocabulary.ptx_rows import read_instruction

Row: TypeAlias = "Callable[[FunctionWriter, Instruction], None]"
VALUES: dict[str, Row] = {}
"""Instructions that make numbers of numbers, by the longest beginning of their name."""
EFFECTS: dict[str, Row] = {}
"""Instructions that do something to memory, to other threads, or to what is in flight."""
# Instructions of these names make numbers of numbers, also where no row reads their form.
_PURE = frozenset(
    "abs add bfe bfi bfind bmsk brev clz cnot copysign cos cvt cvta div dp2a dp4a ex2 fma fns lg2 lop3 mad "
    "mad24 max min mma mov mul mul24 neg not or and xor popc prmt rcp rem rsqrt sad selp set setp shf shl shr "
    "sin slct sqrt sub szext tanh testp createpolicy isspacep istypep getctarank activemask".split()
)


def _row(table: dict[str, Row], names: str) -> Callable[[Row], Row]:
    def keep(row: Row) -> Row:
        table.update(dict.fromkeys(names.split(), row))
        return row

    return keep


def row_of(instruction: Instruction) -> tuple[Row | None, bool]:
    """The row of an instruction, None if it has none; and whether it has effects."""
    parts = instruction.parts
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        for table in (VALUES, EFFECTS):
            if name in table:
                return table[name], table is EFFECTS
    return None, parts[0] not in _PURE


def _type(i: Instruction) -> str:
    """The type of an instruction: the last that its name has."""
    for part in reversed(i.parts):
        if part in TYPES:
            return part
    raise UnreadError


def _is_float(kind: str) -> bool:
    return kind.startswith(("f", "bf"))


def _plain(i: Instruction, *allowed: str) -> None:
    """Refuse modifiers that a row does not read; `allowed` are those that it reads beside types."""
    if any(part not in TYPES and part not in allowed for part in i.parts[1:]):
        raise UnreadError


def _one_of(i: Instruction, known: Iterable[str], otherwise: str = "") -> str:
    """The first modifier that is one of those known."""
    return next((part for part in i.parts[1:] if part in known), otherwise)


_ROUNDING = ("rn", "ftz", "approx", "full")

# Instructions that are one op ------------------------------------------------------------------


@dataclass(frozen=True)
class OneOp:
    """The row of an instruction that is one op. {1} is the second part of its name; `operands` says as
    what each is read that is no result (`_read`); the `lanes` that take part come first of the op's, and a
    # is the number {n} of the properties. `known` are the beginnings of modifiers that are read, if that matters."""

    op: str
    operands: str = ""
    result: str = ""
    properties: str | Callable[[Instruction], str] = ""
    known: tuple[str, ...] = ("",)

    def __call__(self, w: FunctionWriter, i: Instruction) -> None:
        if any(not part.startswith(self.known) for part in i.parts[2:]):
            raise UnreadError
        given = list(i.operands[bool(self.result) :])
        kinds, number = self.operands.split(), 0
        if kinds[-1:] == ["lanes"]:
            given, kinds = [*given[-1:], *given[:-1]], ["i32", *kinds[:-1]]
        values: list[Value] = []
        for operand, kind in zip(given, kinds, strict=True):
            if kind == "#":
                number = w.integer(operand)
            else:
                values += _read(w, i, operand, kind)
        stated = self.properties if isinstance(self.properties, str) else self.properties(i)
        name, properties = (text.format(*i.parts, n=number) for text in (self.op, stated))
        for made in w.op(name, values, properties, (self.result,) * bool(self.result)):
            w.assign(i.operands[0], made)


@dataclass(frozen=True)
class InAssembly:
    """The row of an instruction for which NVVM has no op: assembly of it alone, whose row the vocabulary has
    (`ptx_rows`). `operands` says as what each is read that is no result (`_read`)."""

    operands: str
    result: bool = False

    def __call__(self, w: FunctionWriter, i: Instruction) -> None:
        targets = elements_of(i.operands[0]) if self.result else ()
        texts, values = [_numbered(0, len(targets))] * self.result, list[Value]()
        given, kinds = i.operands[bool(self.result) :], self.operands.split()
        # An operand at the end may be left out.
        for operand, kind in zip(given, kinds, strict=False):
            numbers = _numbered(len(targets) + len(values), len(read := _read(w, i, operand, kind)))
            texts.append(f"[{numbers}]" if kind in SPACES else numbers)
            values += read
        text = f"{i.opcode} {', '.join(texts)};"
        if len(given) > len(kinds) or read_instruction(text, len(targets)) is None:
            raise UnreadError
        results = [storage_type(TYPES[_type(i)])] * len(targets)
        w.assign_all(targets, write_assembled(w, text, results, values))


def _numbered(first: int, count: int) -> str:
    numbers = ", ".join(f"${first + number}" for number in range(count))
    return numbers if count == 1 else f"{{{numbers}}}"


def _read(w: FunctionWriter, i: Instruction, operand: Operand, kind: str) -> list[Value]:
    """An operand as the values of a type of MLIR; an address in a state space, or in the "own" one of the
    instruction; an "mbarrier"; * is each register of a vector, as the type of the instruction or as one given."""
    if kind == "mbarrier":
        return [_mbarrier(w, i, operand)]
    if kind == "own" or kind in SPACES:
        return [w.pointer(operand, _space(i) if kind == "own" else kind)]
    if kind[-1] != "*":
        return [w.read(operand, kind)]
    kind = kind[:-1] or storage_type(TYPES[_type(i)])
    return [w.read(one, kind) for one in elements_of(operand)]


VALUES |= {
    "vote.sync": OneOp("nvvm.vote.sync", "i1 lanes", "i1", "kind = #nvvm<vote_sync_kind {2}>"),
    "vote.sync.ballot": OneOp(
        "nvvm.vote.sync", "i1 lanes", "i32", "kind = #nvvm<vote_sync_kind ballot>"
    ),
    "match.any.sync": OneOp(
        "nvvm.match.sync", "* lanes", "i32", "kind = #nvvm<match_sync_kind any>"
    ),
    # movmatrix.sync.aligned.m8n8.trans.b16 a, b;
    "movmatrix": OneOp(
        "nvvm.movmatrix",
        *("i32", "i32"),
        "shape = #nvvm.ld_st_matrix_shape<m = 8, n = 8>, eltType = #nvvm.ld_st_matrix_elt_type<b16>, "
        "layout = #nvvm.mma_layout<col>",
    ),
}


@_row(VALUES, "clusterlaunchcontrol.query_cancel")
def _was_cancelled(w: FunctionWriter, i: Instruction) -> None:
    """clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 p, answer;"""
    target, answer = i.operands
    asked = i.parts[2].replace("ctaid::", "cta_id_")
    names = [f"get_first_cta_id_{axis}" for axis in "xyz"] if "v4" in i.parts else [asked]
    kind = "i1" if asked == "is_canceled" else "i32"
    for one, name in zip(elements_of(target), names, strict=False):
        query = f"query_type = #nvvm<cluster_launch_control_query_type {name}>"
        op = "nvvm.clusterlaunchcontrol.query.cancel"
        w.assign(one, w.make(op, (w.read(answer, "i128"),), kind, query))


# The fifth part of an instruction says for whom.
_SCOPE = "scope = #nvvm.mem_scope<{4}>"


def _waits_in(i: Instruction) -> str:
    # What is released to the block alone tells those who wait in another block nothing.
    elsewhere = {"cta", "shared::cluster"} <= set(i.parts)
    relaxed = "true" if "relaxed" in i.parts or elsewhere else "false"
    return f"relaxed = {relaxed}, scope = #nvvm.mem_scope<{_one_of(i, ('cta', 'cluster'), 'cta')}>"


def _if(modifier: str, then: str, otherwise: str = "") -> Callable[[Instruction], str]:
    """What the properties of an op are where the name of an instruction has a part that begins so, and where not."""
    return lambda i: then if any(one.startswith(modifier) for one in i.parts) else otherwise


def _group(i: Instruction, name: str = "group") -> str:
    (blocks,) = (part[-1] for part in i.parts if part.startswith("cta_group::"))
    return f"{name} = #nvvm.cta_group<cta_{blocks}>"


# Modifiers of tcgen05 that say nothing more than the instruction does.
_OF_TENSORS = ("cta_group::", "sync", "aligned", "b32", "b64")
_IN_SHARED = InAssembly("shared::cluster * shared::cluster")
_COUNTS_BYTES = OneOp("nvvm.mbarrier.{1}", "mbarrier i32", "", "scope = #nvvm.mem_scope<cta>")
_ALIGNED, _OF_CLUSTERS = _if("aligned", "aligned"), ("arrive", "release", "aligned")
EFFECTS |= {
    "multimem.ld_reduce": InAssembly("global", result=True),
    "multimem.st": InAssembly("global *"),
    "multimem.red": InAssembly("global *"),
    "cp.reduce.async.bulk.global": InAssembly("global shared i32 i64"),
    "st.async": _IN_SHARED,
    "red.async": _IN_SHARED,
    **dict.fromkeys(
        ("bar.arrive", "bar.cta.arrive", "barrier.arrive", "barrier.cta.arrive"),
        OneOp("nvvm.barrier.arrive", "i32 i32"),
    ),
    "bar.warp.sync": OneOp("nvvm.bar.warp.sync", "i32"),
    "barrier.cluster.arrive": OneOp("nvvm.cluster.arrive", "", "", _ALIGNED, _OF_CLUSTERS),
    "barrier.cluster.arrive.relaxed": OneOp("nvvm.cluster.arrive.relaxed", properties=_ALIGNED),
    "barrier.cluster.wait": OneOp("nvvm.cluster.wait", properties=_ALIGNED),
    "cp.async.commit_group": OneOp("nvvm.cp.async.commit.group"),
    "cp.async.wait_group": OneOp("nvvm.cp.async.wait.group", "#", "", "n = {n} : i32"),
    "cp.async.bulk.commit_group": OneOp("nvvm.cp.async.bulk.commit.group"),
    "cp.async.bulk.wait_group": OneOp(
        "nvvm.cp.async.bulk.wait_group",
        *("#", ""),
        _if("read", "group = {n} : i32, read", "group = {n} : i32"),
    ),
    "cp.async.mbarrier.arrive": OneOp(
        "nvvm.cp.async.mbarrier.arrive",
        *("mbarrier", ""),
        _if("noinc", "noinc = true", "noinc = false"),
    ),
    # clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [answer], [mbarrier];
    "clusterlaunchcontrol.try_cancel": OneOp(
        "nvvm.clusterlaunchcontrol.try.cancel", "shared shared", "", _if("multicast", "multicast")
    ),
    "brkpt": OneOp("nvvm.breakpoint"),
    "fence.mbarrier_init": OneOp("nvvm.fence.mbarrier.init"),
    # fence.acquire.sync_restrict::shared::cluster.cluster: of shared memory alone.
    **{
        f"fence.{proxy}{order}.sync_restrict::shared::{space}": OneOp(
            f"nvvm.fence.{op}sync_restrict", properties=f"order = #nvvm.mem_order<{order}>"
        )
        for proxy, op in (("", ""), ("proxy.async::generic.", "proxy."))
        for order, space in (("acquire", "cluster"), ("release", "cta"))
    },
    "fence.proxy.tensormap::generic.release": OneOp("nvvm.fence.proxy.release", properties=_SCOPE),
    # fence.proxy.tensormap::generic.acquire.gpu [map], 128;
    "fence.proxy.tensormap::generic.acquire": OneOp(
        "nvvm.fence.proxy.acquire", "generic i32", "", _SCOPE
    ),
    "griddepcontrol": OneOp("nvvm.griddepcontrol", properties="kind = #nvvm<grid_dep_action {1}>"),
    "mbarrier.init": OneOp("nvvm.mbarrier.init", "mbarrier i32"),
    "mbarrier.inval": OneOp("nvvm.mbarrier.inval", "mbarrier"),
    "mbarrier.expect_tx": _COUNTS_BYTES,
    "mbarrier.complete_tx": _COUNTS_BYTES,
    "setmaxnreg": OneOp(
        "nvvm.setmaxregister",
        *("#", ""),
        lambda i: f"action = #nvvm<action {i.parts[1]}rease>, regCount = {{n}} : i32",
    ),
    # tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [place], 128;
    "tcgen05.alloc": OneOp(
        "nvvm.tcgen05.alloc", "own i32", "", _group, (*_OF_TENSORS, "shared::cta")
    ),
    "tcgen05.dealloc": OneOp(
        "nvvm.tcgen05.dealloc", f"{pointer_type('tensor')} i32", "", _group, _OF_TENSORS
    ),
    "tcgen05.relinquish_alloc_permit": OneOp(
        "nvvm.tcgen05.relinquish_alloc_permit", properties=_group
    ),
    "tcgen05.shift": OneOp("nvvm.tcgen05.shift", "tensor", "", _group, (*_OF_TENSORS, "down")),
    **{
        f"tcgen05.fence::{side}_thread_sync": OneOp(
            "nvvm.tcgen05.fence", properties=f"kind = #nvvm.tcgen05_fence<{side}>"
        )
        for side in ("before", "after")
    },
    "wgmma.commit_group": OneOp("nvvm.wgmma.commit.group.sync.aligned"),
    "wgmma.fence": OneOp("nvvm.wgmma.fence.aligned"),
    "wgmma.wait_group": OneOp("nvvm.wgmma.wait.group.sync.aligned", "#", "", "group = {n} : i64"),
}

# Numbers of numbers --------------------------------------------------------------------------

_LOWER_HALF = 2**32 - 1
# The ops of LLVM: of floats, of signed integers, of other ones.
_OF_TWO = {
    "add": ("fadd", "add", "add"),
    "sub": ("fsub", "sub", "sub"),
    "mul": ("fmul", None, None),
    "div": ("fdiv", "sdiv", "udiv"),
    "rem": (None, "srem", "urem"),
    "min": ("intr.minnum", "intr.smin", "intr.umin"),
    "max": ("intr.maxnum", "intr.smax", "intr.umax"),
    "and": (None, "and", "and"),
    "or": (None, "or", "or"),
    "xor": (None, "xor", "xor"),
}


@_row(VALUES, " ".join(_OF_TWO))
def _two_operands(w: FunctionWriter, i: Instruction) -> None:
    head, kind = i.parts[0], _type(i)
    target, first, second = i.operands
    if head == "mul" and not _is_float(kind):
        w.assign(target, _product(w, i, [first, second]))
        return
    extreme = head in ("min", "max")
    _plain(i, *_ROUNDING, *["NaN"] * extreme)
    a, b = w.read(first, TYPES[kind]), w.read(second, TYPES[kind])
    if head == "and" and isinstance(second, Number) and w.integer(second) == _LOWER_HALF:
        # The lower half of 64 bits, as of addresses of shared memory.
        w.assign(target, w.extended(w.extended(a, 32, signed=False), bits_of(a.type), signed=False))
        return
    name = _OF_TWO[head][0 if _is_float(kind) else 1 if kind[0] == "s" else 2]
    if name is None:
        raise UnreadError
    if extreme and "NaN" in i.parts and _is_float(kind):
        name = f"intr.{head}imum"
    w.assign(target, w.binary(f"llvm.{name}", a, b))


def _product(w: FunctionWriter, i: Instruction, factors: list[Operand]) -> Value:
    """mul.lo, mul.wide, mul.hi"""
    half, kind = i.parts[1], _type(i)
    _plain(i, "lo", "wide", "hi")
    signed, bits = kind[0] == "s", bits_of(TYPES[kind])
    a, b = (w.read(factor, TYPES[kind]) for factor in factors)
    if half == "lo":
        return w.binary("llvm.mul", a, b)
    if half == "hi" and bits == 64:
        # So that no number has 128 bits.
        name = "arith.mulsi_extended" if signed else "arith.mului_extended"
        return w.op(name, (a, b), results=(a.type, a.type))[1]
    wide = w.binary("llvm.mul", w.extended(a, 2 * bits, signed), w.extended(b, 2 * bits, signed))
    if half == "wide":
        return wide
    high = w.binary("llvm.lshr", wide, w.constant(bits, wide.type))
    return w.extended(high, bits, signed)


@_row(VALUES, "mad.lo mad.wide mad.hi")
def _multiply_and_add(w: FunctionWriter, i: Instruction) -> None:
    target, a, b, c = i.operands
    product = _product(w, i, [a, b])
    w.assign(target, w.binary("llvm.add", product, w.read(c, product.type)))


@_row(VALUES, "fma mad.f32 mad.f64 mad.rn")
def _fused(w: FunctionWriter, i: Instruction) -> None:
    _plain(i, *_ROUNDING)
    target, *operands = i.operands
    kind = TYPES[_type(i)]
    w.assign(target, w.make("llvm.intr.fma", [w.read(one, kind) for one in operands], kind))


_OF_FLOATS = {"neg": "fneg", "abs": "intr.fabs", "sqrt": "intr.sqrt", "ex2": "intr.exp2",
              "lg2": "intr.log2", "sin": "intr.sin", "cos": "intr.cos"}  # fmt: skip
_OF_INTEGERS = {
    "abs": ("abs", "is_int_min_poison = false"),
    "clz": ("ctlz", "is_zero_poison = false"),
    "popc": ("ctpop", ""),
    "brev": ("bitreverse", ""),
}


@_row(VALUES, "not neg abs sqrt rcp ex2 lg2 sin cos popc clz brev")
def _one_operand(w: FunctionWriter, i: Instruction) -> None:
    _plain(i, *_ROUNDING)
    head, kind = i.parts[0], _type(i)
    target, operand = i.operands
    value, of = w.read(operand, TYPES[kind]), TYPES[kind]
    if head == "not":
        made = w.binary("llvm.xor", value, w.constant(-1, of))
    elif head == "rcp":
        made = w.binary("llvm.fdiv", w.constant("1.0", of), value)
    elif _is_float(kind):
        made = w.make(f"llvm.{_OF_FLOATS[head]}", (value,), of)
    elif head == "neg":
        made = w.binary("llvm.sub", w.constant(0, of), value)
    else:
        name, properties = _OF_INTEGERS[head]
        made = w.make(f"llvm.intr.{name}", (value,), of, properties)
    w.assign(target, w.cast(made, "i32") if head in ("popc", "clz") else made)


@_row(VALUES, "shl shr")
def _shift(w: FunctionWriter, i: Instruction) -> None:
    """PTX shifts by more bits than there are, too: nothing, or the sign, is left (PTX ISA, shl and shr)."""
    kind = _type(i)
    target, operand, by = i.operands
    value, bits = w.read(operand, TYPES[kind]), bits_of(TYPES[kind])
    amount = w.extended(w.read(by, "i32"), bits, signed=False)
    name = "llvm.shl" if i.parts[0] == "shl" else "llvm.ashr" if kind[0] == "s" else "llvm.lshr"
    if isinstance(by, Number) and w.integer(by) < bits:
        made = w.binary(name, value, amount)
    elif name == "llvm.ashr":
        most = w.binary("llvm.intr.umin", amount, w.constant(bits - 1, value.type))
        made = w.binary(name, value, most)
    else:
        inside = w.compare("ult", amount, w.constant(bits, value.type))
        masked = w.binary("llvm.and", amount, w.constant(bits - 1, value.type))
        shifted = w.binary(name, value, masked)
        made = w.select(inside, shifted, w.constant(0, value.type))
    w.assign(target, made)


@_row(VALUES, "shf")
def _funnel_shift(w: FunctionWriter, i: Instruction) -> None:
    if "wrap" not in i.parts:
        raise UnreadError
    target, low, high, by = i.operands
    name = "llvm.intr.fshl" if "l" in i.parts else "llvm.intr.fshr"
    w.assign(target, w.make(name, [w.read(one, "i32") for one in (high, low, by)], "i32"))


@_row(VALUES, "bfe")
def _extract_bits(w: FunctionWriter, i: Instruction) -> None:
    """bfe.u32 d, a, 5, 3: bits 5 to 7 of a."""
    kind = _type(i)
    target, operand, first, count = i.operands
    bits, start, length = bits_of(TYPES[kind]), w.integer(first), w.integer(count)
    value = w.read(operand, TYPES[kind])
    if not (length > 0 and start + length <= bits):
        raise UnreadError
    up = w.binary("llvm.shl", value, w.constant(bits - start - length, value.type))
    down = "llvm.ashr" if kind[0] == "s" else "llvm.lshr"
    w.assign(target, w.binary(down, up, w.constant(bits - length, value.type)))


@_row(VALUES, "bfi")
def _insert_bits(w: FunctionWriter, i: Instruction) -> None:
    """bfi.b32 d, a, b, 4, 28: a << 4 | b & 15, which is 16 a + (b & 15)."""
    target, inserted, into, first, count = i.operands
    kind = TYPES[_type(i)]
    start, length = w.integer(first), w.integer(count)
    mask = ((1 << length) - 1) << start
    field = w.binary("llvm.shl", w.read(inserted, kind), w.constant(start, kind))
    kept = w.binary("llvm.and", w.read(into, kind), w.constant(~mask, kind))
    if start + length < bits_of(kind):
        field = w.binary("llvm.and", field, w.constant(mask, kind))
    w.assign(target, w.binary("llvm.or", kept, field, "isDisjoint"))


@_row(VALUES, "prmt")
def _permute_bytes(w: FunctionWriter, i: Instruction) -> None:
    """prmt.b32 d, a, b, 0x5410: four bits say which byte of b and a each byte is; 8 more, its sign only."""
    _plain(i)
    target, first, second, selector = i.operands
    a, b, chosen = w.read(first, "i32"), w.read(second, "i32"), w.integer(selector)
    made: Value | None = None
    for at in range(4):
        which = chosen >> (4 * at) & 15
        source, byte = (b if which & 4 else a), which & 3
        if which & 8:
            part = w.binary("llvm.shl", source, w.constant(24 - 8 * byte, "i32"))
            part = w.binary("llvm.ashr", part, w.constant(31, "i32"))
        else:
            part = w.binary("llvm.lshr", source, w.constant(8 * byte, "i32")) if byte else source
        part = w.binary("llvm.and", part, w.constant(255, "i32"))
        part = w.binary("llvm.shl", part, w.constant(8 * at, "i32")) if at else part
        made = part if made is None else w.binary("llvm.or", made, part)
    if made is not None:
        w.assign(target, made)


@_row(VALUES, "lop3")
def _logic_of_three(w: FunctionWriter, i: Instruction) -> None:
    """A table of 8 bits: bit 4 a + 2 b + c says what the result is there."""
    _plain(i)
    target, *operands, table = i.operands
    values = [w.read(one, "i32") for one in operands]
    ones = w.constant(-1, "i32")
    inverted = [w.binary("llvm.xor", value, ones) for value in values]
    made = w.constant(0, "i32")
    for number in range(8):
        if w.integer(table) >> number & 1:
            term = ones
            for at in range(3):
                chosen = values if number >> (2 - at) & 1 else inverted
                term = w.binary("llvm.and", term, chosen[at])
            made = w.binary("llvm.or", made, term)
    w.assign(target, made)


_RELATIONS = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge",
              "lo": "ult", "ls": "ule", "hi": "ugt", "hs": "uge"}  # fmt: skip
# Numbers of the predicates of llvm.fcmp.
_FLOAT_RELATIONS = {"eq": 1, "gt": 2, "ge": 3, "lt": 4, "le": 5, "ne": 6, "num": 7, "equ": 8,
                    "gtu": 9, "geu": 10, "ltu": 11, "leu": 12, "neu": 13, "nan": 14}  # fmt: skip


@_row(VALUES, "setp")
def _compare(w: FunctionWriter, i: Instruction) -> None:
    relation, kind = i.parts[1], _type(i)
    target, first, second, *combined = i.operands
    a, b = w.read(first, TYPES[kind]), w.read(second, TYPES[kind])
    if _is_float(kind):
        number = _FLOAT_RELATIONS[relation]
        holds = w.make("llvm.fcmp", (a, b), "i1", f"predicate = {number} : i64")
    else:
        name = _RELATIONS[relation]
        if kind[0] != "s" and name.startswith("s"):
            name = "u" + name[1:]
        holds = w.compare(name, a, b)
    targets = (target.first, target.second) if isinstance(target, Pair) else (target,)
    for number, one in enumerate(targets):
        made = w.binary("llvm.xor", holds, w.constant(1, "i1")) if number else holds
        for other in combined:
            made = w.binary(f"llvm.{i.parts[2]}", made, w.read(other, "i1"))
        w.assign(one, made)


@_row(VALUES, "selp")
def _choose(w: FunctionWriter, i: Instruction) -> None:
    target, a, b, condition = i.operands
    kind = TYPES[_type(i)]
    w.assign(target, w.select(w.read(condition, "i1"), w.read(a, kind), w.read(b, kind)))


@_row(VALUES, "mov")
def _move(w: FunctionWriter, i: Instruction) -> None:
    target, source = i.operands
    kind = TYPES[_type(i)]
    if isinstance(source, Vector):
        each = f"i{bits_of(kind) // len(source.elements)}"
        w.assign(target, _joined(w, (w.read(part, each) for part in source.elements), kind))
    elif isinstance(target, Vector):
        whole = w.cast(w.read(source, kind), f"i{bits_of(kind)}")
        bits = bits_of(kind) // len(target.elements)
        for number, element in enumerate(target.elements):
            part = whole
            if number:
                part = w.binary("llvm.lshr", whole, w.constant(number * bits, whole.type))
            w.assign(element, w.extended(part, bits, signed=False))
    else:
        w.assign(target, w.read(source, kind))


def _joined(w: FunctionWriter, parts: Iterable[Value], kind: str) -> Value:
    """{low, …, high} as one value."""
    made: Value | None = None
    at = 0
    for part in parts:
        wide = w.extended(part, bits_of(kind), signed=False)
        if made is not None:
            wide = w.binary("llvm.shl", wide, w.constant(at, wide.type))
        made = wide if made is None else w.binary("llvm.or", made, wide)
        at += bits_of(part.type)
    if made is None:
        raise UnreadError
    return w.cast(made, kind)


@_row(VALUES, "cvta")
def _change_space(w: FunctionWriter, i: Instruction) -> None:
    """cvta.to.shared.u64: from a generic address; without "to" to one. Global ones are generic ones."""
    space = next((part for part in i.parts if part in SPACES), "generic")
    target, source = i.operands
    number = w.read(source, "i64")
    if space in ("global", "const", "generic"):
        w.assign(target, number)
        return
    near, generic = pointer_type(space), pointer_type("generic")
    kinds = (generic, near) if "to" in i.parts else (near, generic)
    pointer = w.cast(number, kinds[0])
    w.assign(target, w.make("llvm.addrspacecast", (pointer,), kinds[1]))


@_row(VALUES, "cvt")
def _convert(w: FunctionWriter, i: Instruction) -> None:
    _plain(i, *_ROUNDING, "rzi", "rz")
    to, of = [part for part in i.parts if part in TYPES]
    target, *sources = i.operands
    if len(sources) == 2 and to in ("f16x2", "bf16x2"):
        # The first source becomes the upper half.
        half = to.removesuffix("x2")
        halves = [w.make("llvm.fptrunc", (w.read(one, "f32"),), half) for one in reversed(sources)]
        w.assign(target, _joined(w, (w.cast(one, "i16") for one in halves), "i32"))
        return
    (source,) = sources
    value = w.read(source, TYPES[of])
    _assign_filled(w, target, _converted(w, value, to, of, i), to)


def _converted(w: FunctionWriter, value: Value, to: str, of: str, i: Instruction) -> Value:
    wanted = TYPES[to]
    more = bits_of(wanted) - bits_of(value.type)
    match _is_float(to), _is_float(of):
        case False, False:
            return w.extended(value, bits_of(wanted), signed=of[0] == "s")
        case True, True if to == of and "rzi" not in i.parts:
            return value
        case True, True if more and "rz" not in i.parts:
            return w.make("llvm.fpext" if more > 0 else "llvm.fptrunc", (value,), wanted)
        case True, False if "rz" not in i.parts:
            return w.make("llvm.sitofp" if of[0] == "s" else "llvm.uitofp", (value,), wanted)
    # Rounding to a number outside of the type gives the nearest one it has; llvm's gives poison.
    raise UnreadError


# What lanes tell each other ---------------------------------------------------------------------


_SHUFFLE = OneOp("nvvm.shfl.sync", "i32 i32 i32 lanes", "i32", "kind = #nvvm<shfl_kind {2}>")


@_row(VALUES, "shfl.sync")
def _shuffle(w: FunctionWriter, i: Instruction) -> None:
    """shfl.sync.idx.b32 d|p, a, b, c, mask; whether the lane that was asked is in range is read by few"""
    target, *rest = i.operands
    if isinstance(target, Pair):
        if w.is_read(target.second):
            raise UnreadError
        target = target.first
    _SHUFFLE(w, replace(i, operands=(target, *rest)))


@_row(VALUES, "elect.sync")
def _elect(w: FunctionWriter, i: Instruction) -> None:
    target, mask = i.operands
    if not isinstance(target, Pair):
        raise UnreadError
    elected = w.make("nvvm.elect.sync", (), "i1")
    w.assign(target.second, elected)
    if w.is_read(target.first):
        # The lane that is elected: the only one of which the predicate holds.
        ballot = "kind = #nvvm<vote_sync_kind ballot>"
        lanes = w.make("nvvm.vote.sync", (w.read(mask, "i32"), elected), "i32", ballot)
        w.assign(target.first, w.make("llvm.intr.cttz", (lanes,), "i32", "is_zero_poison = false"))


@_row(VALUES, "match.all.sync")
def _match_all(w: FunctionWriter, i: Instruction) -> None:
    """match.all.sync.b32 lanes|same, x, mask: all lanes of the mask if all have one x, else none."""
    target, value, mask = i.operands
    operands = (w.read(mask, "i32"), w.read(value, TYPES[_type(i)]))
    kinds = ("i32", "i1")
    all_ = "kind = #nvvm<match_sync_kind all>"
    both = w.make("nvvm.match.sync", operands, struct_of(kinds), all_)
    targets = (target.first, target.second) if isinstance(target, Pair) else (target,)
    for number, (one, kind) in enumerate(zip(targets, kinds, strict=False)):
        w.assign(one, w.member(both, kind, number))


@_row(VALUES, "redux.sync")
def _reduce(w: FunctionWriter, i: Instruction) -> None:
    kind, name = _type(i), i.parts[2]
    target, value, mask = i.operands
    _plain(i, "sync", "add", "min", "max", "and", "or", "xor", "abs", "NaN")
    of, letter, flags = "i32", "u" if kind == "u32" and name in ("min", "max") else "", ""
    if _is_float(kind):
        of, letter = "f32", "f"
        flags = "".join(f", {part.lower()} = true" for part in ("abs", "NaN") if part in i.parts)
    operands = (w.read(value, of), w.read(mask, "i32"))
    properties = f"kind = #nvvm<reduction_kind {letter}{name}>{flags}"
    w.assign(target, w.make("nvvm.redux.sync", operands, of, properties))


@_row(VALUES, "mapa")
def _map_to_block(w: FunctionWriter, i: Instruction) -> None:
    """mapa[.shared::cluster].u32 d, address, rank;   without a space both are generic addresses"""
    target, source, rank = i.operands
    given, inside = w.read(source, TYPES[_type(i)]), "shared::cluster" in i.parts
    near = w.cast(given, pointer_type("shared" if inside else "generic"))
    near = w.in_space(near, "shared")
    there = w.make("nvvm.mapa", (near, w.read(rank, "i32")), pointer_type("shared::cluster"))
    w.assign(target, there if inside else w.in_space(there, "generic"))


# Memory ---------------------------------------------------------------------------------------

_ORDERINGS = {"relaxed": 2, "acquire": 4, "release": 5, "acq_rel": 6, "sc": 7, "volatile": 2}
_SCOPES = {"cta": "block", "cluster": "cluster", "gpu": "device", "sys": ""}
_CACHING = frozenset("ca cg cs lu cv wb wt nc weak param v2 v4 v8 volatile".split())


def _space(i: Instruction) -> str:
    return _one_of(i, SPACES, "generic")


def _access_order(i: Instruction, size: int) -> str:
    """The properties that say what a load or store orders (PTX ISA, memory consistency model)."""
    for part in i.parts[1:]:
        if part == "volatile":
            return "ordering = 0 : i64, volatile_"
        if part in _ORDERINGS:
            return f"alignment = {size} : i64, ordering = {_ORDERINGS[part]} : i64{_scope(i)}"
    return f"alignment = {size} : i64, ordering = 0 : i64"


def _known_access(i: Instruction) -> None:
    """Refuse a load or store with a modifier that is not known to leave its meaning as it is."""
    for part in i.parts[1:]:
        known = part in TYPES or part in SPACES or part in _ORDERINGS or part in _SCOPES
        if not (known or part in _CACHING or part.startswith(("L1::", "L2::"))):
            raise UnreadError


def _scope(i: Instruction) -> str:
    scope = _SCOPES.get(_one_of(i, _SCOPES))
    return f', syncscope = "{scope}"' if scope else ""


def _element(i: Instruction) -> tuple[str, int]:
    """The type of the elements of a load or store, and how many there are."""
    return _type(i), int(_one_of(i, ("v2", "v4", "v8"), "v1")[1:])


@_row(EFFECTS, "ld ldu")
def _load(w: FunctionWriter, i: Instruction) -> None:
    _known_access(i)
    kind, count = _element(i)
    target, address = i.operands[:2]
    base = address.base if isinstance(address, Address) else None
    given = isinstance(base, Symbol) and base.name in w.storage
    if _space(i) == "generic" and "param" in i.parts and not given:
        return _load_parameter(w, i, kind, count)
    element = storage_type(TYPES[kind])
    order = _access_order(i, count * BYTES[kind]) + (", invariant" if "nc" in i.parts else "")
    whole = w.make("llvm.load", (w.pointer(address, _space(i)),), vector_type(element, count), order)  # fmt: skip
    loaded = w.elements(whole, element, count)
    for register, value in zip(elements_of(target), loaded, strict=True):
        _assign_filled(w, register, value, kind)


def _assign_filled(w: FunctionWriter, register: Operand, value: Value, kind: str) -> None:
    """A register may have more bits than what is loaded or converted: the sign fills them, or zeros."""
    if isinstance(register, Register) and kind[0] == "s" and register.name in w.kernel.registers:
        bits = max(bits_of(w.kind_of(register.name)), bits_of(value.type))
        value = w.extended(value, bits, signed=True)
    w.assign(register, value)


def _load_parameter(w: FunctionWriter, i: Instruction, kind: str, count: int) -> None:
    target, address = i.operands
    if not isinstance(address, Address) or not isinstance(address.base, Symbol):
        raise UnreadError
    given = w.arguments[address.base.name]
    parameter = next(one for one in w.kernel.parameters if one.name == address.base.name)
    if parameter.size == BYTES.get(parameter.kind, 0) == BYTES[kind] * count and count == 1:
        w.assign(target, given)
        return
    order = f"alignment = {BYTES[kind]} : i64, ordering = 0 : i64"
    for number, register in enumerate(elements_of(target)):
        pointer = w.moved(given, address.offset + number * BYTES[kind])
        value = w.make("llvm.load", (pointer,), storage_type(TYPES[kind]), order)
        _assign_filled(w, register, value, kind)


@_row(EFFECTS, "st")
def _store(w: FunctionWriter, i: Instruction) -> None:
    _known_access(i)
    kind, count = _element(i)
    address, source = i.operands[:2]
    element = storage_type(TYPES[kind])
    whole = w.vector([w.read(one, element) for one in elements_of(source)])
    order = _access_order(i, count * BYTES[kind])
    w.op("llvm.store", (whole, w.pointer(address, _space(i))), order)


# Numbers of the binary operations of llvm.atomicrmw: of signed numbers, of others.
_ATOMIC = {"exch": (0, 0), "add": (1, 1), "and": (3, 3), "or": (5, 5), "xor": (6, 6),
           "max": (7, 9), "min": (8, 10), "inc": (15, 15), "dec": (16, 16)}  # fmt: skip
_ADDS_FLOATS = 11


@_row(EFFECTS, "atom red")
def _atomic(w: FunctionWriter, i: Instruction) -> None:
    """atom.global.add.v2.f32 {old}, [address], {a, b}: each element is atomic by itself (PTX ISA, atom)."""
    kind, count = _element(i)
    of = storage_type(TYPES[kind])
    target, address, *given = i.operands if i.parts[0] == "atom" else (Register("_"), *i.operands)
    order = _ORDERINGS[_one_of(i, _ORDERINGS, "relaxed")]
    pointer = w.pointer(address, _space(i))
    scope = _scope(i)
    if "cas" in i.parts:
        failure = {5: 2, 6: 4}.get(order, order)
        properties = f"failure_ordering = {failure} : i64, success_ordering = {order} : i64{scope}"
        operands = (pointer, *(w.read(one, of) for one in given))
        pair = w.make("llvm.cmpxchg", operands, struct_of((of, "i1")), properties)
        w.assign(target, w.member(pair, of, 0))
        return
    name = _one_of(i, _ATOMIC)
    (value_given,) = given
    number = _ATOMIC[name][kind[0] != "s"]
    if _is_float(kind):
        if name != "add" or kind.endswith("x2"):
            raise UnreadError
        number, of = _ADDS_FLOATS, TYPES[kind]
    properties = f"bin_op = {number} : i64, ordering = {order} : i64{scope}"
    values = [w.read(one, of) for one in elements_of(value_given)]
    targets = elements_of(target) if isinstance(target, Vector) else (target,) * count
    for at, (one, value) in enumerate(zip(targets, values, strict=True)):
        place = w.moved(pointer, at * BYTES[kind])
        w.assign(one, w.make("llvm.atomicrmw", (place, value), of, properties))


@_row(EFFECTS, "fence.sc fence.acq_rel fence.acquire fence.release")
def _fence(w: FunctionWriter, i: Instruction) -> None:
    order = _ORDERINGS[_one_of(i, _ORDERINGS)]
    w.op("llvm.fence", (), f"ordering = {order} : i64{_scope(i)}")


@_row(EFFECTS, "membar")
def _memory_barrier(w: FunctionWriter, i: Instruction) -> None:
    scope = {"gl": ', syncscope = "device"', "cta": ', syncscope = "block"'}.get(i.parts[-1], "")
    w.op("llvm.fence", (), f"ordering = {_ORDERINGS['sc']} : i64{scope}")


# The numbers of what has no number in a tensor map, in the words of MLIR (PTX ISA, tensormap.replace).
_OF_MAPS = {
    "elemtype": "u8 u16 u32 s32 u64 s64 f16 f32 f32.ftz f64 bf16 tf32 tf32.ftz b4x16 b4x16_p64 b6x16_p32",
    "interleave_layout": "no_interleave b16 b32",
    "swizzle_mode": "no_swizzling b32 b64 b128 b96",
    "fill_mode": "zero oob_nan",
}


@_row(EFFECTS, "tensormap.replace")
def _change_map(w: FunctionWriter, i: Instruction) -> None:
    """tensormap.replace.tile.box_dim.shared::cta.b1024.b32 [map], 0, %rows;"""
    field = i.parts[3]
    address, *numbers, value = i.operands
    properties = [f"field = #nvvm<tensormap_field {field}>"]
    properties += [f"ord = {w.integer(one)} : i32" for one in numbers]
    operands = [w.pointer(address, _space(i))]
    if field in _OF_MAPS:
        name = _OF_MAPS[field].split()[w.integer(value)]
        properties.append(f"new_value_attr = #nvvm.tensormap_{field}<{name}>")
    else:
        operands.append(w.read(value, TYPES[_type(i)]))
    w.op("nvvm.tensormap.replace", operands, ", ".join(properties))


@_row(EFFECTS, "tensormap.cp_fenceproxy")
def _copy_map(w: FunctionWriter, i: Instruction) -> None:
    """tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [to], [from], 128;
    all lanes of a warp copy a map, and release it."""
    target, source, size = i.operands
    kind = vector_type("i32", w.integer(size) // 4)
    order = "alignment = 4 : i64, ordering = 0 : i64"
    image = w.make("llvm.load", (w.pointer(source, "shared"),), kind, order)
    w.op("llvm.store", (image, w.pointer(target, "global")), order)
    scope = f"scope = #nvvm.mem_scope<{i.parts[6]}>"
    w.op("nvvm.fence.proxy.release", (), scope)


@_row(EFFECTS, "fence.proxy.async")
def _fence_of_proxies(w: FunctionWriter, i: Instruction) -> None:
    space = _space(i)
    if space.startswith("shared"):
        inner = space.removeprefix("shared::")
        w.op("nvvm.fence.proxy", (), f"kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<{inner}>")  # fmt: skip
    else:
        of = "async.global" if space == "global" else "async"
        w.op("nvvm.fence.proxy", (), f"kind = #nvvm.proxy_kind<{of}>")


# Rows and columns of the matrices of each shape, its elements and the registers that a lane has of one.
_TILES = {
    "m8n8": (("b16",), 1),
    "m16n8": (("b8",), 1),
    "m16n16": (("b8", "b8x16.b6x16_p32", "b8x16.b4x16_p64"), 2),
    "m8n16": (("b8x16.b6x16_p32", "b8x16.b4x16_p64"), 1),
}


@_row(EFFECTS, "ldmatrix stmatrix")
def _matrix(w: FunctionWriter, i: Instruction) -> None:
    """ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {a, b}, [address];"""
    shape = _one_of(i, _TILES)
    elements, each = _TILES[shape]
    kind = ".".join(i.parts[-2 if "b8x16" in i.parts else -1 :])
    if kind not in elements:
        raise UnreadError
    rows, columns = shape.removeprefix("m").split("n")
    count = int(_one_of(i, ("x1", "x2", "x4"))[1:])
    tile = (
        f"shape = #nvvm.ld_st_matrix_shape<m = {rows}, n = {columns}>, "
        f"eltType = #nvvm.ld_st_matrix_elt_type<{kind}>, "
        f"layout = #nvvm.mma_layout<{'col' if 'trans' in i.parts else 'row'}>"
    )
    space = "shared" if "shared" in i.opcode else "generic"
    if i.parts[0] == "stmatrix":
        address, source = i.operands
        values = [w.read(one, "i32") for one in elements_of(source)]
        w.op("nvvm.stmatrix", (w.pointer(address, space), *values), tile)
        return
    target, address = i.operands
    loads = f"{tile}, num = {count} : i32"
    kinds = ["i32"] * (count * each)
    w.assign_all(elements_of(target), w.parts("nvvm.ldmatrix", (w.pointer(address, space),), kinds, loads))  # fmt: skip


# Barriers ---------------------------------------------------------------------------------------


@_row(EFFECTS, "bar.sync barrier.sync bar.cta.sync barrier.cta.sync")
def _barrier(w: FunctionWriter, i: Instruction) -> None:
    number, *threads = i.operands
    plain = not threads and isinstance(number, Number) and w.integer(number) == 0
    operands = [] if plain else [w.read(one, "i32") for one in i.operands]
    sizes = ", ".join(map(str, named_barrier_sizes(len(operands))))
    w.op("nvvm.barrier", operands, f"operandSegmentSizes = array<i32: {sizes}>")


@_row(EFFECTS, "bar.red barrier.red bar.cta.red barrier.cta.red")
def _reducing_barrier(w: FunctionWriter, i: Instruction) -> None:
    """barrier.cta.red.or.aligned.pred any, 0, this; all threads meet, and know in how many this holds."""
    target, number, condition = i.operands
    kind = next(part for part in i.parts if part in ("popc", "and", "or"))
    if w.integer(number) != 0:
        raise UnreadError
    holds = w.extended(w.read(condition, "i1"), 32, signed=False)
    properties = f"operandSegmentSizes = array<i32: 0, 0, 1>, reductionOp = #nvvm.reduction<{kind}>"
    made = w.make("nvvm.barrier", (holds,), "i32", properties)
    w.assign(target, made if kind == "popc" else w.compare("ne", made, w.constant(0, "i32")))


# Asynchronous copies ----------------------------------------------------------------------------


@_row(EFFECTS, "cp.async.ca cp.async.cg")
def _copy(w: FunctionWriter, i: Instruction) -> None:
    """cp.async.cg.shared.global [to], [from], 16, %read;"""
    target, source, size, *more = i.operands
    operands, whole = [w.pointer(target, "shared"), w.pointer(source, "global")], w.integer(size)
    read = [one for one in more if "cache_hint" not in i.opcode or one is not more[-1]]
    if read and isinstance(read[0], Register) and w.kernel.registers.get(read[0].name) == "pred":
        # ignore-src: zeros where it holds.
        none, all_ = w.constant(0, "i32"), w.constant(whole, "i32")
        operands.append(w.select(w.read(read[0], "i1"), none, all_))
    elif read and not (isinstance(read[0], Number) and w.integer(read[0]) == whole):
        operands.append(w.read(read[0], "i32"))
    cache = f"modifier = #nvvm<load_cache_modifier {i.parts[2]}>"
    w.op("nvvm.cp.async.shared.global", operands, f"{cache}, size = {whole} : i32")


@_row(EFFECTS, "cp.async.wait_all")
def _wait_for_all(w: FunctionWriter, i: Instruction) -> None:
    w.op("nvvm.cp.async.commit.group")
    w.op("nvvm.cp.async.wait.group", (), "n = 0 : i32")


def _hints(
    w: FunctionWriter, i: Instruction, given: Iterable[Operand]
) -> tuple[list[Value], list[Value]]:
    """The mask of a multicast and the cache hint, of the operands at the end."""
    rest = list(given)
    mask = [w.read(rest.pop(0), "i16")] if "multicast::cluster" in i.parts else []
    hint = [w.read(rest.pop(0), "i64")] if "cache_hint" in i.opcode else []
    if rest:
        raise UnreadError
    return mask, hint


@_row(EFFECTS, "cp.async.bulk.tensor")
def _copy_tensor(w: FunctionWriter, i: Instruction) -> None:
    modes = [part.replace("::", "_") for part in i.parts if part.startswith(("tile", "im2col"))]
    mode = {"im2col_no_offs": "im2col"}.get(*modes, *modes) if modes else "tile"
    first, second, *more = i.operands
    if i.parts[5] == "global":
        # cp.async.bulk.tensor.2d.global.shared::cta: a store.
        map_, *coordinates = _map_of(w, first)
        source = w.pointer(second, "shared")
        _, hint = _hints(w, i, more)
        groups: list[list[Value]] = [[map_], [source], coordinates, hint, []]
        name = "nvvm.cp.async.bulk.tensor.global.shared.cta"
        w.op_of_groups(name, groups, f"mode = #nvvm.tma_store_mode<{mode}>")
        return
    barrier, *rest = more
    # In im2col mode: where a filter stands, {%h1, %h2}.
    filter_ = elements_of(rest.pop(0)) if mode[0] == "i" and rest else ()
    offsets = [w.read(one, "i16") for one in filter_]
    mask, hint = _hints(w, i, rest)
    own = i.parts[5] == "shared::cta"
    map_, *coordinates = _map_of(w, second)
    tile = w.pointer(first, "shared" if own else "shared::cluster")
    groups = [[tile], [map_], coordinates, [w.pointer(barrier, "shared")], offsets, mask, hint, []]
    properties = f"isCTAOnly = {'true' if own else 'false'}, mode = #nvvm.tma_load_mode<{mode}>"
    w.op_of_groups("nvvm.cp.async.bulk.tensor.shared.cluster.global", groups, properties)


@_row(EFFECTS, "cp.reduce.async.bulk.tensor")
def _add_tensor(w: FunctionWriter, i: Instruction) -> None:
    """cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [map, {column, row}], [tile];"""
    tensor, source, *more = i.operands
    kind = i.parts[8]
    if kind not in ("add", "min", "max", "inc", "dec", "and", "or", "xor") or "im2col" in i.opcode:
        raise UnreadError
    _, hint = _hints(w, i, more)
    map_, *coordinates = _map_of(w, tensor)
    groups = ([map_], [w.pointer(source, "shared")], coordinates, hint)
    properties = f"mode = #nvvm.tma_store_mode<tile>, redKind = #nvvm.tma_redux_kind<{kind}>"
    w.op_of_groups("nvvm.cp.async.bulk.tensor.reduce", groups, properties)


def _map_of(w: FunctionWriter, tensor: Operand) -> list[Value]:
    if not isinstance(tensor, Address):
        raise UnreadError
    map_ = w.pointer(Address(tensor.base, tensor.offset), "generic")
    return [map_, *(w.read(one, "i32") for one in tensor.coordinates)]


@_row(EFFECTS, "cp.async.bulk.shared::cluster cp.async.bulk.shared::cta cp.async.bulk.global")
def _copy_bulk(w: FunctionWriter, i: Instruction) -> None:
    target, source, size, *more = i.operands
    match i.parts[3], i.parts[4]:
        case "global", "shared::cta":
            _, hint = _hints(w, i, more)
            ends = [w.pointer(target, "global")], [w.pointer(source, "shared")]
            groups: list[list[Value]] = [*ends, [w.read(size, "i32")], hint, []]
            w.op_of_groups("nvvm.cp.async.bulk.global.shared.cta", groups)
        case near, "global":
            barrier, *rest = more
            mask, hint = _hints(w, i, rest)
            in_cluster = w.in_space(w.pointer(target, near), "shared::cluster")
            ends = [in_cluster], [w.pointer(source, "global")]
            groups = [*ends, [w.pointer(barrier, "shared")], [w.read(size, "i32")], mask, hint]
            w.op_of_groups("nvvm.cp.async.bulk.shared.cluster.global", groups)
        case _:
            raise UnreadError


# mbarriers --------------------------------------------------------------------------------------


def _mbarrier(w: FunctionWriter, i: Instruction, address: Operand) -> Value:
    pointer = w.pointer(address, _space(i))
    return w.in_space(pointer, "shared") if _space(i) == "generic" else pointer


@_row(EFFECTS, "mbarrier.arrive mbarrier.arrive_drop")
def _arrive(w: FunctionWriter, i: Instruction) -> None:
    """mbarrier.arrive[.expect_tx | .noComplete] state, [address], number; without a state on another block's."""
    has_state = not isinstance(i.operands[0], Address)
    address, *more = i.operands[has_state:]
    operands = [_mbarrier(w, i, address), *(w.read(one, "i32") for one in more)]
    name, properties = f"nvvm.mbarrier.{i.parts[1]}", _waits_in(i)
    if "noComplete" in i.parts:
        name, properties = f"{name}.nocomplete", ""
    elif "expect_tx" in i.parts:
        name += ".expect_tx"
    results = () if operands[0].type == pointer_type("shared::cluster") else ("i64",)
    for state in w.op(name, operands, properties, results):
        w.assign(i.operands[0] if has_state else Register("_"), state)


@_row(EFFECTS, "mbarrier.try_wait mbarrier.test_wait")
def _test(w: FunctionWriter, i: Instruction) -> None:
    target, address, phase, *_ = i.operands
    asked = w.read(phase, "i32" if "parity" in i.parts else "i64")
    name = "nvvm.mbarrier.try_wait" if i.parts[1] == "try_wait" else "nvvm.mbarrier.test.wait"
    w.assign(target, w.make(name, (_mbarrier(w, i, address), asked), "i1", _waits_in(i)))


def write_wait(w: FunctionWriter, i: Instruction) -> None:
    """A try_wait that is asked until it says yes."""
    asked, address, phase, *_ = i.operands
    ticks = w.constant(0x989680, "i32")
    w.op("nvvm.mbarrier.try_wait.parity", (_mbarrier(w, i, address), w.read(phase, "i32"), ticks))
    w.assign(asked, w.constant(1, "i1"))


# Products ---------------------------------------------------------------------------------------


# The register that holds a sum, or two halves.
_OF_SUMS = {"f32": "f32", "f16": "i32", "s32": "i32"}
_OF_FACTORS = ("f16", "bf16", "tf32", "e4m3", "e5m2", "s8", "u8")


def kind_of_sums(i: Instruction) -> str | None:
    """The type of the registers that a product of a warpgroup adds to, None for other instructions."""
    if i.parts[:2] != ("wgmma", "mma_async") or not isinstance(i.operands[0], Vector):
        return None
    return _OF_SUMS.get(_one_of(i, _OF_SUMS))


# What a register of mma.sync holds, by the type of its elements; 32 bits of others.
def _fragment(operand: Operand, kind: str) -> list[str]:
    """What the registers of mma.sync and wmma hold, by the type of their elements; 32 bits of others."""
    of = {"f16": "vector<2xf16>", "f32": "f32", "f64": "f64"}.get(kind, "i32")
    return [of] * len(elements_of(operand))


def _read_fragment(w: FunctionWriter, operand: Operand, kind: str) -> list[Value]:
    kinds = _fragment(operand, kind)
    return [w.read(one, of) for one, of in zip(elements_of(operand), kinds, strict=True)]


def _sizes(shape: str) -> list[int]:
    """m16n8k16"""
    found = re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape)
    if found is None:
        raise UnreadError
    return [int(size) for size in found.groups()]


@_row(VALUES, "mma.sync")
def _product_of_fragments(w: FunctionWriter, i: Instruction) -> None:
    """mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {d}, {a}, {b}, {c};"""
    of_result, *types = i.parts[-4:]
    if i.parts[4:-4] not in (("row", "col"), ("row", "col", "satfinite")):
        raise UnreadError
    m, n, k = _sizes(i.parts[3])
    target, *factors = i.operands
    given = [_read_fragment(w, *each) for each in zip(factors, types, strict=True)]
    bound = "satfinite" if "satfinite" in i.parts else "wrapped"
    overflow = f"intOverflowBehavior = #nvvm.mma_int_overflow<{bound}>, " * (of_result == "s32")
    made = _fragment(target, of_result)
    (product,) = w.op_of_groups(
        "nvvm.mma.sync",
        given,
        f"{overflow}layoutA = #nvvm.mma_layout<row>, layoutB = #nvvm.mma_layout<col>, "
        f"multiplicandAPtxType = #nvvm.mma_type<{types[0]}>, multiplicandBPtxType = #nvvm.mma_type<{types[1]}>, "
        f"shape = #nvvm.shape<m = {m}, n = {n}, k = {k}>",
        (struct_of(made),),
    )
    w.assign_all(elements_of(target), w.members(product, made))


# Elements of tiles for which NVVM has an op.
_OF_TILES = ("f16", "tf32", "f32", "s8", "u8", "s32")


def _tile(i: Instruction) -> tuple[str, str]:
    """The type of the elements, and the shape and layout, of wmma.load and wmma.store."""
    kind, (m, n, k) = i.parts[-1], _sizes(i.parts[6])
    if kind not in _OF_TILES:
        raise UnreadError
    given = f"eltype = #nvvm.mma_type<{kind}>, layout = #nvvm.mma_layout<{i.parts[5]}>"
    return kind, f"{given}, m = {m} : i32, n = {n} : i32, k = {k} : i32"


@_row(EFFECTS, "wmma.load")
def _load_tile(w: FunctionWriter, i: Instruction) -> None:
    """wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {r, …}, [address], stride;"""
    target, address, stride = i.operands
    kind, tile = _tile(i)
    operands = (w.pointer(address, _space(i)), w.read(stride, "i32"))
    properties = f"{tile}, frag = #nvvm.mma_frag<{i.parts[2]}>"
    loaded = w.parts("nvvm.wmma.load", operands, _fragment(target, kind), properties)
    w.assign_all(elements_of(target), loaded)


@_row(EFFECTS, "wmma.store")
def _store_tile(w: FunctionWriter, i: Instruction) -> None:
    """wmma.store.d.sync.aligned.row.m16n16k16.shared.f32 [address], {r, …}, stride;"""
    address, source, stride = i.operands
    kind, tile = _tile(i)
    values = _read_fragment(w, source, kind)
    w.op("nvvm.wmma.store", (w.pointer(address, _space(i)), *values, w.read(stride, "i32")), tile)


@_row(VALUES, "wmma.mma")
def _product_of_tiles(w: FunctionWriter, i: Instruction) -> None:
    """wmma.mma.sync.aligned.row.col.m16n16k16.f32.f32 {d}, {a}, {b}, {c}; of f16, whose type is not said"""
    m, n, k = _sizes(i.parts[6])
    types = [part for part in i.parts[7:] if part != "satfinite"]
    if not {*types} <= {*_OF_TILES}:
        raise UnreadError
    of_result, *factors, of_sums = types
    of_a, of_b = factors or ("f16", "f16")
    target, *rest = i.operands
    kinds = zip(rest, (of_a, of_b, of_sums), strict=True)
    given = [value for each in kinds for value in _read_fragment(w, *each)]
    product = w.parts(
        "nvvm.wmma.mma",
        given,
        _fragment(target, of_result),
        f"layoutA = #nvvm.mma_layout<{i.parts[4]}>, layoutB = #nvvm.mma_layout<{i.parts[5]}>, "
        f"eltypeA = #nvvm.mma_type<{of_a}>, eltypeB = #nvvm.mma_type<{of_result}>, "
        f"m = {m} : i32, n = {n} : i32, k = {k} : i32",
    )
    w.assign_all(elements_of(target), product)


@_row(EFFECTS, "wgmma.mma_async")
def _product_of_matrices(w: FunctionWriter, i: Instruction) -> None:
    """wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {sums}, a, b, p, 1, 1, 0, 0;"""
    sums, a, b, scale_d, *scales = i.operands
    shape = next(part for part in i.parts if part.startswith("m64n"))
    of_sums, of_a, of_b = i.parts[i.parts.index(shape) + 1 :][:3]
    if of_a not in _OF_FACTORS:
        raise UnreadError
    m, n, k = _sizes(shape)
    bank = w.bank_of((sums,))
    # Products of integers have no signs.
    signs = [w.integer(one) for one in scales] or [1, 1]
    # Types of other than 16 bits say nothing: both operands go on along k, which is row by row for the left one. So do
    # registers.
    held = w.bank_of((a,)) if isinstance(a, Vector) else None
    left, right = (0, *signs[2:], 0)[:2] if held else signs[2:4] or (0, 0)
    factors = w.members(w.sums(held), held.kinds) if held else [w.read(a, "i64")]
    factors.append(w.read(b, "i64"))

    def add(kept: bool) -> None:
        form = ProductForm(
            m,
            n,
            k,
            (of_a, of_b),
            of_sums,
            kept,
            negated=(signs[0] < 0, signs[1] < 0),
            by_k=(not left, not right),
            saturates=False,
        )
        write = _assembled_product if held else _described_product
        w.keep_sums(bank, write(w, bank, form, factors))

    if not isinstance(scale_d, Register):
        add(bool(w.integer(scale_d)))
    elif scale_d.name in w.decided:
        add(w.decided[scale_d.name])
    else:
        adds, begins, after = (w.fresh_block() for _ in range(3))
        w.branch_if(w.read(scale_d, "i1"), adds, begins)
        for kept, block in ((True, adds), (False, begins)):
            w.begin_block(block)
            add(kept)
            w.branch(after)
        w.begin_block(after)


def _described_product(
    w: FunctionWriter, bank: Bank, form: ProductForm, factors: list[Value]
) -> Value:
    """Both factors stand in memory."""
    signs = ["neg" if negated else "one" for negated in form.negated]
    properties = (
        f"layoutA = #nvvm.mma_layout<{'row' if form.by_k[0] else 'col'}>, "
        f"layoutB = #nvvm.mma_layout<{'col' if form.by_k[1] else 'row'}>, "
        f"scaleA = #nvvm.wgmma_scale_in<{signs[0]}>, scaleB = #nvvm.wgmma_scale_in<{signs[1]}>, "
        f"scaleD = #nvvm.wgmma_scale_out<{'one' if form.adds else 'zero'}>, "
        f"shape = #nvvm.shape<m = {form.m}, n = {form.n}, k = {form.k}>, "
        f"typeA = #nvvm.wgmma_type<{form.types[0]}>, typeB = #nvvm.wgmma_type<{form.types[1]}>, "
        f"typeD = #nvvm.wgmma_type<{form.sums}>"
    )
    given = w.sums(bank) if form.adds else w.make("llvm.mlir.poison", (), bank.type)
    return w.make("nvvm.wgmma.mma_async", (given, *factors), bank.type, properties)


def _assembled_product(
    w: FunctionWriter, bank: Bank, form: ProductForm, factors: list[Value]
) -> Value:
    """The left one stands in registers."""
    text, constraints = assembled(form, len(bank.names), bank.kind)
    sums = w.members(w.sums(bank), bank.kinds)
    properties = f'asm_string = "{text}", constraints = "{constraints}", has_side_effects'
    return w.make(INLINE_ASSEMBLY, (*sums, *factors), bank.type, properties)


# Tensor memory ------------------------------------------------------------------------------------


def _tensor_modifiers(i: Instruction, *allowed: str) -> None:
    """Refuse modifiers that a row does not read; `allowed` are beginnings."""
    if any(not part.startswith((*_OF_TENSORS, *allowed)) for part in i.parts[2:]):
        raise UnreadError


_OF_SHAPES = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}


def _tensor_shape(i: Instruction, registers: int) -> str:
    """The shape of a load or store, whose registers must be as many as it says."""
    shape = next(part for part in i.parts if part in _OF_SHAPES)
    if f"x{registers // _OF_SHAPES[shape]}" not in i.parts:
        raise UnreadError
    return f"shape = #nvvm.tcgen05_ldst_shape<shape_{shape}>"


@_row(EFFECTS, "tcgen05.ld")
def _load_tensor(w: FunctionWriter, i: Instruction) -> None:
    """tcgen05.ld.sync.aligned.32x32b.x2.b32 {a, b}, [address]; its registers are there after the wait."""
    _tensor_modifiers(i, *_OF_SHAPES, "x", "pack::16b")
    target, address, *offset = i.operands
    registers = elements_of(target)
    properties = _tensor_shape(i, len(registers)) + ", pack" * ("pack::16b" in i.parts)
    waited = w.hands_out or w.comes_in_block(i, "tcgen05.wait::ld")
    if i.guard is not None or not waited:
        raise UnreadError
    operands = [w.pointer(address, "tensor"), *(w.read(one, "i64") for one in offset)]
    kind = vector_type("i32", len(registers))
    loaded = w.make("nvvm.tcgen05.ld", operands, kind, properties)
    w.loading.update((one.name, (loaded, at)) for at, one in enumerate(registers_of(registers)))


@_row(EFFECTS, "tcgen05.st")
def _store_tensor(w: FunctionWriter, i: Instruction) -> None:
    _tensor_modifiers(i, *_OF_SHAPES, "x", "unpack::16b")
    address, *offset, source = i.operands
    registers = elements_of(source)
    properties = _tensor_shape(i, len(registers)) + ", unpack" * ("unpack::16b" in i.parts)
    values = w.vector([w.read(one, "i32") for one in registers])
    operands = (w.pointer(address, "tensor"), values, *(w.read(one, "i64") for one in offset))
    w.op("nvvm.tcgen05.st", operands, properties)


@_row(EFFECTS, "tcgen05.wait::ld tcgen05.wait::st")
def _wait_for_tensor(w: FunctionWriter, i: Instruction) -> None:
    loads = i.parts[1] == "wait::ld"
    kind = "load" if loads else "store"
    w.op("nvvm.tcgen05.wait", (), f"kind = #nvvm.tcgen05_wait<{kind}>")
    if loads:
        w.land()


_SCALED = {"scale_vec::2X": "block32", "scale_vec::4X": "block16",
           "block16": "block16", "block32": "block32"}  # fmt: skip


@_row(EFFECTS, "tcgen05.mma")
def _tensor_product(w: FunctionWriter, i: Instruction) -> None:
    """tcgen05.mma.cta_group::1.kind::f16 [d], a, b, instruction, {lanes left out}, adds;
    tcgen05.mma.sp.… [d], a, b, [metadata], instruction, …; tcgen05.mma.….block_scale… instruction, [of a], [of b], adds;
    tcgen05.mma.ws.… adds, columns of zeros;"""
    known = ("kind::", "collector::", "ashift", "sp", "ws", "block_scale", *_SCALED, "scale_vec::1X")  # fmt: skip
    _tensor_modifiers(i, *known)
    target, a, b, *rest = i.operands
    kind = next(part[6:] for part in i.parts if part.startswith("kind::"))
    sparse, by_warp, scaled = (part in i.parts for part in ("sp", "ws", "block_scale"))
    metadata = [w.pointer(rest.pop(0), "tensor")] if sparse else []
    instruction = w.read(rest.pop(0), "i32")
    scales = [w.pointer(rest.pop(0), "tensor") for _ in range(2 * scaled)]
    left_out = []
    if isinstance(rest[0], Vector):
        left_out.append(w.vector([w.read(one, "i32") for one in elements_of(rest.pop(0))]))
    adds, *more = rest
    last = [w.read(one, "i64") for one in more]
    collector = next((part.split("::")[1:] for part in i.parts if part.startswith("coll")), [])
    buffer, use = (*collector, "discard")[:2] if collector else ("b0", "discard")
    operands = [
        w.pointer(target, "tensor"),
        w.pointer(a, "tensor") if isinstance(a, Address) else w.read(a, "i64"),
        *(w.read(b, "i64"), instruction, w.read(adds, "i1"), *metadata, *scales, *last, *left_out),
    ]
    properties = [
        f"collectorOp = #nvvm.tcgen05_mma_collectorop<{use}>",
        f"kind = #nvvm.tcgen05_mma_kind<{kind}>",
    ]
    filled = f"collectorBBuffer = #nvvm.tcgen05_mma_collectorb<{buffer}>"
    properties.append(filled if by_warp else _group(i, "ctaGroup"))
    if scaled:
        # Of each kind one is the only one, or that which is meant without a word (PTX ISA, tcgen05.mma: .scale_vec).
        given = _SCALED.get(_one_of(i, _SCALED), "default")
        properties.append(f"blockScale = #nvvm.tcgen05_mma_block_scale<{given}>")
    elif not by_warp:
        sizes = [1] * (5 + sparse) + [len(last), len(left_out)]
        properties.append(f"operandSegmentSizes = array<i32: {', '.join(map(str, sizes))}>")
    properties += ["aShift"] * ("ashift" in i.parts)
    form = ".ws" * by_warp + ".sp" * sparse + ".block_scale" * scaled
    w.op(f"nvvm.tcgen05.mma{form}", operands, ", ".join(properties))


@_row(EFFECTS, "tcgen05.commit")
def _commit_products(w: FunctionWriter, i: Instruction) -> None:
    """tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [barrier], blocks;"""
    address, *blocks = i.operands
    operands = [w.pointer(address, "shared"), *(w.read(one, "i16") for one in blocks)]
    if bool(blocks) != ("multicast::cluster" in i.parts):
        raise UnreadError
    w.op("nvvm.tcgen05.commit", operands, _group(i))


@_row(EFFECTS, "tcgen05.cp")
def _copy_to_tensor(w: FunctionWriter, i: Instruction) -> None:
    """tcgen05.cp.cta_group::1.64x128b.warpx2::02_13 [address], source;"""
    address, source = i.operands
    properties = [_group(i), f"shape = #nvvm.tcgen05_cp_shape<shape_{i.parts[3]}>"]
    for part in i.parts[4:]:
        if part.startswith("warpx"):
            name = part.replace("::", "_")
            properties.append(f"multicast = #nvvm.tcgen05_cp_multicast<{name}>")
        elif part != "b8x16":
            properties.append(f"srcFormat = #nvvm.tcgen05_cp_src_fmt<{part}>")
    operands = (w.pointer(address, "tensor"), w.read(source, "i64"))
    w.op("nvvm.tcgen05.cp", operands, ", ".join(properties))


# Others -----------------------------------------------------------------------------------------


@_row(EFFECTS, "call")
def _call(w: FunctionWriter, i: Instruction) -> None:
    """A call of what has no body here, or calls itself: it may do anything, and gives any result. Of what it prints
    nobody reads anything."""
    results = i.operands[0].elements if isinstance(i.operands[0], Vector) else ()
    prints = any(isinstance(one, Symbol) and one.name == "vprintf" for one in i.operands)
    kept = [one for one in results if isinstance(one, Register | Symbol)]
    kinds = [_kind_of_result(w, one) for one in kept]
    values = write_assembled(w, _text(i), kinds, [], effects=not prints)
    for one, value in zip(kept, values, strict=True):
        if isinstance(one, Register):
            w.assign(one, value)
        else:
            w.op("llvm.store", (value, w.storage[one.name]))


def _kind_of_result(w: FunctionWriter, operand: Register | Symbol) -> str:
    if isinstance(operand, Register):
        return w.kind_of(operand.name)
    size = next(one.size for one in w.kernel.variables if one.name == operand.name)
    if size not in (2, 4, 8):
        raise UnreadError
    return f"i{8 * size}"


@_row(EFFECTS, "prefetch prefetchu applypriority nanosleep pmevent cp.async.bulk.prefetch")
def _advice(w: FunctionWriter, i: Instruction) -> None:
    """Advice to caches and to the scheduler: no memory changes, nobody waits."""


@_row(EFFECTS, "discard")
def _discard(w: FunctionWriter, i: Instruction) -> None:
    """discard.global.L2 [address], 128; a write of what is not known (PTX ISA, discard)."""
    address, size = i.operands
    kind = vector_type("i32", w.integer(size) // 4)
    order = f"alignment = {w.integer(size)} : i64, ordering = 0 : i64"
    unknown = w.make("llvm.mlir.poison", (), kind)
    w.op("llvm.store", (unknown, w.pointer(address, _space(i))), order)


# What has no row ----------------------------------------------------------------------------------

_CONSTRAINTS = {"i1": "b", "i8": "h", "i16": "h", "f16": "h", "bf16": "h", "i32": "r", "i64": "l",
                "i128": "q", "f32": "f", "f64": "d"}  # fmt: skip


def write_assembly(w: FunctionWriter, i: Instruction, effects: bool) -> None:
    """Keep an instruction as inline assembly: registers that come first are its results."""

    def declared(operands: Iterable[Operand]) -> list[Register]:
        return [one for one in registers_of(operands) if one.name in w.kernel.registers]

    first = i.operands[:1]
    results = [] if first and isinstance(first[0], Address) else declared(first)
    given = declared(i.operands[bool(results) :])
    values = [w.read(Register(one.name), w.kind_of(one.name)) for one in given]
    text = _text(i)
    if i.guard is not None and not effects:
        text = text[text.index(i.opcode) :]
    kinds = [w.kind_of(one.name) for one in results]
    w.assign_all(results, write_assembled(w, text, kinds, values, effects))


def _text(i: Instruction) -> str:
    return i.text.replace('"', "'").replace("$", "$$") + ";"


def write_assembled(
    w: FunctionWriter, text: str, kinds: list[str], values: list[Value], effects: bool = True
) -> list[Value]:
    """Write inline assembly, whose results are of these kinds."""
    given = ["l" if one.type.startswith("!llvm.ptr") else _CONSTRAINTS[one.type] for one in values]
    constraints = ",".join([*(f"={_CONSTRAINTS[kind]}" for kind in kinds), *given])
    properties = f'asm_string = "{text}", constraints = "{constraints}"'
    properties += ", has_side_effects" * effects
    if kinds:
        return w.parts(INLINE_ASSEMBLY, values, kinds, properties)
    w.op(INLINE_ASSEMBLY, values, properties)
    return []
