"""Copies in loops take a scalar base and 32 bits of a lane where these are proven to fit, and no copy moves.

Covers: lowering/rocdl/copy_addresses.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.bindings.raw_ops import defining_op, functions, walk
from mlir_async_pipe.lowering.rocdl.copy_addresses import use_scalar_bases

COPY = "rocdl.load.async.to.lds %{p}, %tile, 4, {offset}, 0 : !llvm.ptr<1>, !llvm.ptr<3>"
FROM = """
    %{p}_row = llvm.mul %{lane}, %{pitch} : i64
    %{p}_sum = llvm.add %{p}_row, %{k} : i64
    %{p} = llvm.getelementptr %a[%{p}_sum] : (!llvm.ptr<1>, i64) -> !llvm.ptr<1>, f16"""


def copy(p: str, lane: str = "lane", pitch: str = "pitch", k: str = "k", *, before: int = 0) -> str:
    """A copy from %a + 2 * (lane * pitch + k) - before."""
    text = FROM.format(p=p, lane=lane, pitch=pitch, k=k)
    source = p
    if before:
        source = f"{p}_lower"
        text += f"\n    %{source} = llvm.getelementptr %{p}[{-before}] : (!llvm.ptr<1>) -> !llvm.ptr<1>, i8"
    return f"{text}\n    {COPY.format(p=source, offset=before)}"


def kernel(body: str, *, step: str = "%step", pitch: int = 4096, block: bool = True) -> str:
    size = ", gpu.known_block_size = array<i32: 256, 1, 1>" if block else ""
    return f"""
llvm.func @f(%tile: !llvm.ptr<3>, %a: !llvm.ptr<1>, %n: i64, %other: i64, %flag: i1) attributes {{gpu.kernel, rocdl.kernel{size}}} {{
    %zero = llvm.mlir.constant(0 : i64) : i64
    %step = llvm.mlir.constant(64 : i64) : i64
    %sixteen = llvm.mlir.constant(16 : i64) : i64
    %pitch = llvm.mlir.constant({pitch} : i64) : i64
    %id = rocdl.workitem.id.x : i32
    %lane = llvm.zext %id : i32 to i64
    %later = llvm.add %lane, %sixteen : i64
    %block = rocdl.workgroup.id.x : i32
    %blocks = llvm.zext %block : i32 to i64
    llvm.br ^loop(%zero : i64)
  ^loop(%k: i64):
    {body}
    %next = llvm.add %k, {step} : i64
    %more = llvm.icmp "slt" %next, %n : i64
    llvm.cond_br %more, ^loop(%next : i64), ^exit
  ^exit:
    llvm.return
}}"""


def rewritten(text: str) -> list[bool]:
    """Of each copy whether its address is a base and an extended number of 32 bits."""
    with new_context():
        module = ir.Module.parse(text)
        (function,) = functions(module)
        use_scalar_bases(function)
        assert module.operation.verify()
        found = []
        for op in walk(module):
            if op.name == "rocdl.load.async.to.lds":
                address = defining_op(op.operands[0])
                index = defining_op(address.operands[1]) if len(address.operands) > 1 else None
                narrow = index is not None and str(index.operands[0].type) == "i32"
                found.append(narrow and defining_op(address.operands[0]) is None)
        return found


TWO = copy("p") + copy("q", lane="later", before=1024)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (kernel(copy("p")), [True]),
        (kernel(TWO), [True, True]),
        # 256 rows of 2^22 elements of f16 are 2^31 bytes; of 2^24 they are 2^33.
        (kernel(copy("p"), pitch=2**22), [True]),
        (kernel(copy("p"), pitch=2**24), [False]),
        # How far the rows of a launch without a size go nobody knows.
        (kernel(copy("p"), block=False, pitch=2**22), [False]),
        (kernel(copy("p", pitch="other")), [False]),
        # One copy that does not fit takes the base from the others.
        (kernel(copy("p") + copy("q", pitch="other")), [False, False]),
        # The block's own rows are the same in all lanes.
        (kernel(f"%own = llvm.add %blocks, %k : i64\n{copy('p', k='own')}"), [True]),
        # What a lane has of its own changes in the loop.
        (kernel(f"%moving = llvm.add %lane, %k : i64\n{copy('p', lane='moving', pitch='other')}"), [False]),
        # The step of the base is no constant.
        (kernel(copy("p"), step="%other"), [False]),
        # A buffer has offsets of 32 bits already, and its pointer goes through no assembly.
        (kernel(copy("p")).replace("!llvm.ptr<1>", "!llvm.ptr<7>"), [False]),
        (kernel(f"%square = llvm.mul %k, %k : i64\n{copy('p', k='square')}"), [False]),
    ],
)  # fmt: skip
def test_what_is_proven_to_fit_goes_by_32_bits(text: str, wanted: list[bool]) -> None:
    assert rewritten(text) == wanted


def test_copies_outside_of_loops_stay() -> None:
    early = copy("p", k="zero") + "\n    llvm.br ^loop(%zero : i64)"
    text = kernel("").replace("    llvm.br ^loop(%zero : i64)", early, 1)
    assert rewritten(text) == [False]


def test_a_loop_with_two_entries_stays() -> None:
    text = kernel(copy("p")).replace(
        "    llvm.br ^loop(%zero : i64)\n",
        "    llvm.cond_br %flag, ^loop(%zero : i64), ^early\n  ^early:\n    llvm.br ^loop(%step : i64)\n",
        1,
    )
    assert rewritten(text) == [False]


@pytest.mark.parametrize("copies", [1, 2, 9])
def test_numbers_go_around_in_vectors_of_at_most_eight(copies: int) -> None:
    """One alone goes in a vector of two: LLVM's code for an assembly on a vector of one is wrong."""
    body = "".join(copy(f"p{number}") for number in range(copies))
    with new_context():
        module = ir.Module.parse(kernel(body))
        (function,) = functions(module)
        use_scalar_bases(function)
        header = function.regions[0].blocks[1]
        kinds = [str(argument.type) for argument in header.arguments]
    sizes = {1: [2], 2: [2], 9: [8, 2]}[copies]
    assert kinds == ["i64", "!llvm.ptr<1>", *(f"vector<{size}xi32>" for size in sizes)]


def test_loops_of_two_slots_ask_to_be_unrolled() -> None:
    """Their slots are constants then, and LLVM counts the assemblies as too much code."""
    slots = (
        kernel(copy("p"))
        .replace("^loop(%k: i64)", "^loop(%k: i64, %slot: i64)")
        .replace("^loop(%zero : i64)", "^loop(%zero, %zero : i64, i64)")
        .replace("    %more =", "    %one = llvm.mlir.constant(1 : i64) : i64\n    %turned = llvm.xor %slot, %one : i64\n    %more =")
        .replace("^loop(%next : i64)", "^loop(%next, %turned : i64, i64)")
    )  # fmt: skip
    with new_context():
        for text, wanted in ((slots, 1), (kernel(copy("p")), 0)):
            module = ir.Module.parse(text)
            (function,) = functions(module)
            use_scalar_bases(function)
            asked = [op for op in walk(module) if "loop_annotation" in op.attributes]
            assert len(asked) == wanted
