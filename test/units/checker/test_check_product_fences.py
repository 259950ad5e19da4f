"""Products add to registers that their threads touched only after a fence, for the checker and for the
machine.

Covers: checker/phases/registers_in_flight.py, machine/launch.py, vocabulary/products.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.check_harness import check_text
from helpers.machine_programs import parse, run
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.vocabulary.products import is_register_of_sums

SUMS = "!llvm.struct<(f32, f32, f32, f32)>"
FENCE = "nvvm.wgmma.fence.aligned"
END = """nvvm.wgmma.commit.group.sync.aligned
  nvvm.wgmma.wait.group.sync.aligned 0"""


def product(result: str, sums: str, k: str = "<m = 64, n = 8, k = 16>", kind: str = "f16") -> str:
    return (
        f"{result} = nvvm.wgmma.mma_async %d, %d, {sums}, {k}, D[<f32>, <one>], "
        f"A[<{kind}>, <one>, <row>], B[<{kind}>, <one>, <col>] : {SUMS} -> {SUMS}"
    )


def program(*lines: str) -> str:
    """A kernel whose products read a tile of workgroup memory, zeros of all threads."""
    body = "\n  ".join(lines)
    return f"""
func.func @f(%out: memref<128xf32>) attributes {{gpu.known_block_size = array<i32: 128, 1, 1>}} {{
  %tile = memref.alloc() : memref<4096xf16, #gpu.address_space<workgroup>>
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c32 = arith.constant 32 : index
  %half = arith.constant dense<0.0> : vector<32xf16>
  %one = arith.constant 1.0 : f32
  %low = arith.constant 262143 : i64
  %four = arith.constant 4 : i64
  %layout = arith.constant 68720001024 : i64
  %t = gpu.thread_id x
  %at = arith.muli %t, %c32 : index
  vector.store %half, %tile[%at] : memref<4096xf16, #gpu.address_space<workgroup>>, vector<32xf16>
  nvvm.fence.proxy {{kind = #nvvm.proxy_kind<async.shared>, space = #nvvm.shared_space<cta>}}
  gpu.barrier
  %p = memref.extract_aligned_pointer_as_index %tile : memref<4096xf16, #gpu.address_space<workgroup>> -> index
  %i = arith.index_cast %p : index to i64
  %low18 = arith.andi %i, %low : i64
  %shifted = arith.shrui %low18, %four : i64
  %d = arith.ori %shifted, %layout : i64
  %none = llvm.mlir.undef : {SUMS}
  %s0 = llvm.insertvalue %one, %none[0] : {SUMS}
  %s1 = llvm.insertvalue %one, %s0[1] : {SUMS}
  %s2 = llvm.insertvalue %one, %s1[2] : {SUMS}
  %sums = llvm.insertvalue %one, %s2[3] : {SUMS}
  {body}
  return
}}"""


def printed(sums: str) -> str:
    return f"""%v = llvm.extractvalue {sums}[0] : {SUMS}
  memref.store %v, %out[%t] : memref<128xf32>"""


ONE = product("%x", "%sums")
READ_AND_ADDED = (FENCE, ONE, END, f"%r = llvm.extractvalue %x[0] : {SUMS}")
WRITTEN = f"%y = llvm.insertvalue %r, %x[1] : {SUMS}"
LOOP = f"""%y = scf.for %k = %c0 to %c2 step %c1 iter_args(%s = %sums) -> {SUMS} {{
  BEFORE
  {product("%z", "%s")}
  {END}
  AFTER
  scf.yield %z : {SUMS}
  }}"""
RIGHT = {
    "fence": (FENCE, ONE, END, printed("%x")),
    "one fence for a chain": (FENCE, ONE, product("%y", "%x"), END, printed("%y")),
    "a chain over groups": (FENCE, ONE, END, product("%y", "%x"), END, printed("%y")),
    "fence after a read": (*READ_AND_ADDED, FENCE, product("%y", "%x"), END, printed("%y")),
    "fence in the loop": (LOOP.replace("BEFORE", FENCE).replace("AFTER", ""), printed("%y")),
    "fence before the loop": (
        FENCE,
        LOOP.replace("BEFORE", "").replace("AFTER", ""),
        printed("%y"),
    ),
    "two sums from one zero": (
        f"%zero = llvm.mlir.zero : {SUMS}",
        f"%y:2 = scf.for %k = %c0 to %c2 step %c1 iter_args(%a = %zero, %b = %zero) -> ({SUMS}, {SUMS}) {{",
        FENCE,
        product("%e", "%a"),
        product("%g", "%b"),
        END,
        f"scf.yield %e, %g : {SUMS}, {SUMS}\n  }}",
    ),
    "nothing was written": (FENCE, product("%x", "%none"), product("%y", "%none"), END),
    "fence between shapes": (
        FENCE,
        ONE,
        END,
        FENCE,
        product("%y", "%x", "<m = 64, n = 8, k = 32>", "e4m3"),
        END,
        printed("%y"),
    ),
}
TAKEN = tuple(f"%v{n} = llvm.extractvalue %x[{n}] : {SUMS}" for n in range(4))
PUT = tuple(
    f"%w{n} = llvm.insertvalue %v{n}, {f'%w{n - 1}' if n else '%none'}[{n}] : {SUMS}"
    for n in range(4)
)
# What is taken apart and put together again in another order stays where it is; what is computed does not.
RIGHT["taken apart and put together"] = (
    FENCE,
    ONE,
    *TAKEN,
    *PUT,
    product("%y", "%w3"),
    END,
    printed("%y"),
)
TAKEN_TWICE = f"%again = llvm.extractvalue %x[3] : {SUMS}"
WRONG = {
    "put among sums and read": (
        FENCE,
        ONE,
        END,
        *TAKEN,
        TAKEN_TWICE,
        "%sum = arith.addf %again, %one : f32",
        "memref.store %sum, %out[%t] : memref<128xf32>",
        *PUT,
        product("%y", "%w3"),
        END,
        printed("%y"),
    ),
    "put among sums as another number": (
        FENCE,
        ONE,
        END,
        *TAKEN,
        "%sum = arith.addf %v3, %one : f32",
        *PUT[:3],
        PUT[3].replace("%v3", "%sum"),
        product("%y", "%w3"),
        END,
        printed("%y"),
    ),
    "no fence": (ONE, END, printed("%x")),
    "fence before the sums are written": (
        FENCE,
        f"%w = llvm.insertvalue %one, %sums[0] : {SUMS}",
        product("%x", "%w"),
        END,
        printed("%x"),
    ),
    "fence after the product": (ONE, FENCE, END, printed("%x")),
    "read since": (*READ_AND_ADDED, product("%y", "%x"), END, printed("%y")),
    "written since": (*READ_AND_ADDED, WRITTEN, product("%z", "%y"), END, printed("%z")),
    "two products from one copy": (FENCE, ONE, product("%y", "%sums"), END, printed("%y")),
    "read in the loop": (FENCE, LOOP.replace("BEFORE", "").replace("AFTER", printed("%z"))),
    "another shape": (
        FENCE,
        ONE,
        END,
        product("%y", "%x", "<m = 64, n = 8, k = 32>", "e4m3"),
        END,
        printed("%y"),
    ),
    "half of the warps": (
        "%c64 = arith.constant 64 : index",
        "%some = arith.cmpi ult, %t, %c64 : index",
        f"scf.if %some {{\n  {FENCE}\n  }}",
        ONE,
        END,
        printed("%x"),
    ),
}


@pytest.mark.parametrize("name", RIGHT)
def test_registers_are_fenced(name):
    found = check_text(program(*RIGHT[name]), "nvvm:sm_90a")
    assert not found.unsafe and not found.unknown


@pytest.mark.parametrize("name", WRONG)
def test_registers_without_a_fence_are_named(name):
    found = check_text(program(*WRONG[name]), "nvvm:sm_90a")
    assert {code for code, _ in found.unsafe} == {"missing-register-fence"} and not found.unknown


def test_registers_that_were_read_may_be_those_of_the_next_sums():
    """Nobody says in which registers sums begin that hold nothing yet."""
    text = program(*READ_AND_ADDED, product("%y", "%none"), END)
    found = check_text(text, "nvvm:sm_90a")
    assert not found.unsafe and {code for code, _ in found.unknown} == {"missing-register-fence"}


def test_other_members_of_a_struct_are_no_sums():
    """A number beside sums in flight is written, and read."""
    both = f"!llvm.struct<({SUMS[len('!llvm.') :]}, f32)>"
    lines = (
        FENCE,
        ONE,
        f"%e = llvm.mlir.undef : {both}",
        f"%g = llvm.insertvalue %x, %e[0] : {both}",
        f"%h = llvm.insertvalue %one, %g[1] : {both}",
        f"%n = llvm.extractvalue %h[1] : {both}",
        f"%s = llvm.extractvalue %h[0] : {both}",
        product("%y", "%s"),
        "memref.store %n, %out[%t] : memref<128xf32>",
        END,
    )
    found = check_text(program(*lines), "nvvm:sm_90a")
    assert not found.unsafe and not found.unknown


@pytest.mark.parametrize("completion", ["eager", "late", "random:3"])
@pytest.mark.parametrize("name", [*RIGHT, *sorted(WRONG.keys() - {"two products from one copy"})])
def test_the_machine_says_the_same(name, completion):
    wrong = set() if name in RIGHT else {"missing-register-fence"}
    text = program(*(RIGHT | WRONG)[name])
    result = run(text, np.zeros(128, np.float32), threads=128, completion=completion)
    assert result.race_codes == wrong
    if "memref.store" in RIGHT.get(name, ("",))[-1]:
        assert (result.arrays[0] == 1).all()


def test_a_product_without_a_fence_adds_to_what_was_there_before():
    text = program(*WRONG["no fence"])
    late = run(text, np.zeros(128, np.float32), threads=128, completion="late")
    assert np.isnan(late.arrays[0]).all()


def test_each_fence_that_is_missing_is_reported() -> None:
    """Of products in a row without one the first is told: those after it lack no other."""
    read, write = "llvm.extractvalue", "llvm.insertvalue"
    found = check_text(
        program(
            ONE,
            END,
            f"%r = {read} %x[0] : {SUMS}",
            f"%y = {write} %r, %x[1] : {SUMS}",
            product("%z", "%y"),
            product("%u", "%z"),
            f"%s = {read} %u[0] : {SUMS}",
            END,
            printed("%u"),
        )
    )
    hazards = found.report.of("hazards")
    assert {hazard.verdict for hazard in hazards} == {"unsafe"}
    assert sorted((hazard.code, hazard.op.split(".")[-1]) for hazard in hazards) == [
        ("missing-register-fence", "mma_async"),
        ("missing-register-fence", "mma_async"),
        ("read-in-flight", "extractvalue"),
    ]


def test_what_was_put_among_sums_in_sight_is_that_value() -> None:
    """The paths of the checker have it as the value that was put, also where fields are not replaced before."""
    put = f"%w = llvm.insertvalue %one, %sums[0] : {SUMS}"
    taken = [f"%v = llvm.extractvalue %w[{n}] : {SUMS}".replace("%v", f"%v{n}") for n in (0, 1)]
    root = parse(program(put, *taken)).operation
    values = [op.results[0] for op in walk(root) if op.name == "llvm.extractvalue"]
    assert [is_register_of_sums(value) for value in values] == [False, False]
    other = parse(program(FENCE, ONE, END, f"%v = llvm.extractvalue %x[1] : {SUMS}")).operation
    (value,) = [op.results[0] for op in walk(other) if op.name == "llvm.extractvalue"]
    assert is_register_of_sums(value)
