"""Values of PTX that live at once are counted as registers of 32 bits, and say whether ptxas is asked.

Covers: lowering/nvvm/lower_nvvm.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.chips.table import CHIPS
from mlir_async_pipe.lowering.nvvm.lower_nvvm import (
    LiveRegisters,
    declared_registers,
    live_registers,
    needs_ptxas,
)

DECLARED = ".reg .pred %p<9>;\n.reg .b16 %rs<9>;\n.reg .b32 %r<9>;\n.reg .b64 %rd<9>;\n"


def kernel(body: str, head: str = "", declared: str = DECLARED) -> str:
    return f".visible .entry k(\n\t.param .u64 k_param_0\n)\n{head}{{\n{declared}{body}\n}}\n"


@pytest.mark.parametrize(
    ("body", "anywhere"),
    [
        ("ld.param.b64 \t%rd1, [k_param_0];\n\tst.global.b64 \t[%rd1], %rd1;\n\tret;", 2),
        # Two and one, and the result of 64 bits beside what lives on.
        ("mul.wide.u32 \t%rd2, %r1, 4;\n\tadd.s64 \t%rd3, %rd1, %rd2;\n\tst.b32 [%rd3], %r1;", 5),
        # An address is read, not made: %rd1 and %r1 live before the store.
        ("mov.b32 \t%r1, 7; // %rd5\n\tst.shared.b32 \t[%rd1], %r1;", 3),
        ("bar.sync \t%r1, %r2;", 2),
        ("@%p1 mov.b32 \t%r1, %r2;\n\tst.b32 [%rd1], %r1;", 4),
        ("mov.b32 \t%r1, {%rs1, %rs2};\n\tmov.b64 \t{%r2, %r3}, %rd1;\n\tret;", 4),
        ("mma.sync.aligned\n\t\t{%r1, %r2},\n\t\t{%r3},\n\t\t{%r4};\n\tst.b32 [%r2], %r1;", 2),
        # Predicates and special registers need none, a result that nobody uses needs one.
        ("setp.lt.s32 \t%p1, %r1, 3;\n\tmov.u64 \t%rd1, %clock64;", 2),
    ],
)
def test_what_lives_at_once_is_counted(body: str, anywhere: int) -> None:
    assert live_registers(kernel(body)).anywhere == anywhere


LOOP = """
	mov.b32 	%r1, 0;
	mov.b64 	%rd1, 0;
$L__BB0_1:
	add.s32 	%r2, %r1, 1;
	add.s32 	%r3, %r1, 2;
	add.s32 	%r1, %r2, %r3;
	setp.lt.s32 	%p1, %r1, 99;
	@%p1 bra 	$L__BB0_1;
	bra.uni 	$L__BB0_3;
$L__BB0_2:
	st.b64 	[%rd7], %rd8;
$L__BB0_3:
	st.b32 	[%rd1], %r1;
	ret;
"""


def test_what_is_used_after_a_loop_lives_in_it() -> None:
    """%rd1 and %r1 from block to block, %r2 beside them; nobody jumps to %rd7 and %rd8, but to count
    too much is safe."""
    assert live_registers(kernel(LOOP)) == LiveRegisters(between_blocks=7, anywhere=7)
    without = LOOP.replace("\tst.b64 \t[%rd7], %rd8;\n", "")
    assert live_registers(kernel(without)) == LiveRegisters(between_blocks=3, anywhere=4)


def test_what_is_made_again_does_not_live_before() -> None:
    body = "mov.b32 \t%r1, 1;\n$L1:\n\tmov.b32 \t%r1, 2;\n\tst.b32 [%r1], %r1;"
    assert live_registers(kernel(body)).between_blocks == 0


def test_declared_registers_are_at_least_those_that_live() -> None:
    assert declared_registers(kernel("ret;")) == 9 + 9 + 18


def test_a_jump_to_nowhere_is_no_kernel() -> None:
    with pytest.raises(KeyError):
        live_registers(kernel("bra.uni \t$L__BB0_9;"))


def of_many(values: int, head: str) -> str:
    """All values live through a loop, with their address: 2 more."""
    numbers = range(values)
    loads = "".join(f"ld.global.b32 \t%r{i}, [%rd1+{4 * i}];\n" for i in numbers)
    stores = "".join(f"st.global.b32 \t[%rd1+{4 * i}], %r{i};\n" for i in numbers)
    declared = f".reg .pred %p<2>;\n.reg .b32 %r<{values}>;\n.reg .b64 %rd<2>;\n"
    body = f"ld.param.b64 \t%rd1, [k_param_0];\n{loads}$L1:\nbar.sync \t0;\n@%p1 bra \t$L1;\n{stores}ret;"
    return kernel(body, head, declared)


@pytest.mark.parametrize(
    ("head", "most"),
    [
        ("", 239),
        (".reqntid 128, 1, 1\n", 239),
        (".maxntid 16, 16\n", 239),
        # 65536 registers of a block of 512 are 128 each, and 16 stay free.
        (".reqntid 512, 1, 1\n", 112),
        (".reqntid 128, 1, 1\n.minnctapersm 4\n", 112),
        (".reqntid 128, 1, 1\n.maxnreg 64\n", 48),
    ],
)
def test_ptxas_is_asked_where_registers_may_be_short(head: str, most: int) -> None:
    chip = CHIPS["sm_80"]
    assert not needs_ptxas(of_many(most - 2, head), chip)
    assert needs_ptxas(of_many(most - 1, head), chip)


def test_inside_of_a_block_an_eighth_more_is_not_asked_about() -> None:
    """No value lives from block to block; 286 and 287 at once inside of one."""
    head = ".reqntid 128, 1, 1\n"
    answers = []
    for values in (284, 285):
        text = of_many(values, head).replace("@%p1 bra \t$L1;\n", "").replace("$L1:\n", "")
        answers.append(needs_ptxas(text, CHIPS["sm_80"]))
    assert answers == [False, True]


@pytest.mark.parametrize(
    ("line", "asked"),
    [
        ("// begin inline asm\n\t// end inline asm", False),
        ("// begin inline asm\n\tbogus.instruction;\n\t// end inline asm", True),
        ("wgmma.fence.sync.aligned;", True),
        ("call.uni (retval0), f, ();", True),
        ("bar.sync \t0;", False),
    ],
)
def test_ptxas_is_asked_about_what_only_it_knows(line: str, asked: bool) -> None:
    assert needs_ptxas(kernel(f"\t{line}\n\tret;"), CHIPS["sm_90a"]) == asked


def test_ptxas_is_asked_about_modules_with_functions() -> None:
    function = ".visible .func  (.param .b32 func_retval0) f(\n)\n{\nret;\n}\n"
    assert needs_ptxas(function + kernel("ret;"), CHIPS["sm_80"])
