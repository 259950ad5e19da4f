"""The path on which a least sum is attained: the witness of `async_pipe.consumer_wait`.

commit  +1;  past 'scf.for'  0;  a group is taken  -1     adds up to producer head - consumer head
"""

from __future__ import annotations

from mlir_async_pipe.flow.items import Item, Node
from mlir_async_pipe.waits.balance import UNBOUNDED, Balance
from mlir_async_pipe.waits.records import WitnessStep
from mlir_async_pipe.waits.witnesses.trail import Places, Trail

_WHAT = {
    "commit": "a group is committed",
    "wait": "the oldest group is taken",
    "call": "a call",
}


class Paths:
    """The paths of one balance; `places` caches the places of ops. `_number` is the place of an
    item in its block, `_steps` the steps before a block, as they are asked for."""

    def __init__(self, found: Balance, places: Places) -> None:
        self.found = found
        self.places = places
        self._number = {item: n for items in found.of.values() for n, item in enumerate(items)}
        self._steps: dict[Node, int] = {}

    def to(self, wait: Item) -> tuple[WitnessStep, ...]:
        """The steps to a wait that paths reach, its own included.

        Their groups (below 0 for a group that is taken) add up to the sum at the wait, but where
        it has no lower bound: a step that takes any number of groups shows 0.
        """
        trail = Trail(self.places)
        node, item = wait.node, wait
        inclusive = True
        while node is not None:
            self._back_in_block(node, item, inclusive, trail)
            self._back_over_blocks(node, trail)
            frame, item = node.frame, node.frame.item
            if frame not in self.found.entered:
                break
            before = self.found.entered[frame]
            if before:
                trail.say(f"earlier iterations of '{item.op.name}'", item.op, groups=_shown(before))
            else:
                trail.say(f"into '{item.op.name}'", item.op)
            node, inclusive = item.node, False
        trail.origin("nothing is committed yet", item.op)
        return trail.steps()

    def _back_in_block(self, node: Node, last: Item | None, inclusive: bool, trail: Trail) -> None:
        """Say what stands in a block up to an item (None: all), the youngest first."""
        found = self.found
        items = found.of.get(node, [])
        number = len(items) if last is None else self._number[last] + inclusive
        while number:
            number -= 1
            item = items[number]
            if trail.is_full:
                trail.leave_out(number + 1, _shown(found.after(item) - found.starts[node]))
                return
            what = _WHAT.get(item.kind) or f"past '{item.op.name}'"
            trail.say(what, item.op, groups=_shown(found.change[item]))

    def _back_over_blocks(self, node: Node, trail: Trail) -> None:
        """Along the blocks of a frame back to its entry."""
        found = self.found
        seen = {node}
        before = found.came_from.get(node)
        while before is not None:
            if trail.is_full:
                groups = found.starts[node] - found.starts[node.frame.entry]
                trail.leave_out(self._steps_before(node), _shown(groups))
                return
            trail.say(f"through block {before.number}", before.frame.item.op)
            if before in seen:
                trail.say("a cycle of blocks that takes more than it commits", before.frame.item.op)
                return
            seen.add(before)
            self._back_in_block(before, None, True, trail)
            node, before = before, found.came_from.get(before)

    def _steps_before(self, node: Node) -> int:
        """The steps over the blocks before a block; kept, since its waits share them."""
        steps, came_from = self._steps, self.found.came_from
        chain = [node]
        while chain[-1] not in steps:
            steps[chain[-1]] = 0
            if chain[-1] not in came_from:
                break
            chain.append(came_from[chain[-1]])
        for after, before in zip(chain[-2::-1], chain[:0:-1], strict=True):
            steps[after] = steps[before] + 1 + len(self.found.of.get(before, ()))
        return steps[node]


def _shown(groups: int) -> int:
    return 0 if groups <= UNBOUNDED // 2 else groups
