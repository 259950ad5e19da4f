"""Pipelines by hand that commit only while there is something to copy, and wait for fewer groups at their end.

    k + 2 < n:  wait 2            of n - 1 - k tiles that still come, two are in flight at most
    k + 1 < n:  wait 1
    else:       wait 0

What is in flight rests on a comparison of the iteration before, and the wait on one of this iteration: the checker must know
that n - k is one less now, for any n. Each right one is proven; with one wait weaker, a run races and the checker names it.

Covers: checker/iterations.py, checker/explore.py, checker/paths.py, checker/kernel.py
"""

from __future__ import annotations

import re

import numpy as np
import pytest

from helpers.check_harness import RACES, check_module, check_text
from helpers.ptx_of import ptx_of
from mlir_async_pipe import machine
from mlir_async_pipe.bindings import ir, new_context, passmanager
from mlir_async_pipe.ptx.raise_ptx import raise_ptx

DEPTHS = (2, 3, 4)
# LLVM divides numbers of 32 bits by 3 and goes on in 64 bits: what is cut between is a number in the first iterations only
# (`opaque-subscript`).
UNDECIDED = {(3, "sum", "i32"), (3, "rest", "i32")}
GROUP = '"nvgpu.device_async_create_group"() : () -> !nvgpu.device.async.token'


def ladder(depth: int, style: str, kind: str) -> str:
    """The waits of one iteration: for as many groups as tiles come after it, depth - 2 at most."""
    if style == "always":
        return f"nvvm.cp.async.wait.group {depth - 2}"
    text = "nvvm.cp.async.wait.group 0"
    for left in range(1, depth - 1):
        more = (
            f"%q{left} = arith.addi %k, %c{left} overflow<nsw> : {kind}\n"
            f"%b{left} = arith.cmpi slt, %q{left}, %n : {kind}"
            if style == "sum"
            else f"%b{left} = arith.cmpi sge, %rest, %c{left} : {kind}"
        )
        wait = f"nvvm.cp.async.wait.group {left}"
        text = f"{more}\nscf.if %b{left} {{\n{wait}\n}} else {{\n{text}\n}}"
    rest = f"%last = arith.subi %n, %c1 overflow<nsw> : {kind}\n%rest = arith.subi %last, %k overflow<nsw> : {kind}\n"
    return text if style == "sum" else rest + text


def pipeline(depth: int, style: str, kind: str) -> str:
    """A ring of `depth` slots over n rows; `style`: what the waits compare, "always": there is one wait, and a group for each
    row, that of a row beyond n empty; `kind`: the type of numbers."""
    ring = f"memref<{depth}x32xf32, #gpu.address_space<workgroup>>"
    rows = "memref<16x32xf32>"

    def copy(row: str, slot: str, guard: str) -> str:
        casts = "".join(
            f"%at{n} = arith.index_cast {what} : {kind} to index\n"
            if kind != "index"
            else f"%at{n} = arith.addi {what}, %zero : index\n"
            for n, what in enumerate((row, slot))
        )
        return (
            f"scf.if {guard} {{\n{casts}"
            f"%x = nvgpu.device_async_copy %A[%at0, %t], %s[%at1, %t], 1 : {rows} to {ring}\n"
            + (f"}}\n%{slot[1:]}_g = {GROUP}\n" if style == "always" else f"%g = {GROUP}\n}}\n")
        )

    numbers = "".join(f"%c{n} = arith.constant {n} : {kind}\n" for n in range(depth + 1))
    before = "".join(
        f"%p{n} = arith.cmpi slt, %c{n}, %n : {kind}\n{copy(f'%c{n}', f'%c{n}', f'%p{n}')}"
        for n in range(depth - 1)
    )
    use = "".join(
        f"%{name} = arith.index_cast {what} : {kind} to index\n"
        if kind != "index"
        else f"%{name} = arith.addi {what}, %zero : index\n"
        for name, what in (("row", "%k"), ("from", "%slot"))
    )
    step = "" if kind == "index" else f" : {kind}"
    return f"""
func.func @k(%A: {rows} {{llvm.noalias}}, %C: {rows} {{llvm.noalias}}, %n: {kind})
    attributes {{gpu.kernel, gpu.known_block_size = array<i32: 32, 1, 1>}} {{
%zero = arith.constant 0 : index
%one = arith.constant 1 : index
{numbers}%s = memref.alloca() : {ring}
%t = gpu.thread_id x
%other = arith.xori %t, %one : index
{before}scf.for %k = %c0 to %n step %c1{step} {{
{ladder(depth, style, kind)}
gpu.barrier
%next = arith.addi %k, %c{depth - 1} overflow<nsw> : {kind}
%p = arith.cmpi slt, %next, %n : {kind}
%free = arith.remui %next, %c{depth} : {kind}
{copy("%next", "%free", "%p")}%slot = arith.remui %k, %c{depth} : {kind}
{use}%v = memref.load %s[%from, %other] : {ring}
memref.store %v, %C[%row, %t] : {rows}
}}
return
}}"""


def as_ptx(text: str) -> str:
    """The kernel as PTX: LLVM unrolls its loop, and what is left of n is a row after it."""
    ring = re.search(r"%s = memref.alloca\(\) : (.*)\n", text)
    assert ring is not None
    text = text.replace(ring[0], "").replace("return\n}", "gpu.return\n}\n}")
    text = text.replace("func.func @k(", "gpu.module @m {\ngpu.func @k(")
    text = text.replace(
        ")\n    attributes {gpu.kernel, gpu.known",
        f") workgroup(%s: {ring[1]}) kernel attributes {{known",
    )
    return ptx_of(text, pipelined=False).text


def weaker(text: str) -> list[str]:
    """The kernels in which one wait leaves one group more in flight."""
    waits = list(re.finditer(r"wait\.group (\d+)", text))
    return [text[: w.start(1)] + str(int(w[1]) + 1) + text[w.end(1) :] for w in waits]


def in_branches(text: str) -> str:
    """The kernel as a front end without structured loops writes it."""
    with new_context():
        module = ir.Module.parse(text)
        passmanager.PassManager.parse("builtin.module(convert-scf-to-cf)").run(module.operation)
        # Or `nvgpu.device_async_create_group` takes the op after it for its operand.
        return str(module.operation.get_asm(print_generic_op_form=True))


def races(text: str) -> bool:
    rows = np.arange(512, dtype=np.float32).reshape(16, 32)
    with new_context():
        module = ir.Module.parse(text)
        return any(
            machine.run(
                module, "k", [rows, rows * 0, n], threads=(32, 1, 1), completion=completion
            ).race_codes
            & RACES
            for n in (7, 4, 3, 2, 1, 0)
            for completion in ("late", "eager")
        )


@pytest.mark.parametrize("form", [str, in_branches], ids=["loops", "branches"])
@pytest.mark.parametrize("kind", ["index", "i32"])
@pytest.mark.parametrize("style", ["always", "sum", "rest"])
@pytest.mark.parametrize("depth", DEPTHS)
def test_a_wait_is_proven_and_one_that_is_weaker_is_named(
    depth: int, style: str, kind: str, form: object
) -> None:
    text = pipeline(depth, style, kind)
    right = check_text(form(text), "nvvm:sm_80")  # type: ignore[operator]
    assert not (races(text) or right.unsafe or right.unknown)
    wrong = weaker(text)
    assert len(wrong) == (1 if style == "always" else depth - 1)
    for one in wrong:
        assert races(one)
        found = check_text(form(one), "nvvm:sm_80")  # type: ignore[operator]
        assert "read-in-flight" in {code for code, _ in found.unsafe}


@pytest.mark.parametrize("kind", ["index", "i32"])
@pytest.mark.parametrize("style", ["always", "sum", "rest"])
@pytest.mark.parametrize("depth", DEPTHS)
def test_the_same_holds_of_its_ptx(depth: int, style: str, kind: str) -> None:
    """Nothing of the source's `overflow<nsw>` is left in it, nor that arguments do not share memory."""
    promised = {"assume_noalias_arguments": True, "assume_no_overflow": True}
    text = pipeline(depth, style, kind)
    with new_context() as context:
        right, wrong = (
            check_module(raise_ptx(as_ptx(one), context), "nvvm:sm_80", **promised)
            for one in (text, weaker(text)[0])
        )
    assert not right.unsafe
    assert bool(right.unknown) == ((depth, style, kind) in UNDECIDED)
    assert "read-in-flight" in {code for code, _ in wrong.unsafe}


def test_a_number_that_may_wrap_is_not_taken_for_a_small_one() -> None:
    """k + 3 is negative at the end of 2^31 - 1 rows of i32, so that a row before the first is copied."""
    text = pipeline(4, "sum", "i32").replace(" overflow<nsw>", "")
    found = check_text(text, "nvvm:sm_80")
    assert not found.unsafe and found.unknown
