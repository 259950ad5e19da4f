"""Walks over graphs: nearest first, each node once, and no further than they are asked.

Covers: flow/algorithms.py
"""

from __future__ import annotations

import pytest

from mlir_async_pipe.flow.algorithms import reached, walked

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
