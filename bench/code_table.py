"""The tables of bench/code.py, and the page docs/code.md that is made of them."""

from __future__ import annotations

from typing import Any

from code_kernels import WRITTEN
from iterations import NAMES

Stored = dict[str, dict[str, Any]]
"""Figures by kernel, then by side ("ours", "Triton"), as they stand in bench/code.json."""

WHOLE = ("all", "per product", "run", "wait", "registers", "spills", "shared", "blocks", "proof ms")

HEAD = """\
# Machine code

The instructions of one iteration of the main loop, for our kernels and for Triton's of the same tile and
as many warps. Written by `python bench/code.py --store --triton PYTHON`; `--compare` names what a
change makes worse (`bench/code.json` has the figures). Nothing is timed: these are instructions.

* `all` of one iteration of the source; a loop that its compiler unrolled counts by its products, or by its waits.
* `run`: the longest run of issue slots without a product, also across the end of the loop. For so long this
  warp gives the tensor cores nothing new to do.
* `wait`: the groups (NVIDIA) or copies (AMD) that each wait in the loop leaves in flight.
* `shared`: bytes of workgroup memory. Triton's S counts as its documentation does: at S stages it has
  one buffer less than we have, and the same distance.
* `roles`: warps that are added issue the copies; the loop is that of the warps that multiply, beside
  Triton's, in which all do both.
* `passes`: how many passes over workgroup memory the worst access of that op takes, by the addresses of one warp;
  1 without bank conflicts.

Triton's GEMM is that of its matmul tutorial without masks, B given row by row of C's columns
(`bench/triton_gemm.py`), its attention that of its tutorial on fused attention
(`bench/triton_attention.py`), those with TMA by tensor descriptors (`bench/triton_tma.py`,
`bench/triton_tma_attention.py`); their PTX is assembled by the same ptxas.

Every kernel of the list for sm_80 is run as PTX on the CPU too (`test/products/test_ptx_bench.py`): it gives
NumPy's numbers with copies that land at once, as late as waits allow, and at random, and reads what is still
in flight as soon as one wait leaves one group more in flight.

"""

USERS_HEAD = """\
Kernels that no generator wrote (`bench/user_kernels.py`): naive subscripts, transfers and masks, views, tensors of three and
four dimensions, convolutions by (kh, kw), grouped, batched, gathered, mixed types. All ask for
`num_stages = 3` and nothing else. `blocks` are those that a multiprocessor of an A100 holds, `proof ms` processor
milliseconds of the check. Triton's kernels (`bench/triton_users.py`) are those of the same tile and warps; it
pipelines loops with `tl.dot` only, so the others have no peer. `python bench/code.py --only "as written"
--triton PYTHON` prints the table.

Each is proven, gives NumPy's numbers on the machine and as PTX under every completion, and reads what is
still in flight as soon as one wait leaves one group more in flight (`test/products/test_user_kernels.py`)."""

# Why kernels of a target take more instructions than Triton's, for the page.
LONGER = {
    "nvvm:sm_90a": """\
Descriptors are added up in their lower 32 bits, and the upper ones set afterwards: with sums of 64 bits these loops
have 10 to 12 instructions less, and are as fast or a little slower on an H100; and of such sums ptxas before
13.1 may lose a half ([gpu.md](gpu.md)).""",
    "rocdl:gfx942": """\
A lane copies 4 bytes straight to LDS there: 16 copies an iteration stand against 4 loads of 16 bytes and 4 writes.
Their addresses take a scalar base and 32 bits a lane, so that an iteration adds twice and not 16 times; the rows of A and
B may be longer than that allows, which one comparison before the loop decides (the figures are those of the loop for
rows below 2^23 elements; the other one has 71.5 and 83). Loads through registers have no such copies, and are the
better choice for this tile.""",
    "rocdl:gfx950": """\
Each iteration counts the slots of three buffers, waits and branches. Triton unrolls its loop by four and does so
once.""",
}
# What a row says that only looking at the code explains.
NOTES = {
    "nvvm:sm_80": """\
Fragments are loaded a step of products ahead by default. In place (`async_pipe.fragments = "in-place"`)
the 13 loads of the first step come before its first product, which makes a run of 15 to 17; whether
the last copies stand before or after the last product is ptxas's choice: S = 3 and S = 5 have a run of
16, S = 4 one of 28, S = 6 one of 30. Copies spread among the products or all of them at the end of the
PTX give the same code. With slots counted by a comparison and a choice, instead of a mask, S = 4 has 126
instructions and a run of 16 in place, but 128 instead of 125 a step ahead; so the mask stays.

128x128x64, tf32 and 256x128x64 hold so many accumulators that few registers are left for the fragments
of the next step: they are loaded in place. With `async_pipe.fragments = "ahead"` the runs are 14, 4 and
6, with all 255 registers, and 12, 0 and 4 bytes of them spilt.

Attention's runs are its softmax: each product of the weights needs the maximum of a row, over lanes, and
the exponentials of all its scores. At 128 features Triton loads Q from workgroup memory again in each
iteration.""",
    "nvvm:sm_90a": """\
Attention's runs are its softmax again. Ours issues the scores of the next tile and half of the product of this
one, waits for the scores only (1), finds the largest of them, and issues the other half before the exponentials: a
product is in flight beside all of it. Triton issues its products apart, and its one wait, before the softmax, leaves none.
Both keep P in registers ([hopper.md](hopper.md#attention)).

The second half has a fence of its own, the one instruction that it costs. Runs of 64x64 D=64, of that with roles, and causal:

|  | run | wait |
|---|---:|---:|
| the whole product with the scores | 253, 232, 251 | 1, 0 |
| a quarter of it later | 233, 208, 226 | 1, 0 |
| half of it later, without the fence: ptxas issues it earlier | 227, 204, 213 | 1, 0 |
| half of it later | 203, 173, 196 | 1, 0 |
| all of it later: nothing to multiply while the largest scores are found | 184, 156, 169 | 0, 0 |
""",
}


def document(stored: Stored) -> str:
    """The page."""
    users = {name: sides for name, sides in stored.items() if WRITTEN in name}
    stored = {name: sides for name, sides in stored.items() if name not in users}
    targets = dict.fromkeys(name.split(" ")[0] for name in stored)
    parts = [
        HEAD.rstrip("\n"),
        "## As users write them",
        USERS_HEAD,
        table(users),
        above(users),
        USERS_NOTES,
    ]
    for target in targets:
        rows = {name: sides for name, sides in stored.items() if name.startswith(f"{target} ")}
        parts += [f"## {target}", table(rows), "### By class", table(rows, classes=True)]
        passes = _passes(rows)
        if passes:
            parts += ["### Bank conflicts", passes]
        stores = _stores(rows)
        if stores:
            parts += ["### Stores to global memory", STORES, stores]
        residuals = _residuals(rows)
        if residuals:
            parts += ["### Read after the loop", RESIDUALS, residuals]
        if target in NOTES:
            parts += ["### Notes", NOTES[target]]
        found = longer(rows)
        if found:
            parts += ["### Longer than Triton's", "\n".join(found), LONGER[target]]
    return "\n\n".join(parts) + "\n"


# More than this of the best is told.
TOLERATED = 1.05
USERS_NOTES = """\
The taps (kh, kw) of the convolution are counted; divided by 3 in each iteration, in 64 bits, they
were 21 instructions more. Two bytes are no asynchronous copy: the textbook's GEMM of f16 loads ahead into registers and waits for
no group, and so does B in bytes, which is converted on its way. An embedding bag has a list to read before it copies: of three
stages one is the index's, and nothing is in flight while it waits for a row. Runs of loops without products are their bodies."""


def above(users: Stored) -> str:
    """The kernels of users with more instructions than `TOLERATED` times Triton's, or more than Triton's longest run."""
    found = [
        f"* {name.partition(WRITTEN)[2]}: {figure} {_shown(ours[figure])} beside {_shown(theirs[figure])}"
        for name, sides in users.items()
        if (theirs := sides.get("Triton")) is not None
        for ours in (sides["ours"],)
        for figure in ("all", "run")
        if ours[figure] > TOLERATED * theirs[figure]
    ]
    return "\n".join([f"Above {TOLERATED} times Triton's:", "", *(found or ["* none"])])


def longer(stored: Stored) -> list[str]:
    """The kernels that take more instructions an iteration than Triton's, a line each."""
    return [
        f"* {name.partition(' ')[2]}: {_shown(sides['ours']['all'])} beside {_shown(sides['Triton']['all'])}"
        for name, sides in stored.items()
        if "Triton" in sides and sides["ours"]["all"] > sides["Triton"]["all"]
    ]


def table(stored: Stored, *, classes: bool = False) -> str:
    """One row a kernel and side."""
    every = [figures for sides in stored.values() for figures in sides.values()]
    columns = [
        name for name in ((*NAMES, "other") if classes else WHOLE) if any(name in f for f in every)
    ]
    rows = [["kernel", "", *columns]]
    for name, sides in stored.items():
        for side, figures in sides.items():
            kernel = name.partition(" ")[2].removeprefix(WRITTEN)
            given = (figures.get(column, "" if column == "proof ms" else 0) for column in columns)
            rows.append([kernel, side, *map(_shown, given)])
    return _markdown(rows, text=2)


def _passes(stored: Stored) -> str:
    rows = [["kernel", "passes"]]
    for name, sides in stored.items():
        found = {k: n for k, n in sides["ours"].items() if k.startswith("passes of")}
        each = ", ".join(f"{k.removeprefix('passes of ')} {_shown(n)}" for k, n in found.items())
        if found:
            rows.append([name.partition(" ")[2], each])
    return _markdown(rows, text=2) if len(rows) > 1 else ""


STORES = """\
Of the whole code. Ours has those of a lane's own numbers, too, for addresses and strides that are no multiples of 16 bytes;
a launch runs one of the two."""


def _stores(stored: Stored) -> str:
    rows = [["kernel", "ours", "Triton"]]
    for name, sides in stored.items():
        each = [sides.get(side, {}).get("stores", "") for side in ("ours", "Triton")]
        if "STG.128" in each[0]:
            rows.append([name.partition(" ")[2], *each])
    return _markdown(rows, text=3) if len(rows) > 1 else ""


RESIDUALS = """\
C = max(A B^T + bias, 0) + R: loads of global memory in the whole code, by each thread. Copied ahead (`async_pipe.residuals = "async"`)
there are none but in the loop over tiles that are too short."""


def _residuals(stored: Stored) -> str:
    rows = [["kernel", "loads", "run", "registers", "shared"]]
    for name, sides in stored.items():
        if "residual" in name:
            own = sides["ours"]
            figures = [own.get("loads", 0), own["run"], own["registers"], own["shared"]]
            rows.append([name.partition(" ")[2], *map(_shown, figures)])
    return _markdown(rows, text=1) if len(rows) > 1 else ""


def _shown(number: Any) -> str:
    if isinstance(number, str):
        return number
    if isinstance(number, list):
        return ", ".join(map(str, number)) or "none"
    return f"{number:g}"


def _markdown(rows: list[list[str]], text: int) -> str:
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    rule = "|" + "---|" * text + "---:|" * (len(rows[0]) - text)
    return "\n".join([lines[0], rule, *lines[1:]])
