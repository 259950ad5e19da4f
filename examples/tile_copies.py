"""What the tile copies of both vendors share: groups, the XOR swizzle, and edges.

A tile stands in shared memory row by row, cut into chunks of 16 bytes whose places in a row
are swizzled, so that lanes which read one chunk of neighbouring rows meet different banks.
"""

from __future__ import annotations

from mlir_text import Writer

CHUNK_BYTES = 16


def group_and_wait(w: Writer, groups: list[list[str]]) -> None:
    """Commit each list of copies as one group and wait for all of them."""
    for copies in groups:
        group = w.value("group", f"nvgpu.device_async_create_group {', '.join(copies)}")
    w.line(f"nvgpu.device_async_wait {group}")


def swizzled_chunk(w: Writer, chunk: str, row: str, chunks_in_row: int, groups: int = 8) -> str:
    """The place in `row` at which `chunk` stands, and the chunk that stands there.

    A row of P chunks spans P of the G groups of banks (16 bytes each), so G / P rows fill all
    groups before they repeat; chunk c of row r therefore stands at c xor (r / (G / P)) mod P,
    and G rows that are read at one chunk meet all G groups.
    """
    turns = min(chunks_in_row, groups)
    turn = w.rem("turn", w.div("turn_row", row, groups // turns), turns)
    return w.xor("swizzled_chunk", chunk, turn)


def elements_inside(
    w: Writer, at: tuple[str, str], bounds: tuple[str, str] | None, elements: int
) -> str:
    """The srcElements operand: a whole copy, or nothing where it lies outside `bounds`."""
    if bounds is None:
        return ""
    in_row = w.value("in_row", f"arith.cmpi ult, {at[0]}, {bounds[0]} : index")
    in_column = w.value("in_column", f"arith.cmpi ult, {at[1]}, {bounds[1]} : index")
    inside = w.value("inside", f"arith.andi {in_row}, {in_column} : i1")
    chosen = f"{w.constant(elements)}, {w.constant(0)}"
    return ", " + w.value("elements", f"arith.select {inside}, {chosen} : index")
