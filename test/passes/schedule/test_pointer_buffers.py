"""Workgroup memory that goes by LLVM pointers, as numba, flydsl and Triton have it: versions of a global
of LLVM, and loads and stores by pointers as asynchronous copies.

Each kernel copies 128 floats an iteration through a tile that other threads read, with three stages, and
gives what it gives as written, whenever copies arrive.

Covers: pipeliner/plan/buffer_plan.py, pipeliner/expand/write/versioned_buffers.py,
lowering/scopes/scope_copies.py, lowering/nvvm/nvidia_ops.py
"""

from __future__ import annotations

from typing import Any

import pytest

from helpers.pipelined_copies import SM_80, pipelined_and_run
from mlir_async_pipe import lower, pipeline
from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import symbol_name, walk
from mlir_async_pipe.chips.target import Target
from mlir_async_pipe.session.diagnostics import PipelineError

SIZED = "llvm.mlir.global internal @s() {addr_space = 3 : i32} : !llvm.array<128 x f32>"
LARGE = "llvm.mlir.global internal @s() {addr_space = 3 : i32} : !llvm.array<1024 x i8>"
ODD = "llvm.mlir.global internal @s() {addr_space = 3 : i32} : !llvm.array<129 x f32>"
EXTERNAL = "llvm.mlir.global external @s() {addr_space = 3 : i32} : !llvm.array<0 x i8>"
BASE = "%base = llvm.mlir.addressof @s : !llvm.ptr<3>"
WINDOW = """%all = llvm.mlir.addressof @s : !llvm.ptr<3>
    %base = llvm.getelementptr %all[512] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8"""
LOAD = "%v = llvm.load %from {alignment = 16 : i64} : !llvm.ptr<1> -> vector<4xf32>"
STORE = "llvm.store %v, %p {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<3>"
BY_COPY = """nvvm.cp.async.shared.global %p, %from, 16, cache = cg : !llvm.ptr<3>, !llvm.ptr<1>
      nvvm.cp.async.commit.group
      nvvm.cp.async.wait.group 0"""


def kernel(
    declared: str = SIZED,
    base: str = BASE,
    fill: str = f"{LOAD}\n      {STORE}",
    element: str = "f32",
) -> str:
    """Thread t fills floats 4 t …, and reads those that another thread filled."""
    return f"""
gpu.module @m {{
  {declared}
  gpu.func @f(%A: !llvm.ptr<1> {{llvm.noalias}}, %B: memref<1024xf32> {{llvm.noalias}}) kernel
      attributes {{known_block_size = array<i32: 32, 1, 1>}} {{
    %c0 = arith.constant 0 : index
    %c4 = arith.constant 4 : index
    %c31 = arith.constant 31 : index
    %c128 = arith.constant 128 : index
    %c1000 = arith.constant 1000 : index
    %c1024 = arith.constant 1024 : index
    %zeros = arith.constant dense<0.0> : vector<4xf32>
    %t = gpu.thread_id x
    %mine = arith.muli %t, %c4 : index
    %other = arith.subi %c31, %t : index
    %theirs = arith.muli %other, %c4 : index
    %m64 = arith.index_cast %mine : index to i64
    %o64 = arith.index_cast %theirs : index to i64
    {base}
    scf.for %i = %c0 to %c1024 step %c128 {{
      %at = arith.addi %i, %mine : index
      %at64 = arith.index_cast %at : index to i64
      %some = arith.cmpi ult, %at, %c1000 : index
      %from = llvm.getelementptr %A[%at64] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32
      %p = llvm.getelementptr %base[%m64] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, f32
      {fill}
      gpu.barrier
      %q = llvm.getelementptr %base[%o64] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>, f32
      %w = llvm.load %q {{alignment = 16 : i64}} : !llvm.ptr<3> -> vector<4xf32>
      vector.store %w, %B[%at] : memref<1024xf32>, vector<4xf32>
      gpu.barrier
    }} {{async_pipe.num_stages = 3 : i64}}
    gpu.return
  }}
}}"""


FOUR = "\n".join(
    f"""      %from{n} = llvm.getelementptr %from[{4 * n}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
      %p{n} = llvm.getelementptr %p[{4 * n}] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
      %v{n} = llvm.load %from{n} : !llvm.ptr<1> -> f32
      llvm.store %v{n}, %p{n} : f32, !llvm.ptr<3>"""
    for n in range(4)
)
# Each with the sizes that one asynchronous copy of it may have.
COPIED = {
    "load and store": (kernel(), {16}),
    "a copy of NVVM": (kernel(fill=BY_COPY), {16}),
    "a part of a larger global": (kernel(LARGE, WINDOW), {16}),
    "a global that ends between two copies": (kernel(ODD), {16}),
    "generic pointers": (
        kernel(
            base=f"{BASE.replace('%base', '%near')}\n    %base = llvm.addrspacecast %near"
            " : !llvm.ptr<3> to !llvm.ptr"
        )
        .replace(
            "%base[%m64] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>",
            "%base[%m64] : (!llvm.ptr, i64) -> !llvm.ptr",
        )
        .replace(
            "%base[%o64] : (!llvm.ptr<3>, i64) -> !llvm.ptr<3>",
            "%base[%o64] : (!llvm.ptr, i64) -> !llvm.ptr",
        )
        .replace("vector<4xf32>, !llvm.ptr<3>", "vector<4xf32>, !llvm.ptr")
        .replace(": !llvm.ptr<3> -> vector", ": !llvm.ptr -> vector"),
        {16},
    ),
    "zeros where it does not load": (
        kernel(
            fill=f"""%v = scf.if %some -> vector<4xf32> {{
        {LOAD.replace("%v", "%u")}
        scf.yield %u : vector<4xf32>
      }} else {{
        scf.yield %zeros : vector<4xf32>
      }}
      {STORE}"""
        ),
        {16},
    ),
    "four copies of a float": (kernel(fill=FOUR), {4}),
    "less alignment": (kernel(fill=f"{LOAD}\n      {STORE}".replace("= 16", "= 8")), {8}),
}


def ran(text: str) -> tuple[Any, Any]:
    """What pipelining reports, after the result ran as the program does; and the code's PTX."""
    with new_context():
        module, report = pipelined_and_run(text)
        globals_ = [symbol_name(op) for op in walk(module) if op.name == "llvm.mlir.global"]
        return report, (lower(module, target=SM_80, emit="ptx"), globals_)


@pytest.mark.parametrize("name", COPIED)
def test_a_global_of_llvm_gets_three_versions_and_asynchronous_copies(name):
    text, sizes = COPIED[name]
    report, (code, globals_) = ran(text)
    (made,) = report.of("loops")
    assert [buffer.versions for buffer in made.buffers] == [3]
    assert made.buffers[0].slot_bytes % 16 == 0
    assert [wait.count for wait in report.of("waits")] == [1, 1, 0]
    assert sum(check.unknown + check.unsafe for check in report.of("checks")) == 0
    copies = [line for line in code.text.splitlines() if "cp.async.c" in line and "shared" in line]
    assert copies and all(any(f", {size}" in line for size in sizes) for line in copies)
    assert "st.shared" not in code.text
    # The old global is gone where nobody else uses it.
    assert globals_ == ["s_versions"]


IN_REGISTERS = {
    "the size is the launch's": (kernel(EXTERNAL), "may read what its iteration did not write"),
    "a volatile load": (
        kernel(fill=f"{LOAD.replace('load', 'load volatile')}\n      {STORE}"),
        "volatile",
    ),
    "two-byte alignment": (
        kernel(fill=f"{LOAD}\n      {STORE}".replace("= 16", "= 2")),
        "aligned to 2",
    ),
    "from a memref": (
        kernel(fill=f"%v = vector.load %M[%at] : memref<1024xf32>, vector<4xf32>\n      {STORE}")
        .replace("%A: !llvm.ptr<1>", "%M: memref<1024xf32>")
        .replace(
            "%from = llvm.getelementptr %A[%at64] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32", ""
        ),
        "goes by a pointer",
    ),
}


@pytest.mark.parametrize("name", IN_REGISTERS)
def test_what_cannot_be_copied_is_loaded_ahead_and_says_why(name):
    text, reason = IN_REGISTERS[name]
    report, (code, _) = ran(text)
    (reported,) = [
        entry.message for entry in report.diagnostics if entry.code == "through-registers"
    ]
    assert reason in reported
    assert "cp.async" not in code.text


def test_amd_chips_copy_between_memrefs_only():
    with new_context():
        report = pipeline(ir.Module.parse(kernel()), Target.parse("rocdl:gfx950"))
    (reported,) = [
        entry.message for entry in report.diagnostics if entry.code == "through-registers"
    ]
    assert "'llvm.load' goes by a pointer" in reported


@pytest.mark.parametrize("apart", [16, 12])
def test_two_copies_of_one_statement_may_not_meet(apart):
    """Each copies 16 bytes: at 12 bytes the second one writes what the first one did."""
    second = f"""
        %v2 = llvm.load %far {{alignment = 4 : i64}} : !llvm.ptr<1> -> vector<4xf32>
        %p2 = llvm.getelementptr %p[{apart}] : (!llvm.ptr<3>) -> !llvm.ptr<3>, i8
        llvm.store %v2, %p2 {{alignment = 4 : i64}} : vector<4xf32>, !llvm.ptr<3>"""
    body = f"""%far = llvm.getelementptr %from[16] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8
      scf.execute_region no_inline {{
        {LOAD}
        {STORE}{second}
        scf.yield
      }}"""
    with new_context():
        module = ir.Module.parse(
            kernel(LARGE, fill=body).replace("%c4 = arith.constant 4", "%c4 = arith.constant 8")
        )
        report = pipeline(module, SM_80, check="warn")
        code = lower(module, target=SM_80, emit="ptx")
    assert ("sync-fallback" in {entry.code for entry in code.diagnostics}) == (apart == 12)
    assert [wait.count for wait in report.of("waits")][:1] == [1]


# What a kernel is given, as front ends give it: the pointer itself, its number, or a struct of it.
GIVEN = {
    "pointers": ("!llvm.ptr<1>", "%{to} = llvm.bitcast %{at} : !llvm.ptr<1> to !llvm.ptr<1>"),
    "numbers": ("i64", "%{to} = llvm.inttoptr %{at} : i64 to !llvm.ptr<1>"),
    "structs": (
        "!llvm.struct<(ptr<1>, ptr<1>, i64)>",
        "%{to} = llvm.extractvalue %{at}[1] : !llvm.struct<(ptr<1>, ptr<1>, i64)>",
    ),
    "numbers in structs": (
        "!llvm.struct<(i64, i64)>",
        "%{to}n = llvm.extractvalue %{at}[0] : !llvm.struct<(i64, i64)>\n"
        "    %{to} = llvm.inttoptr %{to}n : i64 to !llvm.ptr<1>",
    ),
}


def given(name: str, first: str = "a0", second: str = "b0", unpacked: str = "") -> str:
    """The kernel, from memory %A to memory %B that it gets out of the arguments `first`, `second`."""
    kind, form = GIVEN[name]
    names = "\n    ".join(form.format(to=to, at=at) for to, at in (("A", first), ("B", second)))
    return (
        kernel(base=f"{BASE}\n    {unpacked or names}")
        .replace(
            "%A: !llvm.ptr<1> {llvm.noalias}, %B: memref<1024xf32> {llvm.noalias}",
            f"%a0: {kind}, %b0: {kind}",
        )
        .replace(
            "vector.store %w, %B[%at] : memref<1024xf32>, vector<4xf32>",
            "%to = llvm.getelementptr %B[%at64] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f32\n"
            "      llvm.store %w, %to {alignment = 16 : i64} : vector<4xf32>, !llvm.ptr<1>",
        )
    )


@pytest.mark.parametrize("name", GIVEN)
def test_what_a_kernel_is_given_is_apart_where_the_caller_says_so(name):
    with new_context():
        with pytest.raises(PipelineError) as refused:
            pipeline(ir.Module.parse(given(name)), SM_80)
        assert refused.value.code == "unproven-independence"
        notes = refused.value.diagnostic.notes
        assert any("assume-noalias-arguments" in note.message for note in notes)
        report = pipeline(ir.Module.parse(given(name)), SM_80, assume_noalias_arguments=True)
    assert [wait.count for wait in report.of("waits")] == [1, 1, 0]
    assert sum(check.unknown + check.unsafe for check in report.of("checks")) == 0


@pytest.mark.parametrize("name", [name for name in GIVEN if name != "pointers"])
def test_one_argument_is_never_apart_from_itself(name):
    """Not even two fields of it: a memref's descriptor has its memory twice."""
    with new_context(), pytest.raises(PipelineError, match="may read what"):
        text = given(name, "a0", "a0").replace(
            "%Bn = llvm.extractvalue %a0[0]", "%Bn = llvm.extractvalue %a0[1]"
        )
        pipeline(ir.Module.parse(text), SM_80, assume_noalias_arguments=True)


COMPUTED = {
    "a sum": "%n = llvm.add %a0, %b0 : i64\n    %B = llvm.inttoptr %n : i64 to !llvm.ptr<1>",
    "loaded": "%h = llvm.inttoptr %b0 : i64 to !llvm.ptr<1>\n"
    "    %B = llvm.load %h : !llvm.ptr<1> -> !llvm.ptr<1>",
}


@pytest.mark.parametrize("name", COMPUTED)
def test_a_computed_address_may_be_any_memory(name):
    text = given(
        "numbers", unpacked=f"%A = llvm.inttoptr %a0 : i64 to !llvm.ptr<1>\n    {COMPUTED[name]}"
    )
    with new_context(), pytest.raises(PipelineError, match="may read what"):
        pipeline(ir.Module.parse(text), SM_80, assume_noalias_arguments=True)
