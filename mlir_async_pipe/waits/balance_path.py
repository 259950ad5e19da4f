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


def path_to(balance: Balance, wait: Item, places: Places) -> tuple[WitnessStep, ...]:
    """The steps to a wait that paths reach, its own included; `places` caches those of ops.

    Their groups (below 0 for a group that is taken) add up to the sum at the wait, but where
    it has no lower bound: a step that takes any number of groups shows 0.
    """
    trail = Trail(places)
    node, item = wait.node, wait
    inclusive = True
    while node is not None:
        _back_in_block(balance, node, item, inclusive, trail)
        _back_over_blocks(balance, node, trail)
        frame, item = node.frame, node.frame.item
        if frame not in balance.entered:
            break
        turned = balance.entered[frame]
        if turned:
            trail.say(f"earlier iterations of '{item.op.name}'", item.op, groups=_shown(turned))
        else:
            trail.say(f"into '{item.op.name}'", item.op)
        node, inclusive = item.node, False
    trail.origin("nothing is committed yet", item.op)
    return trail.steps()


def _back_in_block(
    balance: Balance, node: Node, last: Item | None, inclusive: bool, trail: Trail
) -> None:
    """Say what stands in a block up to an item (None: all), the youngest first."""
    items = balance.of.get(node, [])
    number = len(items) if last is None else balance.number[last] + inclusive
    while number:
        number -= 1
        item = items[number]
        if trail.is_full:
            trail.leave_out(number + 1, _shown(balance.at[item] - balance.starts[node]))
            return
        groups = balance.change(item)
        trail.say(_WHAT.get(item.kind) or f"past '{item.op.name}'", item.op, groups=_shown(groups))


def _back_over_blocks(balance: Balance, node: Node, trail: Trail) -> None:
    """Along the blocks of a frame back to its entry."""
    seen = {node}
    before = balance.came_from.get(node)
    while before is not None:
        if trail.is_full:
            groups = balance.starts[node] - balance.starts[node.frame.entry]
            trail.leave_out(_steps_in_front(balance, node), _shown(groups))
            return
        trail.say(f"through block {before.number}", before.frame.item.op)
        if before in seen:
            trail.say("a cycle of blocks that takes more than it commits", before.frame.item.op)
            return
        seen.add(before)
        _back_in_block(balance, before, None, True, trail)
        node, before = before, balance.came_from.get(before)


def _steps_in_front(balance: Balance, node: Node) -> int:
    """The steps over the blocks in front of a block; kept, since its waits share them."""
    chain = [node]
    while chain[-1] not in balance.steps:
        balance.steps[chain[-1]] = 0
        if chain[-1] not in balance.came_from:
            break
        chain.append(balance.came_from[chain[-1]])
    for after, before in zip(chain[-2::-1], chain[:0:-1], strict=True):
        balance.steps[after] = balance.steps[before] + 1 + len(balance.of.get(before, ()))
    return balance.steps[node]


def _shown(groups: int) -> int:
    return 0 if groups <= UNBOUNDED // 2 else groups
