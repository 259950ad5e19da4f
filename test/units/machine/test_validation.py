"""`validate`: what is equal, what differs and how it is told, what is refused.

Covers: machine/validation.py, machine/term_table.py, machine/normal_terms.py, machine/dialects/scf.py
"""

import re

import numpy as np
import pytest

import mlir_async_pipe
from helpers.machine_programs import parse
from helpers.paths import ROOT
from helpers.value_mutants import COPIES
from mlir_async_pipe import machine
from mlir_async_pipe.machine.validation import Data
from mlir_async_pipe.session.diagnostics import UsageError

TARGET = "nvvm:sm_80"
FUNCTION = """func.func @f(%a: memref<8xf32>, %b: memref<8xf32>) -> f32 {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %x = memref.load %a[%c0] : memref<8xf32>
  %y = memref.load %a[%c1] : memref<8xf32>
  {body}
  memref.store %z, %b[%c0] : memref<8xf32>
  return %x : f32
}}"""


def pipelined(text, edit=None):
    """The input, and what the pipeline makes of it, with the last match of a pattern edited."""
    before, after = parse(text), parse(text)
    mlir_async_pipe.pipeline(after, target=TARGET)
    if edit is not None:
        (pattern, put), made = edit, str(after)
        last = list(re.finditer(pattern, made))[-1]
        after = parse(made[: last.start()] + last.expand(put) + made[last.end() :])
    return before, after


def functions(before, after):
    return parse(FUNCTION.format(body=before)), parse(FUNCTION.format(body=after))


def test_a_pipelined_loop_computes_what_it_did_for_all_data():
    found = mlir_async_pipe.validate(*pipelined(COPIES), target=TARGET)
    assert (found.verdict, found.elements) == ("equal", 78), found.diagnostic()


EQUAL = {
    "the same": ("%z = arith.addf %x, %y : f32", "%z = arith.addf %x, %y : f32"),
    "exchanged": ("%z = arith.addf %x, %y : f32", "%z = arith.addf %y, %x : f32"),
    "through memory": (
        "%z = arith.mulf %x, %y : f32",
        "memref.store %x, %b[%c0] : memref<8xf32>\n%o = memref.load %b[%c0] : memref<8xf32>\n"
        "%z = arith.mulf %o, %y : f32",
    ),
    "a value that nobody uses": (
        "%z = arith.mulf %x, %y : f32",
        "%z = arith.mulf %x, %y : f32\n%e = math.exp %x : f32",
    ),
}


@pytest.mark.parametrize("name", EQUAL)
def test_equal_however_it_is_written(name):
    assert mlir_async_pipe.validate(*functions(*EQUAL[name])).is_equal


DIFFERENT = {
    "operands of a difference": ("%z = arith.subf %x, %y : f32", "%z = arith.subf %y, %x : f32"),
    "an operand": ("%z = arith.addf %x, %y : f32", "%z = arith.addf %x, %x : f32"),
    "an op": ("%z = arith.addf %x, %y : f32", "%z = arith.mulf %x, %y : f32"),
    "a function": ("%z = math.exp %x : f32", "%z = math.exp2 %x : f32"),
    "an operand of two ops": (
        "%s = arith.addf %x, %y : f32\n%z = arith.mulf %s, %x : f32",
        "%s = arith.addf %x, %x : f32\n%z = arith.mulf %s, %y : f32",
    ),
    "an element beside": (
        "%z = arith.addf %x, %y : f32",
        "%z = arith.addf %x, %y : f32\nmemref.store %z, %b[%c1] : memref<8xf32>",
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_different_on_data_that_show_it(name):
    before, after = functions(*DIFFERENT[name])
    found = mlir_async_pipe.validate(before, after)
    assert (found.verdict, found.code) == ("different", "different-value")
    shown = [machine.run(m, "f", found.difference.data).arrays[1] for m in (before, after)]
    index = tuple(map(int, re.findall(r"\d+", found.difference.where.split("[")[1])))
    assert [array[index] for array in shown] == list(found.difference.values)[: len(shown)]
    assert found.difference.values[0] != found.difference.values[1]


def test_what_differs_is_told_as_terms_with_both_ops():
    found = mlir_async_pipe.validate(*functions(*DIFFERENT["operands of a difference"]))
    told = found.difference
    assert told.where == "argument 1[0]"
    assert (told.before, told.after) == ("(arg0[0] - arg0[1])", "(arg0[1] - arg0[0])")
    assert told.computed_before.op == told.computed_after.op == "arith.subf"
    text = str(found.diagnostic())
    assert "is (arg0[1] - arg0[0]), and was (arg0[0] - arg0[1]) [different-value]" in text


def test_the_iteration_that_goes_wrong_first_is_told():
    """The fourth sum of the kernel doubles what it adds: sums of iterations 3 to 9 are wrong, and the first is told."""
    broken = COPIES.replace(
        "%w = arith.addf %sum, %v",
        "%c12 = arith.constant 12 : index\n%late = arith.cmpi eq, %i, %c12 : index\n"
        "%two = arith.addf %v, %v : vector<4xf32>\n"
        "%u = arith.select %late, %two, %v : vector<4xf32>\n%w = arith.addf %sum, %u",
    )
    found = mlir_async_pipe.validate(parse(COPIES), parse(broken), target=TARGET)
    assert found.difference.where == "argument 1[12]"
    now = found.difference.computed_after
    assert (now.number, now.op) == (3, "arith.addf")


# What a compiler may do to a pipeline, and no race shows.
MUTANTS = {
    "the source of a copy": (r"(device_async_copy %\w+\[)%\w+\]", r"\1%c0]"),
    "a lost zero fill": (r", 4, %\w+ :", ", 4 :"),
    "the sum before the last": (r"(vector.store )%\w+", r"\1%cst"),
    "an op": (r"arith.addf", "arith.mulf"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_of_values_are_found(name):
    found = mlir_async_pipe.validate(*pipelined(COPIES, MUTANTS[name]), target=TARGET)
    assert found.verdict == "different", found.diagnostic()


def test_a_race_of_the_result_is_a_difference():
    edit = (r"numGroups = 1", "numGroups = 2")
    found = mlir_async_pipe.validate(*pipelined(COPIES, edit), target=TARGET)
    assert (found.verdict, found.code) == ("different", "read-in-flight")
    assert "read-in-flight" in str(found.diagnostic())


def test_a_race_of_the_input_is_no_difference():
    racy = COPIES.replace("array<i32: 1, 1, 1>", "array<i32: 2, 1, 1>")
    found = mlir_async_pipe.validate(parse(racy), parse(COPIES), target=TARGET)
    assert (found.verdict, found.code) == ("unknown", "input-race")


def test_copies_that_the_input_does_not_wait_for_are_complete_at_once():
    racy = COPIES.replace("      nvgpu.device_async_wait %group\n", "")
    found = mlir_async_pipe.validate(parse(racy), parse(COPIES), target=TARGET)
    assert found.is_equal
    assert "if copies before were complete when they were issued [read-in-flight]" in found.message


UNKNOWN = {
    "data-dependent": """%z = arith.addf %x, %y : f32
%k = arith.cmpf olt, %x, %y : f32
scf.if %k {
  memref.store %x, %b[%c1] : memref<8xf32>
  gpu.barrier
}""",
    "step-limit": """%z = arith.addf %x, %y : f32
%large = arith.constant 100000 : index
scf.for %i = %c0 to %large step %c1 {
}""",
}


@pytest.mark.parametrize("code", UNKNOWN)
def test_what_cannot_be_followed_is_unknown_at_its_op(code):
    before, after = functions(UNKNOWN[code], UNKNOWN[code])
    found = mlir_async_pipe.validate(before, after, step_limit=1000)
    assert (found.verdict, found.code) == ("unknown", code)
    assert "cannot be followed" in found.message
    if code == "data-dependent":
        assert "'scf.if': a branch depends on data" in found.message and found.place.line == 8


LESS = "%k = arith.cmpf olt, %x, %y : f32\n%u = arith.addf %x, %y : f32\n"
BRANCH = (
    f"{LESS}%z = scf.if %k -> f32 {{\nscf.yield %u : f32\n}} else {{\n"
    "memref.store %x, %b[%c1] : memref<8xf32>\nscf.yield %x : f32\n}"
)
SELECTS = (
    f"{LESS}%z = arith.select %k, %u, %x : f32\n%o = memref.load %b[%c1] : memref<8xf32>\n"
    "%n = arith.select %k, %o, %x : f32\nmemref.store %n, %b[%c1] : memref<8xf32>"
)
INNER = BRANCH.replace(
    "memref.store", "%l = arith.cmpf oeq, %x, %y : f32\nscf.if %l {\nmemref.store"
)
INNER = INNER.replace("memref<8xf32>\nscf.yield", "memref<8xf32>\n}\nscf.yield")
BRANCHES = {
    "as selects": (BRANCH, SELECTS, "equal"),
    "the same": (BRANCH, BRANCH, "equal"),
    "the other condition": (BRANCH, BRANCH.replace("olt", "ogt"), "different"),
    "what the other side stores": (BRANCH, SELECTS.replace("%k, %o, %x", "%k, %x, %o"), "different"),
    "a branch in a branch": (INNER, INNER, "equal"),
    "a branch that is not in the other": (BRANCH, INNER, "different"),
}  # fmt: skip


@pytest.mark.parametrize("name", BRANCHES)
def test_both_sides_of_a_branch_on_data_are_followed(name):
    before, after, verdict = BRANCHES[name]
    found = mlir_async_pipe.validate(*functions(before, after))
    assert found.verdict == verdict, found.diagnostic()


OF_THREADS = """gpu.module @k {{
  gpu.func @f(%a: memref<8xf32>, %b: memref<8xf32>) kernel attributes {{known_block_size = array<i32: 8, 1, 1>}} {{
    %tid = gpu.thread_id x
    %c0 = arith.constant 0 : index
    %x = memref.load %a[%tid] : memref<8xf32>
    %y = memref.load %a[%c0] : memref<8xf32>
    %k = arith.cmpf olt, %y, %x : f32
    {body}
    gpu.return
  }}
}}"""


@pytest.mark.parametrize(
    ("place", "code"), [("%tid", "equal"), ("%c0", "data-dependent")], ids=["own", "one for all"]
)
def test_each_thread_branches_on_its_own_data(place, code):
    """Of threads that store to one element on some data there may be a race, or none."""
    store = f"memref.store %x, %b[{place}] : memref<8xf32>"
    branch = f"scf.if %k {{\n{store}\n}}"
    select = (
        f"%o = memref.load %b[{place}] : memref<8xf32>\n%n = arith.select %k, %x, %o : f32\n"
        + store.replace("%x", "%n")
    )
    bodies = (select, branch) if code == "equal" else ("", branch)
    modules = (parse(OF_THREADS.format(body=body)) for body in bodies)
    found = mlir_async_pipe.validate(*modules)
    assert found.code == code, found.diagnostic()


REFUSED_BRANCHES = {
    "a barrier": "gpu.barrier",
    "memory": "%m = memref.alloc() : memref<8xf32>",
    "another thread's value": (
        "%c1 = arith.constant 1 : i32\n%c8 = arith.constant 8 : i32\n"
        "%s, %v = gpu.shuffle xor %x, %c1, %c8 : f32\nmemref.store %s, %b[%tid] : memref<8xf32>"
    ),
    "an atomic addition": "%s = memref.atomic_rmw addf %x, %b[%tid] : (f32, memref<8xf32>) -> f32",
    "a copy": (
        "%g = nvgpu.device_async_copy %a[%tid], %tile[%tid], 1 : memref<8xf32> to "
        "memref<8xf32, #gpu.address_space<workgroup>>"
    ),
}


@pytest.mark.parametrize("name", REFUSED_BRANCHES)
def test_sides_that_do_more_than_to_compute_are_refused(name):
    tile = "%tile = memref.alloc() : memref<8xf32, #gpu.address_space<workgroup>>\n"
    text = OF_THREADS.format(body=f"{tile}scf.if %k {{\n{REFUSED_BRANCHES[name]}\n}}")
    found = mlir_async_pipe.validate(parse(text), parse(text))
    assert (found.verdict, found.code) == ("unknown", "data-dependent"), found.diagnostic()
    assert "'scf.if': a branch depends on data" in found.message


def test_different_terms_that_no_run_tells_apart_are_unknown():
    """x + 0.0 is x, but for -0.0, which is not drawn: no proof, and nothing to be seen."""
    same = "%z = arith.addf %x, %y : f32"
    zero = "%zero = arith.constant 0.0 : f32\n%s = arith.addf %x, %y : f32\n%z = arith.addf %s, %zero : f32"
    found = mlir_async_pipe.validate(*functions(same, zero))
    assert (found.verdict, found.code) == ("unknown", "terms-differ")
    assert "((arg0[0] + arg0[1]) + 0.0)" in found.message


def test_terms_that_are_the_same_number_for_all_data_are_equal():
    same = "%z = arith.addf %x, %y : f32"
    one = "%one = arith.constant 1.0 : f32\n%s = arith.addf %x, %y : f32\n%z = arith.mulf %s, %one : f32"
    assert mlir_async_pipe.validate(*functions(same, one)).is_equal


TWO_ROWS = "%c4 = arith.constant 4 : index\n%p = vector.load %a[%c0] : memref<8xf32>, vector<4xf32>\n%q = vector.load %a[%c4] : memref<8xf32>, vector<4xf32>\n"
CONTRACT = (
    "%zero = arith.constant 0.0 : f32\n%z = vector.contract {indexing_maps = [affine_map<(k) -> (k)>, "
    'affine_map<(k) -> (k)>, affine_map<(k) -> ()>], iterator_types = ["reduction"], '
    "kind = #vector.kind<add>} %p, %q, %zero : vector<4xf32>, vector<4xf32> into f32"
)
BY_HAND = "%r = arith.mulf %q, %p : vector<4xf32>\n" + "\n".join(
    [f"%r{n} = vector.extract %r[{n}] : f32 from vector<4xf32>" for n in range(4)]
    + ["%s = arith.addf %r3, %r1 : f32\n%t = arith.addf %r0, %r2 : f32"]
    + ["%z = arith.addf %s, %t : f32"]
)
LEFT = "%s = arith.addf %x, %y : f32\n%z = arith.addf %s, %x : f32"
RIGHT = "%s = arith.addf %x, %x : f32\n%z = arith.addf %y, %s : f32"
ROUNDED = "%h = arith.truncf %s : f32 to f16\n%e = arith.extf %h : f16 to f32\n"
REASSOCIATED = {
    "two sums": (LEFT, RIGHT, "equal"),
    "a zero": (
        LEFT,
        RIGHT.replace("%z", "%t") + "\n%n = arith.constant -0.0 : f32\n%z = arith.addf %n, %t : f32",
        "equal",
    ),
    "in a function": (
        LEFT.replace("%z", "%t") + "\n%z = math.exp %t : f32",
        RIGHT.replace("%z", "%t") + "\n%z = math.exp %t : f32",
        "equal",
    ),
    "a matrix product": (TWO_ROWS + CONTRACT, TWO_ROWS + BY_HAND, "equal"),
    "another addend": (LEFT, RIGHT.replace("%y", "%x"), "different"),
    "an addend less": (LEFT, RIGHT.replace("addf %x, %x", "addf %x, %y"), "different"),
    "a factor": (LEFT, RIGHT.replace("addf %x, %x", "mulf %x, %x"), "different"),
    "a product of other rows": (TWO_ROWS + CONTRACT, TWO_ROWS + BY_HAND.replace("addf %r3", "addf %r2"), "different"),
    # Whole numbers show no rounding: no proof, and nothing to be seen.
    "rounded in between": (
        LEFT.replace("%z = arith.addf %s", f"{ROUNDED}%z = arith.addf %e"), RIGHT, "unknown",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REASSOCIATED)
def test_sums_in_any_order_are_the_same_where_that_is_allowed(name):
    before, after, verdict = REASSOCIATED[name]
    modules = functions(before, after)
    found = mlir_async_pipe.validate(*modules, reassociate=True)
    assert found.verdict == verdict, found.diagnostic()
    assert not mlir_async_pipe.validate(*modules).is_equal
    assert not found.is_equal or "with sums in any order" in found.message


def test_too_many_addends_are_unknown():
    twice = "\n".join(f"%d{n + 1} = arith.addf %d{n}, %d{n} : f32" for n in range(20))
    start = f"%d0 = arith.addf %x, %x : f32\n{twice}\n"
    sums = (LEFT.replace("addf %s, %x", "addf %s, %d20"), RIGHT.replace("%s : f32", "%d20 : f32"))
    found = mlir_async_pipe.validate(
        *functions(*(start + body for body in sums)), reassociate=True, memory_limit=1 << 22
    )
    assert (found.verdict, found.code) == ("unknown", "too-many-terms")


def test_numbers_decide_branches_where_they_are_given():
    found = mlir_async_pipe.validate(
        *functions(UNKNOWN["data-dependent"], UNKNOWN["data-dependent"]),
        arguments=[np.arange(8, dtype=np.float32), None],
    )
    assert found.is_equal


def test_too_many_terms_are_unknown():
    text = (ROOT / "examples" / "add_one.mlir").read_text()
    found = mlir_async_pipe.validate(*pipelined(text), "add_one", memory_limit=100_000)
    assert (found.verdict, found.code) == ("unknown", "too-many-terms")


TRIPS = """func.func @f(%a: memref<?xf32>, %b: memref<?xf32>, %n: index) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  scf.for %i = %c0 to %n step %c1 {{
    %x = memref.load %a[%i] : memref<?xf32>
    %k = arith.cmpi ult, %i, %{limit} : index
    %y = arith.addf %x, %x : f32
    %z = arith.select %k, %y, %x : f32
    memref.store %z, %b[%i] : memref<?xf32>
  }}
  return
}}"""


def test_a_range_is_asked_about_number_by_number():
    before, after = (parse(TRIPS.format(limit=limit)) for limit in ("n", "n"))
    sizes = Data((range(1, 7),))
    found = mlir_async_pipe.validate(before, after, arguments=[sizes, sizes, range(0, 6)])
    assert found.is_equal and found.elements == 2 * sum(range(1, 7))
    assert found.message.endswith(
        "for all of 6 launches, with size 0 of argument 0 = 1 to 6, size 0 of argument 1 = 1 to 6, "
        "argument 2 = 0 to 5"
    )


def test_the_first_number_that_differs_is_told():
    """The second iteration of the program after adds nothing: that shows from two iterations on."""
    before, after = (parse(TRIPS.format(limit=limit)) for limit in ("n", "c1"))
    arguments = [Data((8,)), Data((8,)), range(0, 6)]
    found = mlir_async_pipe.validate(before, after, arguments=arguments)
    assert found.verdict == "different" and found.difference.where == "argument 1[1]"
    assert found.message.startswith("with argument 2 = 2: argument 1[1]")


GLOBAL = """memref.global @seen : memref<2xf32> = dense<[1.0, 2.0]>
func.func @f(%a: memref<2xf32>) {{
  %c0 = arith.constant 0 : index
  %x = memref.load %a[%c0] : memref<2xf32>
  {body}
  return
}}"""
WRITTEN = """%g = memref.get_global @seen : memref<2xf32>
memref.store %{value}, %g[%c0] : memref<2xf32>"""
SAME = "%g = memref.get_global @seen : memref<2xf32>\n%y = memref.load %g[%c0] : memref<2xf32>"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        (WRITTEN.format(value="x"), "", "different"),
        ("", WRITTEN.format(value="x"), "different"),
        (SAME + "\n" + WRITTEN.format(value="y").split("\n")[1], "", "equal"),
        ("", SAME, "equal"),
    ],
    ids=["lost", "new", "what it was", "read"],
)
def test_a_global_that_one_program_touches_is_compared_with_what_it_was(before, after, verdict):
    modules = (parse(GLOBAL.format(body=body)) for body in (before, after))
    found = mlir_async_pipe.validate(*modules, "f")
    assert found.verdict == verdict, found.diagnostic()


def test_another_number_of_results_is_an_error_at_the_function():
    one = "func.func @f(%x: f32) -> f32 {\nreturn %x : f32\n}"
    two = "\n\nfunc.func @f(%x: f32) -> (f32, f32) {\nreturn %x, %x : f32, f32\n}"
    with pytest.raises(UsageError, match="'f' gives 2 results, and gave 1") as error:
        mlir_async_pipe.validate(parse(one), parse(two))
    assert error.value.code == "bad-signature" and error.value.diagnostic.place.line == 3


BAD = {
    "ranges of two lengths": (
        "%n: index, %m: index",
        [range(3), range(4)],
        "ranges of [3, 4] numbers",
    ),
    "an empty range": ("%n: index", [range(0)], "ranges of [0] numbers"),
    "dynamic sizes": ("%a: memref<?xf32>", [], "arg0 has dynamic sizes"),
    "a number": ("%n: index", [], "arg0 is index: give it a number"),
    "a pointer": ("%p: !llvm.ptr", [], "arg0 is a pointer"),
    "too many": ("%a: memref<8xf32>", [None, None], "takes 1 arguments, 2 given"),
}


@pytest.mark.parametrize("name", BAD)
def test_wrong_arguments_are_errors(name):
    types, arguments, message = BAD[name]
    module = parse(f"func.func @f({types}) {{ return }}")
    with pytest.raises(UsageError, match=re.escape(message)) as error:
        mlir_async_pipe.validate(module, module, arguments=arguments)
    assert error.value.code == "bad-argument"


def test_data_behind_a_pointer_has_a_type():
    text = """llvm.func @f(%p: !llvm.ptr, %q: !llvm.ptr) {
  %x = llvm.load %p : !llvm.ptr -> f32
  llvm.store %x, %q : f32, !llvm.ptr
  llvm.return
}"""
    data = [Data((4,), np.float32)] * 2
    assert mlir_async_pipe.validate(parse(text), parse(text), arguments=data).is_equal
    other = text.replace(
        "%x = llvm.load %p :",
        "%r = llvm.getelementptr %p[1] : (!llvm.ptr) -> !llvm.ptr, f32\n%x = llvm.load %r :",
    )
    found = mlir_async_pipe.validate(parse(text), parse(other), arguments=data)
    assert found.verdict == "different" and found.difference.before == "arg0[0]"


@pytest.mark.parametrize("name", ["add_one"])
def test_examples_compute_what_they_did(name):
    text = (ROOT / "examples" / f"{name}.mlir").read_text()
    assert mlir_async_pipe.validate(*pipelined(text), name, target=TARGET).is_equal


# Large arguments --------------------------------------------------------------------------

LARGE = """func.func @f(%a: memref<3000000xf32>, %b: memref<4xf32>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c4 = arith.constant 4 : index
  %far = arith.constant 2999996 : index
  scf.for %i = %c0 to %c4 step %c1 {{
    %j = arith.addi %i, %far : index
    {body}
    %x = memref.load %a[%j] : memref<3000000xf32>
    %y = arith.addf %x, %x : f32
    memref.store %y, %b[%i] : memref<4xf32>
  }}
  return
}}"""


def of_large(body):
    return mlir_async_pipe.validate(parse(LARGE.format(body="")), parse(LARGE.format(body=body)))


def test_a_large_argument_that_is_only_read_takes_no_terms():
    found = of_large("")
    assert found.is_equal and found.elements == 4 and found.terms < 100


def test_an_element_of_a_large_argument_is_told_by_its_place():
    changed = LARGE.format(body="").replace("memref.load %a[%j]", "memref.load %a[%i]")
    found = mlir_async_pipe.validate(parse(LARGE.format(body="")), parse(changed))
    assert found.verdict == "different" and found.difference is not None
    assert (found.difference.before, found.difference.after) == (
        "(arg0[2999996] + arg0[2999996])",
        "(arg0[0] + arg0[0])",
    )


def test_a_large_argument_that_is_written_is_compared():
    body = "%z = arith.constant 1.0 : f32\nmemref.store %z, %a[%i] : memref<3000000xf32>"
    found = of_large(body)
    assert found.verdict == "different" and found.difference is not None
    assert found.difference.where == "argument 0[0]"


def test_a_large_argument_has_its_bounds():
    body = "%k = arith.addi %j, %c1 : index\n%o = memref.load %a[%k] : memref<3000000xf32>"
    found = of_large(body)
    assert (found.verdict, found.code) == ("different", "out-of-bounds")


# A sum of `%n` addends.
SUM = """func.func @f(%a: memref<8xf32>, %b: memref<1xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %c8 = arith.constant 8 : index
  %c1 = arith.constant 1 : index
  %z = arith.constant 0.0 : f32
  %s = scf.for %i = %c0 to %n step %c1 iter_args(%t = %z) -> f32 {
    %j = arith.remui %i, %c8 : index
    %x = memref.load %a[%j] : memref<8xf32>
    %u = arith.addf %t, %x : f32
    scf.yield %u : f32
  }
  memref.store %s, %b[%c0] : memref<1xf32>
  return
}"""


@pytest.mark.parametrize(
    ("count", "step_limit", "code"), [(1000, 20_000, "equal"), (400_000, 400, "too-many-terms")]
)
def test_a_loop_is_refused_in_its_first_iterations_if_all_make_too_many_terms(
    count: int, step_limit: int, code: str
) -> None:
    arguments = [None, None, count]
    module = parse(SUM)
    found = mlir_async_pipe.validate(
        module, module, None, arguments, memory_limit=1 << 22, step_limit=step_limit
    )
    assert found.code == code, found.message
    assert found.is_equal or "'scf.for'" in found.message
