"""Some items of a module by the blocks that they stand in, with the ops around them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mlir_async_pipe.flow.items import Frame, Item, Node


class Layout:
    """`of` maps each block to those of the items that stand in it, or contain one, in order;
    `roots` are the functions that hold them."""

    def __init__(self, items: Iterable[Any]) -> None:
        self.of: dict[Node, list[Item]] = {}
        placed: set[Item] = set()
        roots: dict[Item, None] = {}
        for item in items:
            while item not in placed:
                placed.add(item)
                node = item.node
                if node is None or item.is_root:
                    roots[item] = None
                    break
                self.of.setdefault(node, []).append(item)
                item = node.frame.item
        for found in self.of.values():
            found.sort(key=lambda item: item.position)
        self.roots = list(roots)

    def frames(self, root: Item) -> list[Frame]:
        """The frames below a root that hold items, outer ones first."""
        found: list[Frame] = []
        work = [frame for frame in root.frames if frame.nodes]
        while work:
            frame = work.pop()
            found.append(frame)
            for node in frame.nodes:
                for item in self.of.get(node, ()):
                    work.extend(inner for inner in item.frames if inner.nodes)
        return found
