"""Values as terms: a run on data gives terms that are, on any numbers, what a run on these numbers gives.

Covers: machine/terms.py, machine/term_table.py
"""

import numpy as np
import pytest

from helpers.machine_programs import context, parse
from helpers.term_values import value_of
from mlir_async_pipe import machine
from mlir_async_pipe.machine import term_table
from mlir_async_pipe.machine.launch import RunOptions
from mlir_async_pipe.machine.memory import SMALLEST_BYTES, Memory
from mlir_async_pipe.machine.run_kernel import decoded, run_in
from mlir_async_pipe.machine.term_table import TermTable
from mlir_async_pipe.machine.terms import Terms, identities, inputs, memory_cells
from mlir_async_pipe.session.diagnostics import MachineError

F32, I32, I8, I1 = "memref<8xf32>", "memref<8xi32>", "memref<8xi8>", "memref<8xi1>"
LOAD = "%c1 = arith.constant 1 : index\n%c2 = arith.constant 2 : index\n"


def symbolic(text, types, arrays, **options):
    """Results of a run on data, and on numbers."""
    table = TermTable()
    given = [inputs(table, f"arg{n}", array.shape, array.dtype) for n, array in enumerate(arrays)]
    memory = Memory(memory_cells(table, SMALLEST_BYTES, 0xFF))
    module = parse(text)
    return table, run_in(memory, decoded(module, None, RunOptions(**options)), given)


def agrees(body, *types, seed=0, **options):
    """The law of this file, for one function body over arguments %a, %b, … and scalars of C1, C2."""
    names = "abcd"
    signature = ", ".join(f"%{names[n]}: {kind}" for n, kind in enumerate(types))
    text = f"func.func @f({signature}) {{\n{LOAD}{body}\nreturn\n}}"
    random = np.random.default_rng(seed)
    arrays = [drawn(random, kind) for kind in types]
    table, run = symbolic(text, types, arrays, **options)
    wanted = machine.run(parse(text), None, arrays, **options)
    values = {f"arg{n}": array for n, array in enumerate(arrays)}
    for number, (got, expected) in enumerate(zip(run.arrays, wanted.arrays, strict=True)):
        found = value_of(got, values, context())
        assert found.tobytes() == expected.tobytes(), number
    return table, run


def drawn(random, kind):
    *sizes, element = kind.removeprefix("memref<").removesuffix(">").split("x")
    shape = tuple(map(int, sizes))
    dtype = {
        "f32": np.float32, "f16": np.float16, "f64": np.float64, "bf16": np.uint16,
        "f8E4M3FN": np.uint8, "i8": np.int8, "i1": np.uint8, "i16": np.int16,
    }.get(element, np.int32)  # fmt: skip
    if np.dtype(dtype).kind == "f":
        return random.integers(-4, 5, shape).astype(dtype)
    if element == "bf16":
        values = random.integers(-4, 5, shape).astype(np.float32)
        return (values.view(np.uint32) >> 16).astype(np.uint16)
    return random.integers(0, 2 if element == "i1" else 100, shape).astype(dtype)


BINARY = {
    "addf": "f32", "mulf": "f16", "subf": "f64", "divf": "f32", "maximumf": "f32", "minnumf": "f16",
    "addi": "i32", "muli": "i8", "subi": "i16", "xori": "i32", "divsi": "i32", "remui": "i8",
    "shli": "i32", "shrui": "i32", "maxsi": "i32", "minui": "i8", "ceildivsi": "i32",
}  # fmt: skip


@pytest.mark.parametrize("op, kind", BINARY.items())
def test_of_two_elements(op, kind):
    memory = f"memref<8x{kind}>"
    body = f"""%x = memref.load %a[%c1] : {memory}
%y = memref.load %a[%c2] : {memory}
%z = arith.{op} %x, %y : {kind}
memref.store %z, %b[%c1] : {memory}"""
    table, run = agrees(body, memory, memory)
    assert isinstance(run.arrays[1], Terms) or run.arrays[1].dtype.itemsize == 1
    assert not table.is_constant(run.arrays[1].terms().inner).any()


UNARY = {
    "math.exp %x : f32": ("f32", "f32"),
    "math.rsqrt %x : f32": ("f32", "f32"),
    "math.ctpop %x : i32": ("i32", "i32"),
    "math.erf %x : f32": ("f32", "f32"),
    "arith.negf %x : f16": ("f16", "f16"),
    "arith.truncf %x : f32 to bf16": ("f32", "bf16"),
    "arith.extf %x : bf16 to f32": ("bf16", "f32"),
    "arith.addf %x, %x : bf16": ("bf16", "bf16"),
    "arith.truncf %x : f32 to f8E4M3FN": ("f32", "f8E4M3FN"),
    "arith.extf %x : f8E4M3FN to f32": ("f8E4M3FN", "f32"),
    "arith.extsi %x : i8 to i32": ("i8", "i32"),
    "arith.extui %x : i8 to i32": ("i8", "i32"),
    "arith.extui %x : i1 to i32": ("i1", "i32"),
    "arith.trunci %x : i32 to i8": ("i32", "i8"),
    "arith.sitofp %x : i32 to f32": ("i32", "f32"),
    "arith.uitofp %x : i8 to f32": ("i8", "f32"),
    "arith.fptosi %x : f32 to i32": ("f32", "i32"),
    "arith.bitcast %x : f32 to i32": ("f32", "i32"),
    "arith.cmpi slt, %x, %x : i32": ("i32", "i1"),
    "arith.cmpf ult, %x, %x : f32": ("f32", "i1"),
}


@pytest.mark.parametrize("op", UNARY)
def test_of_one_element(op):
    source, target = UNARY[op]
    body = f"""%x = memref.load %a[%c1] : memref<8x{source}>
%z = {op}
memref.store %z, %b[%c2] : memref<8x{target}>"""
    agrees(body, f"memref<8x{source}>", f"memref<8x{target}>")


def test_a_select_takes_its_side_by_data():
    body = f"""%x = memref.load %a[%c1] : {F32}
%y = memref.load %a[%c2] : {F32}
%k = arith.cmpf olt, %x, %y : f32
%z = arith.select %k, %x, %y : f32
memref.store %z, %b[%c1] : {F32}"""
    agrees(body, F32, F32)
    agrees(body, F32, F32, seed=5)


VECTORS = {
    "sum": """%v = vector.load %a[%c1] : memref<8xf32>, vector<4xf32>
%s = vector.reduction <add>, %v : vector<4xf32> into f32
memref.store %s, %b[%c1] : memref<8xf32>""",
    "insert": """%v = vector.load %a[%c1] : memref<8xf32>, vector<4xf32>
%zero = arith.constant dense<0.0> : vector<4xf32>
%e = vector.extract %v[1] : f32 from vector<4xf32>
%w = vector.insert %e, %zero[2] : f32 into vector<4xf32>
vector.store %w, %b[%c2] : memref<8xf32>, vector<4xf32>""",
    "padding": """%p = arith.constant 7.0 : f32
%c6 = arith.constant 6 : index
%v = vector.transfer_read %a[%c6], %p : memref<8xf32>, vector<4xf32>
vector.store %v, %b[%c2] : memref<8xf32>, vector<4xf32>""",
    "shape": """%v = vector.load %a[%c1] : memref<8xf32>, vector<4xf32>
%m = vector.shape_cast %v : vector<4xf32> to vector<2x2xf32>
%t = vector.transpose %m, [1, 0] : vector<2x2xf32> to vector<2x2xf32>
%w = vector.shape_cast %t : vector<2x2xf32> to vector<4xf32>
vector.store %w, %b[%c2] : memref<8xf32>, vector<4xf32>""",
    "contract": """%v = vector.load %a[%c1] : memref<8xf32>, vector<4xf32>
%m = vector.shape_cast %v : vector<4xf32> to vector<2x2xf32>
%w = vector.contract {indexing_maps = [affine_map<(i, j, k) -> (k, i)>, affine_map<(i, j, k) -> (j, k)>, affine_map<(i, j, k) -> (i, j)>], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %m, %m, %m : vector<2x2xf32>, vector<2x2xf32> into vector<2x2xf32>
%x = vector.shape_cast %w : vector<2x2xf32> to vector<4xf32>
vector.store %x, %b[%c2] : memref<8xf32>, vector<4xf32>""",
}


@pytest.mark.parametrize("name", VECTORS)
def test_of_vectors(name):
    agrees(VECTORS[name], F32, F32)


@pytest.mark.parametrize("kind", ["bf16", "f8E4M3FN", "f16"])
def test_numbers_among_data_stay_numbers(kind):
    """Two elements lie beyond the end: they are 2 + 2, whatever the others are."""
    body = f"""%p = arith.constant 2.0 : {kind}
%c6 = arith.constant 6 : index
%v = vector.transfer_read %a[%c6], %p : memref<8x{kind}>, vector<4x{kind}>
%w = arith.addf %v, %v : vector<4x{kind}>
vector.store %w, %b[%c2] : memref<8x{kind}>, vector<4x{kind}>"""
    table, run = agrees(body, f"memref<8x{kind}>", f"memref<8x{kind}>")
    stored = run.arrays[1].terms().inner
    assert table.is_constant(stored)[2:6].tolist() == [False, False, True, True]


def test_bits_read_as_another_type_and_back_are_the_same_term():
    body = f"""%v = vector.load %a[%c1] : {F32}, vector<2xf32>
%h = vector.bitcast %v : vector<2xf32> to vector<4xf16>
%w = vector.bitcast %h : vector<4xf16> to vector<2xf32>
vector.store %w, %b[%c1] : {F32}, vector<2xf32>"""
    _, run = agrees(body, F32, F32)
    given, made = (identities(array) for array in run.arrays)
    assert given[1:3].tolist() == made[1:3].tolist()


def test_a_term_is_found_again_where_its_bytes_were_copied():
    body = """%v = vector.load %a[%c1] : memref<8xi32>, vector<2xi32>
%h = vector.bitcast %v : vector<2xi32> to vector<8xi8>
%c0 = arith.constant 0 : index
vector.store %h, %b[%c0] : memref<8xi8>, vector<8xi8>
%back = vector.load %b[%c0] : memref<8xi8>, vector<8xi8>
%w = vector.bitcast %back : vector<8xi8> to vector<2xi32>
vector.store %w, %c[%c1] : memref<8xi32>, vector<2xi32>"""
    _, run = agrees(body, I32, I8, I32)
    assert identities(run.arrays[0])[1:3].tolist() == identities(run.arrays[2])[1:3].tolist()


def test_atomics_combine_data():
    body = f"""%x = memref.load %a[%c1] : {F32}
%old = memref.atomic_rmw addf %x, %b[%c2] : (f32, {F32}) -> f32
memref.store %old, %b[%c1] : {F32}"""
    agrees(body, F32, F32)


@pytest.mark.parametrize("left, right, same", [("ab", "ba", True), ("ab", "aa", False)])
def test_operands_that_may_be_exchanged_have_one_order(left, right, same):
    table = TermTable()
    given = {name: inputs(table, name, (3,), np.float32) for name in "ab"}
    sums = [identities(given[x] + given[y]) for x, y in (left, right)]
    assert (sums[0].tolist() == sums[1].tolist()) is same
    apart = identities(given["a"] - given["b"]), identities(given["b"] - given["a"])
    assert apart[0].tolist() != apart[1].tolist()


def test_nothing_is_folded_that_is_not_exact():
    """x + 0.0 is not x where x is -0.0; (x + y) + z is another number than x + (y + z)."""
    table = TermTable()
    x, y, z = (inputs(table, name, (1,), np.float32) for name in "xyz")
    assert identities(x + np.float32(0)) != identities(x)
    assert identities((x + y) + z) != identities(x + (y + z))


def test_equal_terms_are_one_however_often_the_table_grows():
    table = TermTable()
    first = table.make("x", np.float32, np.arange(100_000))
    pairs = table.make("pair", np.float32, first, first[::-1])
    assert len(np.unique(pairs)) == 100_000
    again = table.make("pair", np.float32, np.tile(first, 2), np.tile(first[::-1], 2))
    assert again.tolist() == np.tile(pairs, 2).tolist()
    assert table.count == 200_000


def test_the_table_is_bounded():
    table = TermTable(limit=1 << 20)
    with pytest.raises(MachineError, match="terms are more than") as error:
        table.make("x", np.float32, np.arange(100_000))
    assert error.value.code == "too-many-terms"


REFUSED = {
    "a branch": "bool(x[0] < x[1])",
    "an address": "np.arange(8)[x.astype(np.int64)]",
    "np.linalg": "np.cumsum(x)",
    "a reduction": "np.add.reduce(x)",
    "NumPy's own memory": "np.zeros(3, np.float32).__setitem__(slice(None), x)",
    "a number": "float(x[0])",
}


@pytest.mark.parametrize("what", REFUSED)
def test_data_is_never_taken_for_a_number(what):
    x = inputs(TermTable(), "x", (3,), np.float32)
    with pytest.raises(MachineError) as error:
        eval(REFUSED[what], {"np": np, "x": x})
    assert error.value.code == "data-dependent"


def test_terms_that_share_a_hash_stay_apart(monkeypatch):
    """Seven hashes for 300 terms of each salt: equal rows are one term, others are not."""

    def few(code, rows, salt):
        return (rows.sum(axis=1) + code) % 7 + 7 * salt

    monkeypatch.setattr(term_table, "_hash", few)
    table, floats = TermTable(), np.dtype(np.float32)
    rows = np.random.default_rng(0).integers(0, 20, (300, 2))
    for name in ("add", "multiply"):
        made = table.make_rows(name, floats, rows)
        assert (made == table.make_rows(name, floats, rows)).all()
        assert (table.rows(made, 2) == rows).all()
        assert len(np.unique(made)) == len(np.unique(rows, axis=0))
        assert {table.of(term)[0].name for term in made.tolist()} == {name}
