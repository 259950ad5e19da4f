"""Twice the input takes at most 2.15 times the work, in every pass, and for the report after them.

Work is the number of calls of Python functions and of the bindings, which is the same in every run;
bench/expand.py and bench/compile_time.py have the times. Calls that do not depend on the size are
taken off by measuring three sizes: (f(4n) - f(2n)) / (f(2n) - f(n)) is 2 for what is linear and 4
for what is quadratic, and 2.15 times the time for doubling the largest size leaves 2.3 for it.

Covers: pipeliner/plan/tensor_tiles.py, pipeliner/dependence/surroundings.py, pipeliner/dependence/privatise.py, checker/sites.py, checker/footprints.py, checker/partings.py, reports/limits.py, waits/dynamic.py, pipeliner/expand/write/carried_ring.py, pipeliner/plan/ping_pong_plan.py, pipeliner/expand/write/write_roles.py, checker/phases/global_memory.py, pipeliner/schedule/schedule_pass.py, lowering/nvvm/to_nvvm.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from functools import cache, partial
from itertools import pairwise
from typing import Any

import pytest

from helpers.machine_programs import parse
from helpers.many_stores import stored_loop, stores_kernel
from helpers.map_kernels import given_text
from helpers.paths import ROOT
from helpers.tensor_loops import Box, TensorLoop
from mlir_async_pipe import pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import Operation, Value
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.pipeliner.expand.write import carried_ring
from mlir_async_pipe.reports.limits import record_outlines
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session

sys.path.insert(0, str(ROOT / "examples"))
from generate_gemm import Gemm

pytestmark = pytest.mark.slow

EXAMPLES = ROOT / "examples"
PASSES = (
    "async-pipe-normalise",
    "async-pipe-schedule",
    "async-pipe-expand",
    "async-pipe-count-waits",
    "async-pipe-simplify-waits",
    "async-pipe-drop-drains",
    "async-pipe-barriers",
    "async-pipe-drop-barriers",
    "async-pipe-check",
)
OUTLINES = "outlines"
STEPS = (*PASSES, OUTLINES)
WORKGROUP = "memref<64xf32, #gpu.address_space<workgroup>>"


def kernel(attributions: int, body: str) -> str:
    buffers = ", ".join(f"%S{n} : {WORKGROUP}" for n in range(attributions))
    return f"""
gpu.module @m {{
  gpu.func @f(%A: memref<4096xf32> {{llvm.noalias}}, %C: memref<4096xf32> {{llvm.noalias}})
      workgroup({buffers}) kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c1 = arith.constant 1 : index
    %c64 = arith.constant 64 : index
    %c16 = arith.constant 16 : index
    %one = arith.constant 1.0 : f32
    %x = gpu.thread_id x
    %last = arith.constant 63 : index
    %other = arith.subi %last, %x : index
    {body}
    gpu.return
  }}
}}"""


def loop(statements: int = 1, buffer: int = 0) -> str:
    sums = "\n".join(f"%v{n + 1} = arith.addf %v{n}, %one : f32" for n in range(statements))
    return f"""
    scf.for %i = %c0 to %c16 step %c1 {{
      %o = arith.muli %i, %c64 : index
      %at = arith.addi %o, %x : index
      %v = memref.load %A[%at] : memref<4096xf32>
      memref.store %v, %S{buffer}[%x] : {WORKGROUP}
      gpu.barrier
      %v0 = memref.load %S{buffer}[%other] : {WORKGROUP}
      {sums}
      memref.store %v{statements}, %C[%at] : memref<4096xf32>
      gpu.barrier
    }} {{async_pipe.num_stages = 3 : i64}}"""


def different_loop(number: int) -> str:
    """A loop that has the structure of no other one."""
    own = f"%own = arith.constant {number} : index\n      %o = arith.muli"
    return loop().replace("%o = arith.muli", own)


def nest(depth: int) -> str:
    """A loop of copies under `depth` loops."""
    opened = "\n".join(f"scf.for %n{n} = %c0 to %c16 step %c1 {{" for n in range(depth))
    return opened + loop() + "}" * depth


def guarded_store(number: int) -> str:
    """A store by some threads, as at the edges of a matrix."""
    return f"""
    %row{number} = arith.constant {64 * number} : index
    %bound{number} = arith.constant {number % 63 + 1} : index
    %place{number} = arith.addi %row{number}, %x : index
    %inside{number} = arith.cmpi ult, %x, %bound{number} : index
    scf.if %inside{number} {{
      memref.store %one, %D[%place{number}] : memref<8192xf32>
    }}"""


def stores_after_a_loop(stores: int) -> str:
    text = kernel(1, loop() + "".join(map(guarded_store, range(stores))))
    return text.replace("(%A:", "(%D: memref<8192xf32> {llvm.noalias}, %A:")


# What grows, and the size from which on.
SHAPES: dict[str, tuple[Callable[[int], str], int]] = {
    "loops": (lambda n: kernel(1, loop() * n), 15),
    "different-loops": (lambda n: kernel(1, "".join(map(different_loop, range(n)))), 15),
    "loops-with-buffers": (lambda n: kernel(n, "".join(loop(1, k) for k in range(n))), 10),
    "statements": (lambda n: kernel(1, loop(n)), 25),
    "statements-of-equal-loops": (lambda n: kernel(1, loop(n) * 2), 25),
    "stores": (stores_after_a_loop, 15),
    "nest": (lambda n: kernel(1, nest(n)), 2),
}


def run(name: str, module: ir.Module, session: Session) -> None:
    if name == OUTLINES:
        record_outlines(module, session)
    else:
        found = passes.find(name)
        found.run(module.operation, found.options(), session)


def calls_in(work: Callable[[], object]) -> int:
    """How many functions are called while it runs."""
    counted = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


@cache
def calls(shape: str, size: int) -> dict[str, int]:
    """The number of calls in each step over a module of that size."""
    counted = dict.fromkeys(STEPS, 0)
    build, _ = SHAPES[shape]
    with new_context(), ir.Location.unknown():
        module = ir.Module.parse(build(size))
        session = Session()
        for name in STEPS:
            counted[name] = calls_in(partial(run, name, module, session))
    return counted


def stores_of_rows(rows: int) -> str:
    """Stores at (64 block + x + 16 i) * n + j, with n of the launch: nobody knows which of them meet."""
    text = "".join(
        f"""
    %apart{i} = arith.constant {16 * i} : index
    %row{i} = arith.addi %mine, %apart{i} : index
    %begin{i} = arith.muli %row{i}, %n : index
    %next{i} = arith.addi %begin{i}, %c1 : index
    memref.store %one, %D[%begin{i}] : memref<?xf32>
    memref.store %one, %D[%next{i}] : memref<?xf32>"""
        for i in range(rows)
    )
    block = """%b = gpu.block_id x
    %first = arith.muli %b, %c64 : index
    %mine = arith.addi %first, %x : index"""
    text = kernel(1, block + loop() + text)
    return text.replace("(%A:", "(%n: index, %D: memref<?xf32> {llvm.noalias}, %A:")


def test_stores_of_rows_that_nobody_can_compare_grow_with_the_rows() -> None:
    def calls_of(rows: int) -> int:
        with new_context():
            module = ir.Module.parse(stores_of_rows(rows))
            return calls_in(partial(run, "async-pipe-check", module, Session()))

    calls_of(1)
    one, two, four = (calls_of(8 * times) for times in (1, 2, 4))
    assert (four - two) / (two - one) <= 2.3, (one, two, four)


def loops_of_blocks(loops: int) -> str:
    """Loops one after the other, each of which commits one group or two in an iteration."""
    token = "!nvgpu.device.async.token"
    group = "nvgpu.device_async_create_group {async_pipe.empty}"
    lines = [f"%t = {group}", f"cf.br ^h0(%t : {token})"]
    for n in range(loops):
        lines += [
            f"^h{n}(%x{n}: {token}):",
            f"%g{n} = {group}",
            f"%p{n} = arith.cmpi eq, %i, %j : index",
            f"cf.cond_br %p{n}, ^a{n}, ^b{n}",
            f"^a{n}:",
            f"%k{n} = {group}",
            f"cf.br ^b{n}",
            f"^b{n}:",
            f"nvgpu.device_async_wait %x{n}",
            f"%q{n} = arith.cmpi ult, %i, %j : index",
            f"cf.cond_br %q{n}, ^h{n}(%g{n} : {token}), ^h{n + 1}(%g{n} : {token})",
        ]
    text = "\n".join([*lines, f"^h{loops}(%last: {token}):", "return"])
    return f"func.func @f(%i: index, %j: index) {{\n{text}\n}}"


@pytest.mark.parametrize("mode", ("static", "dynamic"))
def test_counts_in_graphs_of_blocks_grow_with_the_blocks(mode: str) -> None:
    def calls_of(loops: int) -> int:
        with new_context():
            module = ir.Module.parse(loops_of_blocks(loops))
            found = passes.find("async-pipe-count-waits")
            options, session = found.options(mode=mode), Session(witnesses=False)
            return calls_in(lambda: found.run(module.operation, options, session))

    calls_of(1)
    one, two, four = (calls_of(8 * times) for times in (1, 2, 4))
    assert (four - two) / (two - one) <= 2.3, (one, two, four)


TENSOR_MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<8x32xf32, 3>, swizzle = none, l2promo = none, "
    "oob = zero, interleave = none>"
)
BARRIERS = "!nvgpu.mbarrier.group<memorySpace = #gpu.address_space<workgroup>>"
TILE = "memref<8x32xf32, #gpu.address_space<workgroup>>"


def tensor_loops(loops: int) -> str:
    """Loops of tensor copies, each with an mbarrier and a tile of its own."""
    made = "".join(
        f"""
  %b{n} = memref.alloc() : {TILE}
  %full{n} = nvgpu.mbarrier.create -> {BARRIERS}
  nvgpu.mbarrier.init %full{n}[%c0], %c1, predicate = %leader : {BARRIERS}"""
        for n in range(loops)
    )
    written = "".join(
        f"""
  %r{n} = scf.for %i = %c0 to %n step %c1 iter_args(%phase = %false) -> (i1) {{
    nvgpu.mbarrier.arrive.expect_tx %full{n}[%c0], %bytes, predicate = %leader : {BARRIERS}
    nvgpu.tma.async.load %map[%i, %c0], %full{n}[%c0] to %b{n}, predicate = %leader
        : {TENSOR_MAP}, {BARRIERS} -> {TILE}
    nvgpu.mbarrier.try_wait.parity %full{n}[%c0], %phase, %bytes : {BARRIERS}
    %v = memref.load %b{n}[%c0, %t] : {TILE}
    memref.store %v, %C[%i, %t] : memref<?x32xf32>
    gpu.barrier
    %flip = arith.xori %phase, %true : i1
    scf.yield %flip : i1
  }} {{async_pipe.num_stages = 3 : i64, async_pipe.independent}}"""
        for n in range(loops)
    )
    return f"""
func.func @f(%pointer: !llvm.ptr, %C: memref<?x32xf32>, %n: index)
    attributes {{gpu.kernel, gpu.known_block_size = array<i32: 32, 1, 1>}} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %bytes = arith.constant 1024 : index
  %false = arith.constant false
  %true = arith.constant true
  %t = gpu.thread_id x
  %map = builtin.unrealized_conversion_cast %pointer : !llvm.ptr to {TENSOR_MAP}
  %leader = arith.cmpi eq, %t, %c0 : index{made}
  nvvm.fence.mbarrier.init
  gpu.barrier{written}
  return
}}"""


def test_twice_the_loops_of_tensor_copies_take_twice_the_calls() -> None:
    def calls_of(loops: int) -> int:
        with new_context():
            module, session = ir.Module.parse(tensor_loops(loops)), Session()

            def run_both() -> None:
                for name in ("async-pipe-normalise", "async-pipe-schedule", "async-pipe-expand"):
                    run(name, module, session)

            return calls_in(run_both)

    calls_of(1)
    one, two, four = (calls_of(10 * times) for times in (1, 2, 4))
    assert (four - two) / (two - one) <= 2.3, (one, two, four)


def stored_rows(stores: int) -> str:
    """Copies and tensor stores by maps that the kernel is given, each waited for."""
    put = "nvgpu.tma.async.store %row to %b[%c0], predicate = %leader : "
    text = given_text({"read y": "%w = arith.addf %v, %v : f32"})
    (line,) = (line for line in text.split("\n") if put in line)
    waited = "nvvm.cp.async.bulk.commit.group\nnvvm.cp.async.bulk.wait_group 0"
    return text.replace(line, f"{line}\n{waited}\n" * stores + line)


def test_twice_the_tensor_stores_that_may_meet_a_copy_take_twice_the_calls() -> None:
    def calls_of(stores: int) -> int:
        with new_context():
            module, session = ir.Module.parse(stored_rows(stores)), Session()
            return calls_in(lambda: run("async-pipe-check", module, session))

    calls_of(1)
    one, two, four = (calls_of(20 * times) for times in (1, 2, 4))
    assert (four - two) / (two - one) <= 2.3, (one, two, four)


def in_turn(first: str = "", last: str = "", after: str = "", carried: int = 0) -> str:
    """Two groups in turn: a tile begins with arithmetic that gives `%first`, and ends with `last`."""
    numbers, types = range(carried), ", index" * carried
    starts, ends = (
        ", ".join(("", *(form.format(k) for k in numbers))) for form in ("%a{} = %i0", "%d{}")
    )
    made = "".join(f"%d{k} = arith.addi %a{k}, %i1 : index\n" for k in numbers)
    changes = {
        "%end = scf.for": f"%end:{carried + 1} = scf.for",
        "%phase0 = %false) -> (i1)": f"%phase0 = %false{starts}) -> (i1{types})",
        "%first = arith.muli %e, %i4 : index": first or "%first = arith.muli %e, %i4 : index",
        "scf.yield %r#1 : i1": f"{last}{made}scf.yield %r#1{ends} : i1{types}",
        "return": f"{after}return",
    }
    text = PING_PONG.text()
    for old, new in changes.items():
        assert text.count(old) == 1
        text = text.replace(old, new)
    return text


def chain(op: str, values: list[str]) -> str:
    """%first, made of values one after the other."""
    names = ["%e", *(f"%q{k}" for k in range(len(values) - 1)), "%first"]
    return "".join(
        f"{made} = arith.{op} {before}, {value} : index\n"
        for (before, made), value in zip(pairwise(names), values, strict=True)
    )


PING_PONG = TensorLoop((Box(2, 32),), roles="ping-pong", static=True, executions=4)
TURNS: dict[str, Callable[[int], str]] = {
    "numbers of a tile": lambda n: in_turn(first=chain("addi", ["%i1"] * n)),
    "stores of a tile": lambda n: in_turn(
        last="memref.store %zero, %out[%e, %t] : memref<?x64xf32>\n" * n
    ),
    "numbers after all tiles": lambda n: in_turn(
        after="".join(f"%z{k} = arith.addi %t, %i1 : index\n" for k in range(n))
    ),
    "numbers carried around": lambda n: in_turn(
        first=chain("xori", [f"%a{k}" for k in range(n)]), carried=n
    ),
}


@pytest.mark.parametrize("shape", TURNS)
def test_twice_the_tile_of_groups_in_turn_takes_twice_the_calls(shape: str) -> None:
    def calls_of(size: int) -> int:
        with new_context():
            module, session = parse(TURNS[shape](size)), Session()

            def run_both() -> None:
                for name in ("async-pipe-normalise", "async-pipe-schedule", "async-pipe-expand"):
                    run(name, module, session)

            counted = calls_in(run_both)
            assert "nvvm.barrier.arrive" in str(module)
            return counted

    calls_of(1)
    one, two, four = (calls_of(10 * times) for times in (1, 2, 4))
    assert (four - two) / (two - one) <= 2.3, (one, two, four)


STORED: dict[str, Callable[[int], str]] = {
    "loops": lambda n: stores_kernel(n, "".join(stored_loop(range(k, k + 1)) for k in range(n))),
    "stores": lambda n: stores_kernel(n, stored_loop(range(n))),
    "statements": lambda n: stores_kernel(1, stored_loop(range(1), n)),
    "stores-and-statements": lambda n: stores_kernel(n, stored_loop(range(n), n)),
}


@pytest.mark.parametrize("shape", STORED)
def test_twice_the_tensor_stores_take_twice_the_calls(shape: str) -> None:
    def calls_of(size: int) -> int:
        with new_context():
            module, session = ir.Module.parse(STORED[shape](size)), Session()
            return calls_in(partial(run, "async-pipe-stores", module, session))

    calls_of(1)
    one, two, four = (calls_of(10 * times) for times in (1, 2, 4))
    assert (four - two) / (two - one) <= 2.3, (one, two, four)


def test_an_op_around_stored_loops_is_written_again_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the slots of all loops in it, as each of these is with its own: what it carries counts in no call."""
    carried: list[int] = []
    written = carried_ring.again

    def counted(op: Operation, operands: list[Value], *rest: Any) -> Operation:
        if op.name == "scf.for":
            carried.append(len(operands) - 3)
        return written(op, operands, *rest)

    monkeypatch.setattr(carried_ring, "again", counted)
    with new_context():
        module = ir.Module.parse(STORED["loops"](5))
        run("async-pipe-stores", module, Session())
        assert module.operation.verify()
    assert sorted(carried) == [1, 1, 1, 1, 1, 5]


def test_twice_the_stages_take_twice_the_calls_of_the_check() -> None:
    """Copies of the prologue conflict like those of the loop: after one iteration the state is the one
    before it, however many slots there are. (It was 4 times the calls, and 6 for more stages.)"""
    kernels = (EXAMPLES / "small_kernels.mlir").read_text()

    def calls_of(stages: int) -> int:
        with new_context():
            text = re.sub(r"num_stages = \d+", f"num_stages = {stages}", kernels)
            module = ir.Module.parse(text)
            found = passes.find("async-pipe")
            target = Target.parse("nvvm:sm_80")
            options = found.options(check="none")
            found.run(module.operation, options, Session(target=target))
            session = Session(target=target)
            counted = calls_in(partial(run, "async-pipe-check", module, session))
            assert all(not (entry.unsafe or entry.unknown) for entry in session.records["checks"])
            return counted

    calls_of(3)
    one, two, four = (calls_of(8 * times) for times in (1, 2, 4))
    assert (four - two) / (two - one) <= 2.3, (one, two, four)


def functions_of(bodies: list[str]) -> str:
    """A module of a function for each body."""
    made = []
    for number, body in enumerate(bodies):
        whole = kernel(1, body).replace("@f", f"@f{number}")
        made.append(whole[whole.index("gpu.func") : whole.rindex("}")])
    return "gpu.module @m {\n" + "\n".join(made) + "}"


FUNCTIONS: dict[str, tuple[Callable[[int], str], int]] = {
    "equal": (lambda n: functions_of([loop()] * n), 15),
    "different": (lambda n: functions_of([different_loop(k) for k in range(n)]), 8),
    "without-loops": (lambda n: functions_of([loop(), loop(), *[""] * n]), 15),
    "two-of-many-ops": (lambda n: functions_of([loop(n)] * 2), 50),
    "two-of-equal-loops": (lambda n: functions_of([loop() * n] * 2), 20),
}
# Loops that share a buffer share its versions; a square in their accesses hides in the sum.
FUNCTION_GROWTH = {"two-of-equal-loops": 2.05}


@pytest.mark.parametrize("shape", FUNCTIONS)
def test_twice_the_functions_take_twice_the_calls(shape: str) -> None:
    build, size = FUNCTIONS[shape]

    def calls_of(functions: int) -> int:
        with new_context():
            module, session = ir.Module.parse(build(functions)), Session()
            run("async-pipe-schedule", module, session)
            return calls_in(partial(run, "async-pipe-expand", module, session))

    calls_of(1)
    one, two, four = (calls_of(size * times) for times in (1, 2, 4))
    allowed = FUNCTION_GROWTH.get(shape, 2.3)
    assert (four - two) / (two - one) <= allowed, (one, two, four)


def test_twice_the_products_take_twice_the_calls_of_the_lowering() -> None:
    """In a loop of 64, 128 and 256 products with their fragments and copies, down to LLVM."""
    target = Target.parse("nvvm:sm_80")

    def calls_of(depth: int) -> int:
        with new_context():
            made = Gemm(tile_m=64, tile_n=64, tile_k=depth, warps=(1, 1), stages=2)
            module = ir.Module.parse(made.module())
            pipeline(module, target=target)
            return calls_in(partial(lower, module, target=target, emit="llvm"))

    calls_of(32)
    one, two, four = map(calls_of, (32, 64, 128))
    assert (four - two) / (two - one) <= 2.3, (one, two, four)


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("shape", SHAPES)
def test_twice_the_input_takes_twice_the_calls(shape: str, name: str) -> None:
    _, size = SHAPES[shape]
    calls(shape, 1)  # Imports the passes.
    one, two, four = (calls(shape, size * times)[name] for times in (1, 2, 4))
    assert two > one, "the shape does not reach the pass"
    assert (four - two) / (two - one) <= 2.3, (one, two, four)
