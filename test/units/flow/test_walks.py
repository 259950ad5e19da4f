"""Walks over graphs: nearest first, each node once, and no further than they are asked.

Covers: facts/flow/algorithms.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.facts.flow.algorithms import by_loops, computed, joined, reached, walked

GRAPH = {"a": ["b", "c"], "b": ["d"], "c": ["d", "a"], "d": ["e"], "e": []}


def test_nodes_come_nearest_first_and_once() -> None:
    assert list(walked(["a"], GRAPH.__getitem__)) == ["a", "b", "c", "d", "e"]
    assert list(walked(["d", "c"], GRAPH.__getitem__)) == ["d", "c", "e", "a", "b"]


@pytest.mark.parametrize("start", GRAPH)
def test_what_is_reached_is_closed(start: str) -> None:
    found = reached([start], GRAPH.__getitem__)
    assert start in found and found == reached(found, GRAPH.__getitem__)


def test_a_walk_that_is_left_asks_no_further() -> None:
    asked = []

    def after(node: str) -> list[str]:
        asked.append(node)
        return GRAPH[node]

    assert next(node for node in walked(["a"], after) if node == "b") == "b"
    assert asked == ["a"]


def test_nothing_is_reached_from_nowhere() -> None:
    assert reached([], GRAPH.__getitem__) == set()


def test_loops_come_before_what_follows_them() -> None:
    nested = {"a": ["x", "b"], "b": ["c"], "c": ["b", "d"], "d": ["a"], "x": ["y"], "y": ["x", "z"]}
    order = by_loops(["a"], lambda node: nested.get(node, []))
    assert order[0] == "a" and set(order[:4]) == {"a", "b", "c", "d"}
    assert order[4:] == ["x", "y", "z"]
    assert by_loops(["y"], lambda node: nested.get(node, [])) == ["y", "x", "z"]


def test_what_is_needed_is_computed_first_and_once() -> None:
    """Chains may be longer than Python's stack."""
    asked = []

    def find(number: int) -> int:
        asked.append(number)
        return 1 + sum(known[other] for other in needs(number))

    def needs(number: int) -> list[int]:
        return [number - 1, number - 1] if number % 10_000 else []

    known: dict[int, int] = {20_002: 7}
    assert computed(20_004, known, needs, find) == 4 * 7 + 3
    assert asked == [20_003, 20_004]
    assert computed(19_999, {}, lambda n: [n - 1] if n else [], lambda n: n) == 19_999


def test_paths_come_together_after_all_that_lead_there() -> None:
    """As machine code has it: the end of a loop stands before its head, and one path to it is short."""
    code = {
        "entry": ["end", "head"],
        "latch": ["end", "head"],
        "head": ["arrive", "latch"],
        "arrive": ["latch"],
        "end": [],
    }
    assert by_loops(["entry"], code.__getitem__) == ["entry", "head", "arrive", "latch", "end"]


def test_an_inner_loop_is_left_before_what_follows_it_in_the_outer_one() -> None:
    nest = {"o": ["z", "i"], "i": ["a", "b"], "a": ["i"], "b": ["o"], "z": []}
    assert by_loops(["o"], nest.__getitem__) == ["o", "i", "a", "b", "z"]


def test_pairs_join_nodes_in_the_order_of_the_nodes():
    assert joined("edcba", []) == [["e"], ["d"], ["c"], ["b"], ["a"]]
    assert joined("edcba", [("a", "c"), ("b", "d"), ("c", "e")]) == [["e", "c", "a"], ["d", "b"]]
    assert joined("ab", [("a", "a"), ("b", "a"), ("a", "b")]) == [["a", "b"]]
