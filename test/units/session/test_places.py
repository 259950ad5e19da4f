"""Where an op that Python built is: the line that asked for it.

Covers: session/diagnostics.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.bindings import ir, new_context
from mlir_async_pipe.session.diagnostics import Place

STACK = ir.__file__.removesuffix("/ir.py")
ARITH, EXTRAS = f"{STACK}/dialects/arith.py", f"{STACK}/extras/meta.py"

LIBRARY = "/usr/lib/python3/site-packages/triton/language/standard.py"


@pytest.mark.parametrize(
    "frames, place",
    [
        ([(ARITH, 45), ("kernel.py", 9)], ("kernel.py", 9)),
        ([(ARITH, 45), (EXTRAS, 7), ("kernel.py", 9), ("main.py", 2)], ("kernel.py", 9)),
        ([("helper.py", 3), ("kernel.py", 9)], ("helper.py", 3)),
        # A function of the language's library stands between an op and the kernel.
        ([(LIBRARY, 216), ("kernel.py", 9)], ("kernel.py", 9)),
        # Nobody else asked for it.
        ([(ARITH, 45), (EXTRAS, 7)], (ARITH, 45)),
    ],
)
def test_the_place_is_the_innermost_frame_outside_of_the_bindings(frames, place):
    with new_context() as context:
        first, *others = [
            ir.Location.name("f", ir.Location.file(file, line, 1, context), context)
            for file, line in frames
        ]
        found = Place.of(ir.Location.callsite(first, others, context))
    assert (found.file, found.line) == place


class Unlike:
    """A location of bindings that end the process when they are asked for the file of no file."""

    def is_a_file(self) -> bool:
        return False

    @property
    def filename(self) -> str:
        raise RuntimeError

    def __str__(self) -> str:
        return 'loc(fused["a.py":3:4, unknown])'


def test_only_locations_of_files_are_asked_for_their_file():
    assert Place.at(Unlike()) == Place("a.py", 3, 4)


def test_a_place_of_a_file_needs_no_frames():
    with new_context() as context:
        assert Place.of(ir.Location.file("gemm.mlir", 14, 5, context)) == Place("gemm.mlir", 14, 5)
        assert Place.of(ir.Location.unknown(context)) == Place()
