"""Semantics of single ops, each against NumPy or a number worked by hand.

Covers: machine/decode.py, machine/lane_values.py, machine/memory.py, machine/kinds.py, machine/access.py, machine/run_kernel.py, machine/dialects/arith.py, machine/dialects/vector.py, machine/dialects/memref.py, machine/dialects/nvvm.py, machine/dialects/scf.py, machine/launch.py
"""

import numpy as np
import pytest

from helpers.machine_programs import evaluate, parse, run, zeros
from mlir_async_pipe import machine
from mlir_async_pipe.session.diagnostics import MachineError, UsageError

I32 = [(7, 3), (-7, 3), (7, -3), (-7, -3), (0, 5), (2**31 - 1, 2)]
INTEGER_OPS = {
    "addi": lambda a, b: np.int32(a) + np.int32(b),
    "muli": lambda a, b: np.int32(a) * np.int32(b),
    "divsi": lambda a, b: int(a / b),
    "remsi": lambda a, b: int(np.fmod(a, b)),
    "floordivsi": lambda a, b: a // b,
    "ceildivsi": lambda a, b: -(-a // b),
    "divui": lambda a, b: (a % 2**32) // (b % 2**32),
    "remui": lambda a, b: (a % 2**32) % (b % 2**32),
    "maxui": lambda a, b: max(a % 2**32, b % 2**32),
    "xori": lambda a, b: a ^ b,
}


@pytest.mark.parametrize("op", INTEGER_OPS)
@pytest.mark.parametrize("a, b", I32)
def test_integer_arithmetic_wraps_and_rounds_as_mlir_says(op, a, b):
    got = evaluate(f"%r = arith.{op} %a, %b : i32", a, b, types="%a: i32, %b: i32", result="i32")
    with np.errstate(over="ignore"):
        assert got % 2**32 == int(INTEGER_OPS[op](a, b)) % 2**32


@pytest.mark.parametrize(
    ("op", "expected"),
    [("addi", 4), ("subi", 6), ("muli", 11), ("divui", 0), ("shli", 0), ("xori", 10)],
)
def test_integers_of_four_bits_wrap(op: str, expected: int) -> None:
    """-11 is 5; -1, as an unsigned number, is 15."""
    text = f"%s = arith.{op} %a, %b : i4\n%r = arith.extui %s : i4 to i32"
    assert evaluate(text, -11, -1, types="%a: i4, %b: i4", result="i32") == expected


@pytest.mark.parametrize(
    "body",
    [
        "%r = arith.extsi %a : i4 to i32",
        "%s = arith.shrsi %a, %a : i4\n%r = arith.extui %s : i4 to i32",
        "%p = arith.cmpi slt, %a, %a : i4\n%r = arith.extui %p : i1 to i32",
        "%s = vector.broadcast %a : i4 to vector<2xi4>\n%r = arith.constant 0 : i32",
        "scf.for %i = %a to %a step %a : i4 {}\n%r = arith.constant 0 : i32",
    ],
)
def test_what_asks_for_the_sign_of_four_bits_or_packs_them_is_refused(body: str) -> None:
    with pytest.raises(MachineError, match=r"4 bits|vector<2xi4>") as refused:
        evaluate(body, 1, types="%a: i4", result="i32")
    assert refused.value.code == "unsupported-type"


def test_an_array_of_four_bits_holds_numbers_up_to_15():
    with pytest.raises(UsageError, match="argument 0 holds 16, expected i4"):
        run("func.func @f(%m: memref<2xi4>) { return }", np.array([3, 16], np.uint8))


def test_scope_of_allocations_gives_what_it_returns():
    body = """
      %r = memref.alloca_scope -> (i32) {
        %m = memref.alloca() : memref<1xi32>
        %zero = arith.constant 0 : index
        memref.store %a, %m[%zero] : memref<1xi32>
        %b = memref.load %m[%zero] : memref<1xi32>
        memref.alloca_scope.return %b : i32
      }
    """
    assert evaluate(body, 5, types="%a: i32", result="i32") == 5


@pytest.mark.parametrize(
    "predicate, expected",
    [("slt", True), ("ult", False), ("sge", False), ("uge", True), ("ne", True)],
)
def test_integer_comparison_knows_its_sign(predicate, expected):
    body = f"%r = arith.cmpi {predicate}, %a, %b : i32"
    assert evaluate(body, -1, 1, types="%a: i32, %b: i32", result="i1") is expected


@pytest.mark.parametrize(
    "predicate, expected", [("olt", False), ("ult", True), ("ord", False), ("uno", True)]
)
def test_float_comparison_knows_nan(predicate, expected):
    body = f"%r = arith.cmpf {predicate}, %a, %a : f32"
    assert evaluate(body, np.nan, types="%a: f32", result="i1") is expected


@pytest.mark.parametrize("op", ["maximumf", "maxnumf", "minimumf", "minnumf"])
@pytest.mark.parametrize("kind, dtype", [("f16", np.float16), ("f32", np.float32)])
def test_zeros_have_an_order_in_each_lane(op, kind, dtype):
    """NumPy's answer depends on the lane: what vector instruction it is computed by."""
    memory = f"memref<76x{kind}>"
    text = f"""func.func @f(%a: {memory}, %b: {memory}, %c: {memory}) {{
      %t = gpu.thread_id x
      %x = memref.load %a[%t] : {memory}
      %y = memref.load %b[%t] : {memory}
      %z = arith.{op} %x, %y : {kind}
      memref.store %z, %c[%t] : {memory}
      %old = memref.atomic_rmw {op} %x, %b[%t] : ({kind}, {memory}) -> {kind}
      return
    }}"""
    pairs = [(0.0, -0.0), (-0.0, 0.0), (-0.0, -0.0), (0.0, np.nan)] * 19
    one, other = (np.array(side, dtype) for side in zip(*pairs, strict=True))
    arrays = run(text, one, other, np.zeros(76, dtype), threads=76).arrays
    number, signs = op.endswith("numf"), [False, False, True] if "max" in op else [True] * 3
    for found in arrays[1:]:
        assert np.signbit(found.reshape(19, 4)[:, :3]).tolist() == [signs] * 19
        assert np.isnan(found[3::4]).all() != number and (found[3::4] == 0).all() == number


@pytest.mark.parametrize(
    "kind, value, expected",
    [
        # 1 + 2^-8 lies half way between two bf16 numbers: ties go to even, which is 1.
        ("bf16", 1 + 2.0**-8, 1.0),
        ("bf16", 1 + 3 * 2.0**-8, 1 + 2.0**-6),
        ("f16", 2049.0, 2048.0),
        ("f8E4M3FN", 17.0, 16.0),
        ("f8E5M2", 1e30, np.inf),
    ],
)
def test_truncation_rounds_to_nearest_even(kind, value, expected):
    body = f"%t = arith.truncf %a : f32 to {kind}\n%r = arith.extf %t : {kind} to f32"
    assert evaluate(body, value, types="%a: f32") == expected


@pytest.mark.parametrize("op", ["nvvm.ex2 %a {ftz = true} : f32", "rocdl.exp2 %a f32 -> f32"])
@pytest.mark.parametrize("power, expected", [(3.0, 8.0), (-1.0, 0.5), (-np.inf, 0.0)])
def test_a_chip_s_power_of_two_is_that_of_numpy(power, expected, op):
    assert evaluate(f"%r = {op}", power, types="%a: f32") == expected


def test_bf16_sums_round_after_every_operation():
    body = """
      %h = arith.truncf %a : f32 to bf16
      %s = arith.addf %h, %h : bf16
      %t = arith.addf %s, %h : bf16
      %r = arith.extf %t : bf16 to f32"""
    # 1.0078125 is 129/128; 2 of them are exact, 3 are 387/128 = 3.0234375, kept as 3.03125.
    assert evaluate(body, 129 / 128, types="%a: f32") == 3.03125


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_loop_carries_values(trips):
    body = """
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %r = scf.for %i = %c0 to %n step %c1 iter_args(%s = %c0) -> (index) {
        %next = arith.addi %s, %i : index
        scf.yield %next : index
      }"""
    assert evaluate(body, trips, types="%n: index", result="index") == sum(range(trips))


def test_unsigned_loop_compares_unsigned():
    body = """
      %lb = arith.constant 2147483640 : i32
      %ub = arith.constant -2147483640 : i32
      %one = arith.constant 1 : i32
      %zero = arith.constant 0 : i32
      %r = scf.for unsigned %i = %lb to %ub step %one iter_args(%s = %zero) -> (i32) : i32 {
        %next = arith.addi %s, %one : i32
        scf.yield %next : i32
      }"""
    assert evaluate(body, result="i32") == 16


DIVERGENT_LOOP = """
func.func @f(%out: memref<8xindex>) {
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %r = scf.for %i = %c0 to %t step %c1 iter_args(%s = %c0) -> (index) {
    %n = arith.addi %s, %i : index
    scf.yield %n : index
  }
  memref.store %r, %out[%t] : memref<8xindex>
  return
}"""


def test_each_lane_has_its_own_trip_count():
    result = run(DIVERGENT_LOOP, np.zeros(8, np.int64), threads=8)
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[0], [t * (t - 1) // 2 for t in range(8)])


def test_branches_between_blocks_keep_lanes_apart():
    program = """
    func.func @f(%out: memref<8xindex>) {
      %t = gpu.thread_id x
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      cf.br ^head(%c0, %c0 : index, index)
    ^head(%i: index, %s: index):
      %twice = arith.addi %s, %s : index
      %go = arith.cmpi ult, %i, %t : index
      cf.cond_br %go, ^body, ^exit
    ^body:
      %next = arith.addi %s, %i : index
      %i1 = arith.addi %i, %c1 : index
      cf.br ^head(%i1, %next : index, index)
    ^exit:
      gpu.barrier
      memref.store %twice, %out[%t] : memref<8xindex>
      return
    }"""
    result = run(program, np.zeros(8, np.int64), threads=8)
    assert result.races == ()
    np.testing.assert_array_equal(result.arrays[0], [t * (t - 1) for t in range(8)])


def test_lanes_meet_where_their_paths_do_wherever_that_is_written():
    """As machine code has it, the end of an iteration stands before its begin."""
    program = """
    func.func @f(%out: memref<8xindex>) {
      %t = gpu.thread_id x
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %one = arith.constant 1 : i32
      %c3 = arith.constant 3 : index
      cf.br ^head(%c0, %c0 : index, index)
    ^latch(%j: index, %sum: index):
      %met = gpu.subgroup_reduce add %one : (i32) -> i32
      %meet = arith.index_cast %met : i32 to index
      %next = arith.addi %sum, %meet : index
      %more = arith.addi %j, %c1 : index
      %go = arith.cmpi ult, %more, %c3 : index
      cf.cond_br %go, ^head(%more, %next : index, index), ^end(%next : index)
    ^head(%i: index, %s: index):
      %first = arith.cmpi eq, %t, %c0 : index
      cf.cond_br %first, ^alone, ^latch(%i, %s : index, index)
    ^alone:
      cf.br ^latch(%i, %s : index, index)
    ^end(%total: index):
      memref.store %total, %out[%t] : memref<8xindex>
      return
    }"""
    result = run(program, np.zeros(8, np.int64), threads=8, warp=8)
    np.testing.assert_array_equal(result.arrays[0], [24] * 8)


def test_while_loop_stops_each_lane_at_its_condition():
    program = """
    func.func @f(%out: memref<8xindex>) {
      %t = gpu.thread_id x
      %c1 = arith.constant 1 : index
      %c2 = arith.constant 2 : index
      %r = scf.while (%x = %c1) : (index) -> index {
        %go = arith.cmpi ule, %x, %t : index
        scf.condition(%go) %x : index
      } do {
      ^bb0(%y: index):
        %z = arith.muli %y, %c2 : index
        scf.yield %z : index
      }
      memref.store %r, %out[%t] : memref<8xindex>
      return
    }"""
    result = run(program, np.zeros(8, np.int64), threads=8)
    np.testing.assert_array_equal(result.arrays[0], [1, 2, 4, 4, 8, 8, 8, 8])


@pytest.mark.parametrize("value, expected", [(0, 10), (5, 50), (7, 99)])
def test_index_switch_takes_its_case(value, expected):
    body = """
      %r = scf.index_switch %a -> index
      case 0 { %x = arith.constant 10 : index scf.yield %x : index }
      case 5 { %x = arith.constant 50 : index scf.yield %x : index }
      default { %x = arith.constant 99 : index scf.yield %x : index }"""
    assert evaluate(body, value, types="%a: index", result="index") == expected


def test_calls_return_and_recurse():
    program = """
    func.func private @sum(%n: index) -> index {
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %go = arith.cmpi ugt, %n, %c0 : index
      %r = scf.if %go -> index {
        %m = arith.subi %n, %c1 : index
        %s = func.call @sum(%m) : (index) -> index
        %t = arith.addi %s, %n : index
        scf.yield %t : index
      } else {
        scf.yield %c0 : index
      }
      return %r : index
    }
    func.func @f(%n: index) -> index {
      %r = func.call @sum(%n) : (index) -> index
      return %r : index
    }"""
    assert machine.run(parse(program), "f", [10]).results == (55,)


def test_subviews_and_casts_name_the_same_memory():
    program = """
    func.func @f(%a: memref<4x8xf32>, %i: index) -> f32 {
      %s = memref.subview %a[%i, 1] [1, 4] [1, 2] : memref<4x8xf32> to memref<4xf32, strided<[2], offset: ?>>
      %c2 = arith.constant 2 : index
      %v = memref.load %s[%c2] : memref<4xf32, strided<[2], offset: ?>>
      return %v : f32
    }"""
    a = np.arange(32, dtype=np.float32).reshape(4, 8)
    assert run(program, a, 3).results == (a[3, 5],)


def test_byte_views_reinterpret_memory():
    program = """
    func.func @f(%v: f32) -> f16 {
      %raw = memref.alloc() : memref<64xi8, WG>
      %c0 = arith.constant 0 : index
      %c1 = arith.constant 1 : index
      %c8 = arith.constant 8 : index
      %f = memref.view %raw[%c8][] : memref<64xi8, WG> to memref<2xf32, WG>
      %h = memref.view %raw[%c8][] : memref<64xi8, WG> to memref<4xf16, WG>
      memref.store %v, %f[%c0] : memref<2xf32, WG>
      %r = memref.load %h[%c1] : memref<4xf16, WG>
      return %r : f16
    }"""
    # The upper half of 1.0f is 0x3F80, which is 1.875 as f16.
    assert run(program, 1.0).results == (1.875,)


@pytest.mark.parametrize(
    "kind, update, expected", [("addi", 5, 12), ("maxs", 5, 7), ("assign", 5, 5), ("xori", 5, 2)]
)
def test_atomics_combine_and_return_the_old_value(kind, update, expected):
    program = f"""
    func.func @f(%a: memref<1xi32>, %v: i32) -> i32 {{
      %c0 = arith.constant 0 : index
      %old = memref.atomic_rmw {kind} %v, %a[%c0] : (i32, memref<1xi32>) -> i32
      return %old : i32
    }}"""
    result = run(program, np.array([7], np.int32), update)
    assert result.results == (7,) and result.arrays[0][0] == expected


def test_transfer_reads_pad_what_is_outside():
    program = """
    func.func @f(%a: memref<3x5xf32>, %i: index, %j: index, %p: f32) -> vector<2x4xf32> {
      %v = vector.transfer_read %a[%i, %j], %p : memref<3x5xf32>, vector<2x4xf32>
      return %v : vector<2x4xf32>
    }"""
    a = np.arange(15, dtype=np.float32).reshape(3, 5)
    result = run(program, a, 2, 3, -1.0)
    assert result.races == ()
    np.testing.assert_array_equal(result.results[0], [[13, 14, -1, -1], [-1, -1, -1, -1]])


def test_transfer_reads_that_promise_to_stay_inside_are_held_to_it():
    program = """
    func.func @f(%a: memref<3x5xf32>, %j: index, %p: f32) -> vector<4xf32> {
      %v = vector.transfer_read %a[%j, %j], %p {in_bounds = [true]} : memref<3x5xf32>, vector<4xf32>
      return %v : vector<4xf32>
    }"""
    assert run(program, zeros(3, 5), 1, 0.0).races == ()
    assert set(run(program, zeros(3, 5), 2, 0.0).race_codes) == {"out-of-bounds"}


def test_contraction_is_a_matrix_product():
    program = """
    #a = affine_map<(m, n, k) -> (m, k)>
    #b = affine_map<(m, n, k) -> (n, k)>
    #c = affine_map<(m, n, k) -> (m, n)>
    func.func @f(%a: vector<2x3xf32>, %b: vector<4x3xf32>, %c: vector<2x4xf32>) -> vector<2x4xf32> {
      %r = vector.contract {indexing_maps = [#a, #b, #c], iterator_types = ["parallel", "parallel", "reduction"], kind = #vector.kind<add>} %a, %b, %c : vector<2x3xf32>, vector<4x3xf32> into vector<2x4xf32>
      return %r : vector<2x4xf32>
    }"""
    a, b, c = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(4, 3), np.ones((2, 4))
    np.testing.assert_array_equal(run(program, a, b, c).results[0], a @ b.T + c)


def test_shuffle_takes_another_lane():
    program = """
    func.func @f(%out: memref<32xi32>) {
      %t = gpu.thread_id x
      %v = arith.index_cast %t : index to i32
      %five = arith.constant 5 : i32
      %width = arith.constant 32 : i32
      %s, %ok = gpu.shuffle xor %v, %five, %width : i32
      memref.store %s, %out[%t] : memref<32xi32>
      return
    }"""
    result = run(program, np.zeros(32, np.int32), threads=32)
    np.testing.assert_array_equal(result.arrays[0], np.arange(32) ^ 5)


def test_thread_and_block_ids_are_linear_with_x_fastest():
    program = """
    func.func @f(%out: memref<2x3x4xindex>) {
      %x = gpu.thread_id x
      %y = gpu.thread_id y
      %b = gpu.block_id x
      %c100 = arith.constant 100 : index
      %c10 = arith.constant 10 : index
      %h = arith.muli %b, %c100 : index
      %m = arith.muli %y, %c10 : index
      %s = arith.addi %h, %m : index
      %v = arith.addi %s, %x : index
      memref.store %v, %out[%b, %y, %x] : memref<2x3x4xindex>
      return
    }"""
    result = run(program, np.zeros((2, 3, 4), np.int64), threads=(4, 3), grid=2)
    b, y, x = np.indices((2, 3, 4))
    np.testing.assert_array_equal(result.arrays[0], 100 * b + 10 * y + x)


# What cannot run ------------------------------------------------------------------------


def test_op_without_semantics_is_an_error_at_its_place():
    with pytest.raises(MachineError, match="unsupported-op") as caught:
        run('func.func @f() {\n"my.op"() : () -> ()\nreturn\n}')
    assert caught.value.diagnostic.place.line == 2


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((), "takes 1 arguments"),
        ((np.zeros(3, np.float32),), "shape"),
        ((np.zeros(4, np.int32),), "holds int32"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(UsageError, match=message):
        run("func.func @f(%a: memref<4xf32>) { return }", *arguments)


def test_endless_loop_without_ops_hits_the_step_limit():
    program = """
func.func @f(%always : i1) {
  scf.while : () -> () {
    scf.condition(%always)
  } do {
    scf.yield
  }
  return
}"""
    with pytest.raises(MachineError, match="step-limit"):
        run(program, True, step_limit=1000)


def test_endless_loop_hits_the_step_limit():
    program = """
    func.func @f() {
      %true = arith.constant true
      scf.while : () -> () {
        scf.condition(%true)
      } do {
        %x = arith.constant 1 : i32
        scf.yield
      }
      return
    }"""
    with pytest.raises(MachineError, match="step-limit"):
        run(program, step_limit=1000)


def test_arguments_are_not_changed_in_place():
    given = zeros(1)
    program = """
    func.func @f(%a: memref<1xf32>, %v: f32) {
      %c0 = arith.constant 0 : index
      memref.store %v, %a[%c0] : memref<1xf32>
      return
    }"""
    assert run(program, given, 5.0).arrays[0][0] == 5 and given[0] == 0


def test_a_loop_up_to_the_largest_index_ends():
    """The step after the last iteration passes 2^63 - 1."""
    program = """
    func.func @f(%out: memref<1xi64>) {
      %c0 = arith.constant 0 : index
      %one = arith.constant 1 : i64
      %lo = arith.constant 9223372036854775797 : index
      %hi = arith.constant 9223372036854775807 : index
      %st = arith.constant 4 : index
      scf.for %i = %lo to %hi step %st {
        %x = memref.load %out[%c0] : memref<1xi64>
        %y = arith.addi %x, %one : i64
        memref.store %y, %out[%c0] : memref<1xi64>
      }
      return
    }"""
    result = run(program, np.zeros(1, np.int64), step_limit=1000)
    assert result.arrays[0][0] == 3


PASSED_BY_VALUE = """
llvm.func @put(%q: !llvm.ptr {{llvm.byval = !llvm.struct<(i32, i32)>}}, %v: i32) -> i32 {{
  llvm.store %v, %q : i32, !llvm.ptr
  %w = llvm.load %q : !llvm.ptr -> i32
  llvm.return %w : i32
}}
llvm.func @k(%p: !llvm.ptr<1>, %q: !llvm.ptr{given}) attributes {{nvvm.kernel}} {{
  %t = nvvm.read.ptx.sreg.tid.x : i32
  %o = llvm.load %q : !llvm.ptr -> i32
  llvm.store %t, %q : i32, !llvm.ptr
  %u = llvm.call @put(%q, %o) : (!llvm.ptr, i32) -> i32
  %v = llvm.load %q : !llvm.ptr -> i32
  %s = llvm.add %u, %v : i32
  %a = llvm.getelementptr %p[%t] : (!llvm.ptr<1>, i32) -> !llvm.ptr<1>, i32
  llvm.store %s, %a : i32, !llvm.ptr<1>
  llvm.return
}}"""


@pytest.mark.parametrize("given", [" {llvm.byval = !llvm.struct<(i32, i32)>}", ""])
def test_each_thread_has_a_copy_of_what_is_passed_by_value(given):
    """In the kernel, and in a callee, whose stores its caller does not see; else they race."""
    passed, out = np.array([100, 7], np.int32), np.zeros(64, np.int32)
    result = machine.run(parse(PASSED_BY_VALUE.format(given=given)), "k", [out, passed], threads=64)
    if not given:
        assert result.race_codes == {"missing-barrier"}
        return
    assert result.race_codes == frozenset()
    np.testing.assert_array_equal(result.arrays[0], 100 + np.arange(64))
    np.testing.assert_array_equal(result.arrays[1], [100, 7])


MASK = """
func.func @f(%src: memref<8xf32>, %dst: memref<8xf32>, %n: index) {
  %c0 = arith.constant 0 : index
  %z = arith.constant 9.0 : f32
  %ones = arith.constant dense<1.0> : vector<8xf32>
  %mask = vector.create_mask %n : vector<8xi1>
  %v = vector.mask %mask PASSTHRU{
    vector.transfer_read %src[%c0], %z {in_bounds = [true]} : memref<8xf32>, vector<8xf32>
  } : vector<8xi1> -> vector<8xf32>
  vector.mask %mask {
    vector.transfer_write %v, %dst[%c0] {in_bounds = [true]} : vector<8xf32>, memref<8xf32>
  } : vector<8xi1>
  vector.store %v, %src[%c0] : memref<8xf32>, vector<8xf32>
  return
}"""


@pytest.mark.parametrize(("passthru", "rest"), [("", 9), (", %ones ", 1)])
def test_masked_transfers_leave_alone_what_the_mask_leaves_out(passthru, rest):
    source = np.arange(2, 10, dtype=np.float32)
    text = MASK.replace("PASSTHRU", passthru)
    result = run(text, source, np.zeros(8, np.float32), 3, threads=1)
    np.testing.assert_array_equal(result.arrays[1], [2, 3, 4, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(result.arrays[0], [2, 3, 4, *[rest] * 5])


def test_other_ops_in_a_mask_are_refused():
    text = MASK.replace(
        "vector.transfer_read %src[%c0], %z {in_bounds = [true]} : memref<8xf32>, vector<8xf32>",
        "vector.outerproduct %ones, %z : vector<8xf32>, f32",
    )
    with pytest.raises(MachineError, match="outerproduct"):
        run(
            text.replace("PASSTHRU", ""),
            np.zeros(8, np.float32),
            np.zeros(8, np.float32),
            3,
            threads=1,
        )


@pytest.mark.parametrize("first", [0, 2, 6])
@pytest.mark.parametrize("alike", [True, False])
def test_positions_beyond_a_vector_are_poison_here_0_and_nothing(first: int, alike: bool) -> None:
    """Each of four threads, or all, take entry `first` + id of four, and put 9 there."""
    text = f"""
func.func @f(%out: memref<4x5xf32>, %first: index) {{
  %t = gpu.thread_id x
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %nine = arith.constant 9.0 : f32
  %v = arith.constant dense<[1.0, 2.0, 3.0, 4.0]> : vector<4xf32>
  %at = arith.addi %first, {"%c0" if alike else "%t"} : index
  %x = vector.extract %v[%at] : f32 from vector<4xf32>
  %w = vector.insert %nine, %v [%at] : f32 into vector<4xf32>
  memref.store %x, %out[%t, %c0] : memref<4x5xf32>
  vector.store %w, %out[%t, %c1] : memref<4x5xf32>, vector<4xf32>
  return
}}"""
    (rows,) = run(text, zeros(4, 5), first, threads=4).arrays[:1]
    assert rows is not None
    for thread, (taken, *put) in enumerate(rows):
        at = first + (0 if alike else thread)
        assert taken == (at + 1 if at < 4 else 0)
        assert put == [9 if n == at else n + 1 for n in range(4)]
