"""Which functions become a copy of what another one became, and which are planned on their own.

Covers: expand/equal/equal_functions.py, bindings/located.py
"""

from __future__ import annotations

from typing import Any

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.expand.equal import equal_functions
from mlir_async_pipe.expand.equal.equal_functions import EqualFunctions
from mlir_async_pipe.session import passes
from mlir_async_pipe.session.report import Session


def function(
    name: str,
    *,
    size: str = "16",
    kept: str = "1",
    upper: str = "%c16",
    before: str = "",
    more: str = "",
    given: str = "llvm.noalias",
    place: str = "",
    attributes: str = "",
) -> str:
    """A function of one loop in two stages."""
    memory, buffer = f"memref<{size}xf32>", f"memref<{kept}xf32>"
    return f"""
func.func @{name}(%A: {memory} {{{given}}}, %C: {memory} {{llvm.noalias}}, %n: index) {attributes} {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c16 = arith.constant 16 : index
  %one = arith.constant 1.0 : f32
  %B = memref.alloca() : {buffer}
  {before}
  scf.for %i = %c0 to {upper} step %c1 {{
    %a = memref.load %A[%i] : {memory} {place}
    %a1 = arith.addf %a, %one : f32 {place}
    memref.store %a1, %B[%c0] : {buffer}
    %b = memref.load %B[%c0] : {buffer}
    {more}
    memref.store %b, %C[%i] : {memory}
  }} {{async_pipe.stage = [0, 0, 1, 1], async_pipe.async_stages = [0]}}
  return
}}"""


def expanded(text: str, share: bool) -> str:
    """The module with its places, and what was told of it."""
    with new_context():
        module = ir.Module.parse(text)
        session = Session()
        for name, given in (("schedule", {}), ("expand", {"share_plans": share})):
            found = passes.find(f"async-pipe-{name}")
            found.run(module.operation, found.options(**given), session)
        assert module.operation.verify()
        printed = module.operation.get_asm(enable_debug_info=True)
        return f"{printed}\n{session.records}\n{session.diagnostics.items}"


def copies(text: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many functions are copies of others; all become what they become on their own."""
    found: list[Any] = []
    write = EqualFunctions.write

    def counted(self: EqualFunctions) -> None:
        found.extend(self._copies)
        write(self)

    with monkeypatch.context() as patch:
        patch.setattr(EqualFunctions, "write", counted)
        together = expanded(text, share=True)
        shared = len(found)
        assert together == expanded(text, share=False)
    assert len(found) == shared, "without sharing there are copies"
    return shared


def test_equal_functions_are_expanded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert copies("".join(function(f"f{n}") for n in range(4)), monkeypatch) == 3


def test_first_sizes_that_nobody_asks_for_may_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = ("16", "17", "300", "16")
    text = "".join(function(f"f{n}", size=size) for n, size in enumerate(sizes))
    assert copies(text, monkeypatch) == 3


def test_functions_of_two_kinds_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    more = "%b2 = arith.addf %b, %one : f32"
    text = "".join(function(f"f{n}", more=more if n % 2 else "") for n in range(6))
    assert copies(text, monkeypatch) == 4


@pytest.mark.parametrize(
    "other",
    [
        {"size": "?"},
        {"kept": "2"},
        {"more": "%b2 = arith.addf %b, %one : f32"},
        {"given": ""},
        {"attributes": "attributes {gpu.kernel}"},
        {"before": "%c5 = arith.constant 5 : index"},
    ],
    ids=["dynamic size", "buffer", "statement", "alias", "attribute", "op outside"],
)
def test_functions_that_differ_are_expanded_each(
    other: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert copies(function("f") + function("g", **other), monkeypatch) == 0


@pytest.mark.parametrize(
    "both",
    [
        # The size is a value.
        {"before": "%d = memref.dim %A, %c0 : memref<SIZExf32>"},
        {"before": "%v = memref.cast %A : memref<SIZExf32> to memref<?xf32>"},
        # Other memory has the size too.
        {"kept": "SIZE"},
    ],
    ids=["dim", "view", "buffer"],
)
def test_first_sizes_that_are_used_are_compared(
    both: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = []
    for name, size in (("f", "16"), ("g", "17"), ("h", "17")):
        given = {key: text.replace("SIZE", size) for key, text in both.items()}
        texts.append(function(name, size=size, **given))
    assert copies("".join(texts), monkeypatch) == 1


def test_sizes_that_planning_asks_for_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(equal_functions, "asked", lambda _: _Everything())
    text = function("f") + function("g") + function("h", size="17")
    assert copies(text, monkeypatch) == 1


class _Everything:
    def __contains__(self, _: object) -> bool:
        return True


def test_places_may_differ_where_those_of_the_first_do(monkeypatch: pytest.MonkeyPatch) -> None:
    one_place = function("f", place='loc("x":1:1)')
    assert copies(one_place + function("g"), monkeypatch) == 0
    assert copies(function("g") + one_place, monkeypatch) == 1


def test_what_planning_tells_of_is_told_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a loop that is too short for its pipeline."""
    upper = "%c0"
    assert copies(function("f", upper=upper) + function("g", upper=upper), monkeypatch) == 0


def test_loops_of_unknown_trip_counts_have_their_guards(monkeypatch: pytest.MonkeyPatch) -> None:
    assert copies(function("f", upper="%n") + function("g", upper="%n"), monkeypatch) == 1


def test_what_names_a_symbol_is_expanded_on_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    call = {"before": "func.call @h() : () -> ()"}
    text = "func.func private @h()" + function("f", **call) + function("g", **call)
    assert copies(text, monkeypatch) == 0


def test_where_copies_keep_their_locations_each_is_written(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(equal_functions, "can_be_placed", lambda: False)
    assert copies(function("f") + function("g"), monkeypatch) == 0


def test_kernels_that_are_launched_with_other_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The launches stand outside of the kernels: equal ones are those of one size."""
    kernels = "".join(
        function(name, attributes="attributes {gpu.kernel}")
        .replace("func.func", "gpu.func")
        .replace("return", "gpu.return")
        .replace("attributes {gpu.kernel}", "kernel")
        for name in ("f", "g", "h")
    )
    launches = "".join(
        f"gpu.launch_func @m::@{name} blocks in (%c1, %c1, %c1) threads in ({size}, %c1, %c1) "
        "args(%A : memref<16xf32>, %A : memref<16xf32>, %c1 : index)\n"
        for name, size in (("f", "%c1"), ("g", "%c32"), ("h", "%c1"))
    )
    text = f"""module attributes {{gpu.container_module}} {{
gpu.module @m {{ {kernels} }}
func.func @host(%A: memref<16xf32>) {{
  %c1 = arith.constant 1 : index
  %c32 = arith.constant 32 : index
  {launches}
  return
}} }}"""
    assert copies(text, monkeypatch) == 1
