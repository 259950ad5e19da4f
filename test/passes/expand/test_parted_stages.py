"""The scores of the next tile before the last O += P V: products of tensor memory in two stages, issued by a warp of their own,
are proven and right; each part is needed; an order that cannot be is refused.

Covers: pipeliner/plan/product_order.py, pipeliner/plan/ring_plan.py, pipeliner/expand/write/write_roles.py, pipeliner/expand/write/write_ring.py, pipeliner/expand/write/kernel_units.py
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from helpers.machine_programs import parse
from helpers.parted_attention import MOODS, TARGET, found, run
from helpers.tensor_attention import ChangedAttention
from mlir_async_pipe import pipeline
from mlir_async_pipe.bindings.raw_ops import walk
from mlir_async_pipe.facts.loops.statements import read_body
from mlir_async_pipe.session.diagnostics import PipelineError

sys.path.insert(0, str(Path(__file__).parent))

from test_parted_products import AFTER, WAIT, without

ONE = ChangedAttention(plain=True, roles="specialised")
TWO = replace(ONE, groups=2, stages=2)
OVERLAID = replace(TWO, overlaid=True)
# Stages of the branches in textual order, and the order in which a step issues them.
SCORES_FIRST, OUTPUT_FIRST = ((0, 1), (0, 1)), ((0, 1), (1, 0))
IN_TURN, OUTPUTS_FIRST = ((0, 0, 1, 1), (0, 2, 1, 3)), ((0, 0, 1, 1), (2, 0, 3, 1))
KERNELS = {
    "scores first": (ONE, SCORES_FIRST),
    "output first": (ONE, OUTPUT_FIRST),
    "head after head": (replace(ONE, persistent=True, stages=2), SCORES_FIRST),
    "two tiles of queries": (TWO, IN_TURN),
    "P where the scores were": (OVERLAID, OUTPUTS_FIRST),
    "a group for each tile": (replace(OVERLAID, roles="grouped"), OUTPUTS_FIRST),
}


def annotated(made: ChangedAttention, places: tuple[tuple[int, ...], tuple[int, ...]]) -> str:
    """With the branches of products in these stages and order."""
    text, (stages, order) = made.module(), places
    module = parse(text)
    ops = walk(module.operation)
    (loop,) = (op for op in ops if "async_pipe.num_stages" in op.attributes)
    names = [statement.op.name for statement in read_body(loop).statements]
    branches = [number for number, name in enumerate(names) if name == "scf.if"]
    stage = [0 if "tma" in name else made.stages - 1 for name in names]
    orders = list(range(len(names)))
    for branch, later in zip(branches, stages, strict=True):
        stage[branch] += later
    for place, which in zip(branches, order, strict=True):
        orders[branches[which]] = place
    given = f"async_pipe.num_stages = {made.stages} : i64"
    return text.replace(given, f"async_pipe.stage = {stage}, async_pipe.order = {orders}")


@cache
def of_kernel(name: str) -> str:
    module = parse(annotated(*KERNELS[name]))
    pipeline(module, check="none", target=TARGET)
    return str(module)


@pytest.mark.parametrize("name", KERNELS)
def test_it_is_proven_for_any_number_of_keys(name: str) -> None:
    assert found(of_kernel(name)) == (set(), 0)


@pytest.mark.parametrize("mood", MOODS, ids="-".join)
@pytest.mark.parametrize("name", KERNELS)
def test_the_result_is_numpy_s(name: str, mood: tuple[str, str]) -> None:
    assert run(of_kernel(name), KERNELS[name][0], mood) == (True, set())


# In textual order: the threads' for Q, the scores, O of the tile before, and the last O; the copies' for a slot; the products'
# for the threads, a tile, in the loop for a tile, for the scores that were loaded, for P; after it for the last P.
MUTANTS: dict[str, tuple[Callable[[str], str], set[str]]] = {
    "no wait for the scores": (without(WAIT, 1), {"read-in-flight", "missing-barrier"}),
    "no wait for O of the tile before": (without(WAIT, 2), {"source-overwritten"}),
    "no wait for the last O": (without(WAIT, 3), {"read-in-flight"}),
    "no wait for a free slot": (without(WAIT, 4), {"too-many-arrivals"}),
    "no wait for the first tile": (without(WAIT, 6), {"read-in-flight"}),
    "no wait for a tile": (without(WAIT, 8), {"read-in-flight"}),
    "no wait until scores were loaded": (without(WAIT, 9), {"missing-barrier"}),
    "no wait for P": (without(WAIT, 10), {"missing-barrier"}),
    "no wait for the last P": (without(WAIT, 11), {"missing-barrier", "source-overwritten"}),
    "no arrival for loaded scores": (without(r"mbarrier\.arrive %", 1), {"deadlock"}),
    "no arrival for P": (without(r"mbarrier\.arrive %", 2), {"deadlock"}),
    "no fence after O of the tile before": (without(AFTER, 2), {"missing-tensor-fence"}),
    "no fence after the last O": (without(AFTER, 4), {"missing-tensor-fence"}),
    "no fence after loaded scores": (without(AFTER, 8), {"missing-tensor-fence"}),
    "no fence after P": (without(AFTER, 9), {"missing-tensor-fence"}),
    **{
        f"no commit {number}": (without(r"tcgen05\.commit", number), {"deadlock"})
        for number in range(4)
    },
}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_part_that_is_left_out_is_named_and_fails(name: str) -> None:
    change, codes = MUTANTS[name]
    text = change(of_kernel("scores first"))
    assert found(text)[0] & codes, found(text)
    assert any(run(text, ONE, mood) != (True, set()) for mood in MOODS)


REFUSED = {
    "scores over a P that is to be read": (
        *(OVERLAID, IN_TURN, "dependence-violated"),
        "products would be issued before others whose cells they share",
    ),
    "scores after the output that needs them": (
        *(ONE, ((1, 0), (0, 1)), "dependence-violated"),
        "which wait for what these threads do later",
    ),
    "three stages": (ONE, ((0, 2), (0, 1)), "transaction-stages", "but for a second one"),
    "all warps": (
        *(replace(ONE, roles="together"), SCORES_FIRST, "transaction-stages"),
        "no warp of its own issues them",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_an_order_that_cannot_be_is_refused_and_nothing_is_written(name: str) -> None:
    made, places, code, words = REFUSED[name]
    module = parse(annotated(made, places))
    kept = str(module)
    with pytest.raises(PipelineError, match=re.escape(words)) as refused:
        pipeline(module, check="none", target=TARGET)
    assert refused.value.code == code
    assert refused.value.diagnostic.place.line
    assert str(module) == kept
    if code == "dependence-violated":
        notes = [note.message for note in refused.value.diagnostic.notes]
        assert any("as 'async_pipe.num_stages' does" in note for note in notes)
        assert pipeline(parse(made.module()), check="none", target=TARGET).of("loops")
