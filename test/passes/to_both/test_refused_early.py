"""What no code can be made of is refused where it stands, before MLIR's conversions; the rest works.

Covers: lowering/scopes/known_types.py, vocabulary/pure_ops.py, bindings/back_end_child.py
"""

from __future__ import annotations

import numpy as np
import pytest

from helpers.machine_programs import parse
from mlir_async_pipe import bindings, machine
from mlir_async_pipe.bindings.back_end_child import plain
from mlir_async_pipe.chips.target import CHIPS, Target
from mlir_async_pipe.lowering.lower import lower
from mlir_async_pipe.lowering.nvvm import to_nvvm
from mlir_async_pipe.lowering.rocdl import to_rocdl
from mlir_async_pipe.session.diagnostics import AsyncPipeError, LoweringError, MachineError
from mlir_async_pipe.session.report import Session

MAP = (
    "!nvgpu.tensormap.descriptor<tensor = memref<64xf32, 3>, swizzle = none, l2promo = none, "
    "oob = zero, interleave = none>"
)
WG = "#gpu.address_space<workgroup>"
AMD = pytest.mark.skipif(
    not any(stack.name == "flydsl" for stack in bindings.installed()),
    reason="no AMDGPU back end: pip install flydsl",
)
BOTH = pytest.mark.parametrize("chip", ["sm_90a", "gfx942"])


def kernel(body: str, arguments: str = "", name: str = "@k", before: str = "") -> str:
    return f"""gpu.module @m {{
      {before}
      gpu.func {name}({arguments}) kernel attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
        {body}
        gpu.return
      }} }}"""


def lowered(text: str, chip: str) -> str:
    module = parse(text)
    session = Session(target=Target.of_chip(chip))
    if CHIPS[chip].lowering == "nvvm":
        to_nvvm.run(module.operation, to_nvvm.ToNvvmOptions(chip), session)
    else:
        to_rocdl.run(module.operation, to_rocdl.ToRocdlOptions(chip), session)
    return str(module)


def refused(text: str, chip: str) -> AsyncPipeError:
    with pytest.raises(LoweringError) as caught:
        lowered(text, chip)
    assert caught.value.diagnostic.place.line > 0
    return caught.value


ARGUMENTS = {
    "a tensor map": MAP,
    "mbarriers": f"!nvgpu.mbarrier.group<memorySpace = {WG}>",
    "a token": "!gpu.async.token",
    "a tuple": "tuple<f32, i32>",
    "nothing": "none",
    "a tensor": "tensor<4xf32>",
    "tf32": "tf32",
}


@BOTH
@pytest.mark.parametrize("name", ARGUMENTS)
def test_arguments_that_no_launch_can_hand_over(name: str, chip: str) -> None:
    error = refused(kernel("", f"%x: {ARGUMENTS[name]}"), chip)
    assert error.code == "argument-type"
    if name == "a tensor map":
        assert "!llvm.ptr" in str(error)


NUMBERS = ("i7", "index", "bf16", "f8E5M2", "vector<2x2xf32>", "complex<f32>")
OTHERS = (
    "memref<*xf32>",
    "!llvm.struct<(i32)>",
    "!llvm.ptr<1>",
    '!gpu.mma_matrix<16x16xf16, "AOp">',
)


@pytest.mark.parametrize("kind", [*NUMBERS, *OTHERS])
def test_arguments_that_it_can(kind: str) -> None:
    assert "llvm.func @k" in lowered(kernel("", f"%x: {kind}"), "sm_90a")


def test_the_machine_says_where_the_tensor_map_is() -> None:
    with pytest.raises(MachineError) as caught:
        machine.run(parse(kernel("", f"%x: {MAP}")), "k", [np.zeros(64, np.float32)])
    assert caught.value.code == "unsupported-type" and "!llvm.ptr" in str(caught.value)
    assert caught.value.diagnostic.place.line > 0


NARROW = {
    "extf": "%v = memref.load %a[%t] : memref<64xKIND>\n%w = arith.extf %v : KIND to f32",
    "truncf": "%z = arith.constant 1.0 : f32\n%w = arith.truncf %z : f32 to KIND",
    "addf": "%v = memref.load %a[%t] : memref<64xKIND>\n%w = arith.addf %v, %v : KIND",
    "cmpf": "%v = memref.load %a[%t] : memref<64xKIND>\n%w = arith.cmpf olt, %v, %v : KIND",
    "a vector": """%v = vector.load %a[%t] : memref<64xKIND>, vector<4xKIND>
      %w = arith.extf %v : vector<4xKIND> to vector<4xf32>""",
}
MOVED = {
    "loaded and stored": """%v = memref.load %a[%t] : memref<64xKIND>
      memref.store %v, %a[%t] : memref<64xKIND>""",
    "chosen": """%v = memref.load %a[%t] : memref<64xKIND>
      %one = arith.constant 1.0 : KIND
      %w = arith.select %c, %v, %one : KIND
      memref.store %w, %a[%t] : memref<64xKIND>""",
    "made of bits": """%b = arith.constant 1 : i8
      %w = arith.bitcast %b : i8 to KIND
      memref.store %w, %a[%t] : memref<64xKIND>""",
}


def narrow(body: str, kind: str) -> str:
    text = f"%t = gpu.thread_id x\n{body}"
    return kernel(text, "%a: memref<64xKIND>, %c: i1").replace("KIND", kind)


@BOTH
@pytest.mark.parametrize("kind", ["f8E4M3FN", "f8E5M2", "f4E2M1FN"])
@pytest.mark.parametrize("name", NARROW)
def test_arithmetic_of_floats_of_a_byte_is_refused(name: str, kind: str, chip: str) -> None:
    if name == "a vector" and kind == "f4E2M1FN":
        pytest.skip("a vector packs its elements, memory does not")
    assert refused(narrow(NARROW[name], kind), chip).code == "narrow-float"


@pytest.mark.parametrize("name", MOVED)
def test_floats_of_a_byte_are_moved(name: str) -> None:
    assert "arith" not in lowered(narrow(MOVED[name], "f8E5M2"), "sm_90a")


@BOTH
def test_vectors_of_scalable_length_are_refused(chip: str) -> None:
    body = """%t = gpu.thread_id x
      %v = vector.load %a[%t] : memref<64xf32>, vector<[4]xf32>"""
    assert refused(kernel(body, "%a: memref<64xf32>"), chip).code == "element-layout"


@BOTH
def test_maps_that_are_no_strides_are_refused_where_they_are(chip: str) -> None:
    kind = "memref<4xf32, affine_map<(i) -> (i mod 2)>>"
    assert refused(kernel("", f"%a: {kind}"), chip).code == "element-layout"


WITH_ATTRIBUTION = f"""gpu.func @k(%o: memref<64xf32>) workgroup(%s: memref<64xf32, {WG}>) kernel
    attributes {{known_block_size = array<i32: 64, 1, 1>}} {{
  %t = gpu.thread_id x
  %v = memref.load %s[%t] : memref<64xf32, {WG}>
  memref.store %v, %o[%t] : memref<64xf32>
  gpu.return
}}"""


@BOTH
@pytest.mark.parametrize(
    "symbol",
    [f'memref.global "private" @NAME : memref<64xf32, {WG}>', "func.func @NAME() { return }"],
)
def test_a_symbol_that_mlir_would_make_too(symbol: str, chip: str) -> None:
    taken = f"gpu.module @m {{\n{symbol.replace('NAME', '__wg_k_0')}\n{WITH_ATTRIBUTION} }}"
    error = refused(taken, chip)
    assert error.code == "symbol-taken" and error.diagnostic.place.line == 2
    lowered(taken.replace("__wg_k_0", "__wg_k_1"), chip)


@pytest.mark.parametrize("name", ['@"my.kernel-1"', '@"my.kernel"', '@"1k"', "@_"])
def test_names_that_ptx_does_not_know(name: str) -> None:
    assert refused(kernel("", name=name), "sm_90a").code == "symbol-name"
    lowered(kernel("", name=name), "gfx942")


@pytest.mark.parametrize("name", ["@k", "@_k", "@k$1", "@__k"])
def test_names_that_it_knows(name: str) -> None:
    lowered(kernel("", name=name), "sm_90a")


@pytest.mark.slow
def test_names_of_local_variables_are_changed() -> None:
    body = f"""%t = gpu.thread_id x
      %c0 = arith.constant 0 : index
      %x = memref.load %o[%t] : memref<64xf32>
      %s = memref.get_global @"a-b" : memref<64xf32, {WG}>
      %d0 = memref.get_global @"a.b" : memref<0xf32, {WG}>
      %d = memref.reinterpret_cast %d0 to offset: [0], sizes: [64], strides: [1]
        : memref<0xf32, {WG}> to memref<64xf32, {WG}>
      memref.store %x, %s[%t] : memref<64xf32, {WG}>
      memref.store %x, %d[%t] : memref<64xf32, {WG}>
      gpu.barrier
      %v = memref.load %s[%c0] : memref<64xf32, {WG}>
      %w = memref.load %d[%c0] : memref<64xf32, {WG}>
      %y = arith.addf %v, %w : f32
      memref.store %y, %o[%t] : memref<64xf32>"""
    globals_ = f"""memref.global "private" @"a-b" : memref<64xf32, {WG}>
      memref.global "private" @"a.b" : memref<0xf32, {WG}>"""
    text = kernel(body, "%o: memref<64xf32>", before=globals_)
    code = lower(parse(text), target=Target.of_chip("sm_90a"), emit="ptx").text
    assert ".extern .shared .align 128 .b8 __dynamic_shmem__[];" in code
    assert '"' not in code and "a-b" not in code and "a.b" not in code


NESTED = "module { module @inner { KERNEL } }"
ADDS = kernel(
    """%t = gpu.thread_id x
      %v = memref.load %o[%t] : memref<64xf32>
      %w = arith.addf %v, %v : f32
      memref.store %w, %o[%t] : memref<64xf32>""",
    "%o: memref<64xf32>",
)


@pytest.mark.slow
def test_a_gpu_module_in_a_module_of_the_module_becomes_ptx() -> None:
    text = NESTED.replace("KERNEL", ADDS)
    code = lower(parse(text), target=Target.of_chip("sm_90a"), emit="ptx")
    assert ".entry k(" in code.text and [kernel.name for kernel in code.kernels] == ["k"]


@AMD
@pytest.mark.slow
@pytest.mark.parametrize("emit", ["isa", "llvm"])
def test_a_gpu_module_in_a_module_of_the_module_becomes_isa(emit: str) -> None:
    text = NESTED.replace("KERNEL", ADDS)
    code = lower(parse(text), target=Target.of_chip("gfx942"), emit=emit)
    assert {"isa": "amdhsa_kernel k", "llvm": "llvm.func @k("}[emit] in code.text


COMPLEX = """%t = gpu.thread_id x
  %v = memref.load %o[%t] : memref<64xcomplex<f32>>
  %w = complex.mul %v, %v : complex<f32>
  %x = complex.div %w, %v : complex<f32>
  memref.store %x, %o[%t] : memref<64xcomplex<f32>>"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("chip", "emit"), [("sm_90a", "ptx"), pytest.param("gfx942", "isa", marks=AMD)]
)
def test_complex_numbers_become_code(chip: str, emit: str) -> None:
    text = kernel(COMPLEX, "%o: memref<64xcomplex<f32>>")
    code = lower(parse(text), target=Target.of_chip(chip), emit=emit).text
    assert {"ptx": "mul.rn.f32", "isa": "v_mul_f32"}[emit] in code


def test_what_mlir_says_of_an_illegal_op_is_reported_in_short() -> None:
    raw = "failed to legalize operation 'gpu.printf' that was explicitly marked illegal: \"gpu…"
    assert plain(raw) == "MLIR's conversions cannot lower 'gpu.printf'"
    assert plain(" anything else ") == "anything else"
