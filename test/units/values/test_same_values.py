"""Values that are others by another name: what all lanes have, and addresses taken back for pointers.

Covers: facts/values/same_values.py, checker/as_read.py
"""

from __future__ import annotations

import pytest

from helpers.check_harness import check_module
from helpers.machine_programs import parse
from mlir_async_pipe.bindings import ir
from mlir_async_pipe.bindings.raw_ops import defining_op, walk
from mlir_async_pipe.checker.as_read import as_read
from mlir_async_pipe.facts.values import same_values


def kernel(*lines: str, space: int = 3) -> str:
    body = "\n  ".join(lines)
    return f"""
llvm.mlir.global external @base() {{addr_space = 3 : i32, alignment = 16 : i64}} : !llvm.array<64 x f32>
llvm.func @f(%n: i32, %given: !llvm.ptr<1>) attributes {{nvvm.kernel, nvvm.reqntid = array<i32: 64>}} {{
  %c0 = llvm.mlir.constant(0 : i32) : i32
  %all = llvm.mlir.constant(-1 : i32) : i32
  %top = llvm.mlir.constant(31 : i32) : i32
  %x = llvm.mlir.constant(1.0 : f32) : f32
  %tid = nvvm.read.ptx.sreg.tid.x range <i32, 0, 64> : i32
  %base = llvm.mlir.addressof @base : !llvm.ptr<3>
  {body}
  llvm.store %x, %to : f32, !llvm.ptr<{space}>
  llvm.return
}}"""


def stored_to(text: str) -> str:
    """The op that makes the address of the store."""
    root = parse(text).operation
    same_values.replace(root)
    (store,) = [op for op in walk(root) if op.name == "llvm.store"]
    made = defining_op(store.operands[1])
    return "argument" if made is None else str(made.name)


SHUFFLED = (
    "%number = llvm.ptrtoint %base : !llvm.ptr<3> to i32",
    "%same = nvvm.shfl.sync idx %all, %number, %c0, %top : i32 -> i32",
    "%wide = llvm.zext %same : i32 to i64",
    "%to = llvm.inttoptr %wide : i64 to !llvm.ptr<3>",
)


def test_the_base_that_lanes_hand_around_is_the_base() -> None:
    assert stored_to(kernel(*SHUFFLED)) == "llvm.mlir.addressof"


def test_a_module_with_nothing_of_that_is_not_copied() -> None:
    module = parse("llvm.func @f() { llvm.return }")
    assert as_read(module.operation) == module.operation


@pytest.mark.parametrize(
    "lines, space",
    [
        # Other lanes have other numbers.
        (
            (
                "%number = llvm.ptrtoint %base : !llvm.ptr<3> to i32",
                "%own = llvm.add %number, %tid : i32",
                "%same = nvvm.shfl.sync idx %all, %own, %c0, %top : i32 -> i32",
                "%to = llvm.inttoptr %same : i32 to !llvm.ptr<3>",
            ),
            3,
        ),
        # 16 bits are not all of an address.
        (
            (
                "%number = llvm.ptrtoint %base : !llvm.ptr<3> to i16",
                "%wide = llvm.zext %number : i16 to i32",
                "%to = llvm.inttoptr %wide : i32 to !llvm.ptr<3>",
            ),
            3,
        ),
        # Nor are 32 of a pointer to global memory.
        (
            (
                "%number = llvm.ptrtoint %given : !llvm.ptr<1> to i32",
                "%to = llvm.inttoptr %number : i32 to !llvm.ptr<1>",
            ),
            1,
        ),
        # Another kind of pointer.
        (
            (
                "%number = llvm.ptrtoint %given : !llvm.ptr<1> to i64",
                "%to = llvm.inttoptr %number : i64 to !llvm.ptr<3>",
            ),
            3,
        ),
    ],
)
def test_what_is_not_the_same_stays(lines: tuple[str, ...], space: int) -> None:
    assert stored_to(kernel(*lines, space=space)) == "llvm.inttoptr"


@pytest.mark.parametrize("condition", ["%c0", "%tid"])
def test_threads_that_a_shuffle_chooses_need_not_be_two(condition: str) -> None:
    """The lanes of one warp hand around the number of their warp: one thread may be meant, or many."""
    text = kernel(
        f"%given_on = nvvm.shfl.sync idx %all, {condition}, %c0, %top : i32 -> i32",
        '%chosen = llvm.icmp "eq" %given_on, %n : i32',
        "llvm.cond_br %chosen, ^do, ^end",
        "^do:",
        "llvm.store %x, %base : f32, !llvm.ptr<3>",
        "llvm.br ^end",
        "^end:",
        "%to = llvm.getelementptr %base[%tid] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32",
        "nvvm.barrier",
    )
    found = check_module(parse(text))
    if condition == "%c0":
        assert {code for code, _ in found.unsafe} == {"missing-barrier"}
    else:
        assert not found.unsafe and found.unknown


PAIR = "!llvm.struct<(f32, i64)>"


def returned(*lines: str) -> str:
    """What makes the value that a function returns, after the rewrite."""
    body = "\n  ".join(lines)
    root = parse(
        f"""
llvm.func @f(%s: {PAIR}, %t: {PAIR}, %low: i32, %high: i32) -> i64 {{
  %c0 = llvm.mlir.constant(0 : i32) : i32
  %c1 = llvm.mlir.constant(1 : i32) : i32
  %none = llvm.mlir.poison : {PAIR}
  %two = llvm.mlir.poison : vector<2xi32>
  {body}
  llvm.return %r : i64
}}"""
    ).operation
    same_values.replace(root)
    (end,) = [op for op in walk(root) if op.name == "llvm.return"]
    made = defining_op(end.operands[0])
    names = [] if made is None else [str(made.name)]
    while made is not None and made.operands:
        made = defining_op(made.operands[0])
        names += [] if made is None else [str(made.name)]
    return " ".join(names)


def test_a_member_that_was_put_is_that_value() -> None:
    assert (
        returned(
            "%wide = llvm.zext %low : i32 to i64",
            f"%p = llvm.insertvalue %wide, %s[1] : {PAIR}",
            f"%r = llvm.extractvalue %p[1] : {PAIR}",
        )
        == "llvm.zext"
    )


REPACKED = (
    f"%a = llvm.extractvalue %s[0] : {PAIR}",
    f"%b = llvm.extractvalue %s[1] : {PAIR}",
    f"%p = llvm.insertvalue %a, %none[0] : {PAIR}",
    f"%q = llvm.insertvalue %b, %p[1] : {PAIR}",
    f"%h = llvm.freeze %q : {PAIR}",
    f"%r = llvm.extractvalue %h[1] : {PAIR}",
)


def test_a_struct_of_all_fields_of_another_is_that_one() -> None:
    assert returned(*REPACKED) == "llvm.extractvalue llvm.freeze"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("%b = llvm.extractvalue %s[1]", "%b = llvm.extractvalue %t[1]"),
        ("%q = llvm.insertvalue %b, %p[1]", "%q = llvm.insertvalue %b, %none[1]"),
    ],
)
def test_a_struct_of_fields_of_two_stays(old: str, new: str) -> None:
    changed = [line.replace(old, new) for line in REPACKED]
    assert changed != list(REPACKED) and "insertvalue" in returned(*changed)


NUMBER = (
    "%v = llvm.insertelement %low, %two[%c0 : i32] : vector<2xi32>",
    "%w = llvm.insertelement %high, %v[%c1 : i32] : vector<2xi32>",
    "%r = llvm.bitcast %w : vector<2xi32> to i64",
)


def test_two_halves_of_a_number_are_that_number() -> None:
    assert returned(*NUMBER) == "llvm.or llvm.zext"


def test_a_vector_with_one_half_stays() -> None:
    assert "llvm.bitcast" in returned(NUMBER[0], NUMBER[2].replace("%w", "%v"))


WARP = "%five = llvm.mlir.constant(5 : i32) : i32\n  %number = llvm.lshr %tid, %five : i32"
WAVE = "%six = llvm.mlir.constant(6 : i32) : i32\n  %number = llvm.lshr %tid, %six : i32"
SHUFFLE = "%same = nvvm.shfl.sync idx %all, %number, %c0, %top : i32 -> i32"
ANY_LANE = "%width = llvm.mlir.constant(64 : i32) : i32\n  %same, %valid = gpu.shuffle idx %number, %c0, %width : i32"
FIRST_LANE = "%same = rocdl.readfirstlane %number : i32"


@pytest.mark.parametrize(
    ("number", "handed", "left"),
    [
        (WARP, SHUFFLE, "llvm.lshr"),
        (WAVE, FIRST_LANE, "llvm.lshr"),
        # Half of a wave of 64 has another number.
        (WARP, FIRST_LANE, "rocdl.readfirstlane"),
        (WARP, ANY_LANE, "gpu.shuffle"),
        (WAVE, ANY_LANE, "llvm.lshr"),
        ("%number = llvm.add %tid, %c0 : i32", SHUFFLE, "nvvm.shfl.sync"),
        ("%number = llvm.add %n, %c0 : i32", FIRST_LANE, "llvm.add"),
    ],
)
def test_the_number_of_a_warp_is_that_of_its_lanes(number: str, handed: str, left: str) -> None:
    at = "%to = llvm.getelementptr %base[%same] : (!llvm.ptr<3>, i32) -> !llvm.ptr<3>, f32"
    root = parse(kernel(number, handed, at)).operation
    same_values.replace(root)
    (address,) = [op for op in walk(root) if op.name == "llvm.getelementptr"]
    made = defining_op(address.operands[1])
    assert made is not None and made.name == left


NESTED = "!llvm.struct<(i32, struct<(ptr<3>, i32)>)>"
INNER = "!llvm.struct<(ptr<3>, i32)>"


@pytest.mark.parametrize(
    ("lines", "made"),
    [
        # Put into the inner struct, which is taken as a whole.
        (
            (
                f"%s = llvm.insertvalue %base, %none[1, 0] : {NESTED}",
                f"%t = llvm.insertvalue %c0, %s[1, 1] : {NESTED}",
                f"%u = llvm.extractvalue %t[1] : {NESTED}",
                f"%to = llvm.extractvalue %u[0] : {INNER}",
            ),
            "llvm.mlir.addressof",
        ),
        # The inner struct is put, its member is taken.
        (
            (
                f"%s = llvm.mlir.undef : {INNER}",
                f"%t = llvm.insertvalue %base, %s[0] : {INNER}",
                f"%u = llvm.insertvalue %t, %none[1] : {NESTED}",
                f"%to = llvm.extractvalue %u[1, 0] : {NESTED}",
            ),
            "llvm.mlir.addressof",
        ),
        # The inner struct is put anew over the member.
        (
            (
                f"%s = llvm.mlir.undef : {INNER}",
                f"%t = llvm.insertvalue %base, %none[1, 0] : {NESTED}",
                f"%u = llvm.insertvalue %s, %t[1] : {NESTED}",
                f"%to = llvm.extractvalue %u[1, 0] : {NESTED}",
            ),
            "llvm.extractvalue",
        ),
    ],
)
def test_members_of_structs_in_structs_are_found(lines: tuple[str, ...], made: str) -> None:
    assert stored_to(kernel(f"%none = llvm.mlir.undef : {NESTED}", *lines)) == made


DESCRIPTOR = (
    "%whole = llvm.ptrtoint %base : !llvm.ptr<3> to i64",
    "%layout = llvm.mlir.constant(4611686293305294848 : i64) : i64",
    "%all_of_it = llvm.or %whole, %layout : i64",
    "%half = llvm.mlir.constant(32 : i64) : i64",
)
HALVES = (
    "%low = llvm.trunc %all_of_it : i64 to i32",
    "%upper = llvm.lshr %all_of_it, %half : i64",
    "%high = llvm.trunc %upper : i64 to i32",
    "%more = llvm.add %low, %n : i32",
    "%low_ = llvm.zext %more : i32 to i64",
    "%high_ = llvm.zext %high : i32 to i64",
    "%moved = llvm.shl %high_, %half : i64",
    "%number = llvm.or %low_, %moved : i64",
)
VECTORS = (
    "%v = llvm.bitcast %all_of_it : i64 to vector<2xi32>",
    "%low = vector.extract %v[0] : i32 from vector<2xi32>",
    "%more = llvm.add %low, %n : i32",
    "%w = vector.insert %more, %v [0] : i32 into vector<2xi32>",
    "%number = llvm.bitcast %w : vector<2xi32> to i64",
)


def made_of_number(*lines: str) -> str:
    """The op that makes the number, as it is read."""
    text = kernel(*DESCRIPTOR, *lines, "%to = llvm.inttoptr %number : i64 to !llvm.ptr<3>")
    root = parse(text).operation
    same_values.replace(root)
    (taken,) = [op for op in walk(root) if op.name == "llvm.inttoptr"]
    made = defining_op(taken.operands[0])
    assert made is not None
    return str(made.name)


@pytest.mark.parametrize("lines", [HALVES, VECTORS], ids=["halves", "vectors"])
def test_a_number_with_more_in_its_lower_half_is_that_number_and_more(
    lines: tuple[str, ...],
) -> None:
    assert made_of_number(*lines) == "llvm.add"


@pytest.mark.parametrize(
    "change",
    [
        (HALVES, "lshr %all_of_it, %half", "lshr %all_of_it, %layout"),
        (HALVES, "shl %high_, %half", "shl %high_, %layout"),
        (VECTORS, "%more, %v [0]", "%more, %v [1]"),
    ],
    ids=["other bits", "to elsewhere", "the upper half"],
)
def test_another_half_is_not_taken_for_it(change: tuple[tuple[str, ...], str, str]) -> None:
    lines, before, after = change
    changed = [line.replace(before, after) for line in lines]
    assert changed != list(lines)
    assert made_of_number(*changed) in ("llvm.or", "llvm.bitcast")


def taken(*lines: str) -> str:
    """What the op called `end` is given after the rewrite: %x, %y, %v, %m, or the name of what makes it."""
    body = "\n  ".join(lines)
    root = parse(
        f"""
func.func @f(%x: f32, %y: f32, %v: vector<2xf32>, %m: memref<8x4xf32>, %z: i32) {{
  %c0 = llvm.mlir.constant(0 : i32) : i32
  %c1 = llvm.mlir.constant(1 : i32) : i32
  %none = llvm.mlir.poison : vector<2xi32>
  {body}
  "end"(%r) : ({"memref<8x4xf32>" if "%m" in body else "f32"}) -> ()
  return
}}"""
    ).operation
    same_values.replace(root)
    (end,) = [op for op in walk(root) if op.name == "end"]
    made = defining_op(end.operands[0])
    return "xyvmz"[ir.BlockArgument(end.operands[0]).arg_number] if made is None else str(made.name)


ONE_OF_TWO = (
    "%a = llvm.bitcast %x : f32 to i32",
    "%b = llvm.bitcast %y : f32 to i32",
    "%p = llvm.insertelement %a, %none[%c0 : i32] : vector<2xi32>",
    "%q = llvm.insertelement %b, %p[%c1 : i32] : vector<2xi32>",
    "%f = vector.bitcast %q : vector<2xi32> to vector<2xf32>",
)
SHUFFLED_ONES = (
    "%a = llvm.bitcast %x : f32 to vector<1xf32>",
    "%b = llvm.bitcast %y : f32 to vector<1xf32>",
    "%f = vector.shuffle %a, %b [1, 0] : vector<1xf32>, vector<1xf32>",
)


@pytest.mark.parametrize(
    ("lines", "what"),
    [
        ((*ONE_OF_TWO, "%r = vector.extract %f[0] : f32 from vector<2xf32>"), "x"),
        ((*ONE_OF_TWO, "%r = vector.extract %f[1] : f32 from vector<2xf32>"), "y"),
        ((*SHUFFLED_ONES, "%r = vector.extract %f[0] : f32 from vector<2xf32>"), "y"),
        (
            (
                *SHUFFLED_ONES,
                "%s = vector.extract_strided_slice %f {offsets = [1], sizes = [1], strides = [1]} : vector<2xf32> to vector<1xf32>",
                "%r = llvm.bitcast %s : vector<1xf32> to f32",
            ),
            "x",
        ),
        # Which element is not known; one of a vector that is given; one beside that which was put.
        ((*ONE_OF_TWO, "%r = llvm.extractelement %f[%z : i32] : vector<2xf32>"), "llvm.extractelement"),
        (("%r = vector.extract %v[0] : f32 from vector<2xf32>",), "vector.extract"),
        (
            (
                "%f = llvm.insertelement %x, %v[%z : i32] : vector<2xf32>",
                "%r = vector.extract %f[0] : f32 from vector<2xf32>",
            ),
            "vector.extract",
        ),
        # Half of an element is no element.
        (
            (
                "%h = vector.bitcast %v : vector<2xf32> to vector<4xf16>",
                "%s = vector.extract_strided_slice %h {offsets = [0], sizes = [2], strides = [1]} : vector<4xf16> to vector<2xf16>",
                "%r = llvm.bitcast %s : vector<2xf16> to f32",
            ),
            "llvm.bitcast",
        ),
        (
            (
                "%a = builtin.unrealized_conversion_cast %m : memref<8x4xf32> to memref<32xf32>",
                "%b = builtin.unrealized_conversion_cast %a : memref<32xf32> to memref<2x16xf32>",
                "%c = builtin.unrealized_conversion_cast %b : memref<2x16xf32> to memref<32xf32>",
                "%r = builtin.unrealized_conversion_cast %c : memref<32xf32> to memref<8x4xf32>",
            ),
            "m",
        ),
        # Back to the other of two values.
        (
            (
                "%a = builtin.unrealized_conversion_cast %x, %y : f32, f32 to vector<2xf32>",
                "%b:2 = builtin.unrealized_conversion_cast %a : vector<2xf32> to f32, f32",
                "%r = arith.negf %b#1 : f32",
            ),
            "arith.negf",
        ),
        (
            (
                "%a:2 = builtin.unrealized_conversion_cast %v : vector<2xf32> to f32, f32",
                "%b = builtin.unrealized_conversion_cast %a#1, %a#0 : f32, f32 to vector<2xf32>",
                "%r = vector.extract %b[0] : f32 from vector<2xf32>",
            ),
            "vector.extract",
        ),
    ],
)  # fmt: skip
def test_elements_and_casts_that_lead_back(lines: tuple[str, ...], what: str) -> None:
    assert taken(*lines) == what
