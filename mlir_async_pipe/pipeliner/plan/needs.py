"""Which async groups must be over before which unit.

Every need's group is committed before the unit that needs it: the source runs before the
target (`legality`), and a group holds neighbours in kernel order of one stage without a
conflict between them (`groups`), so no target stands between a member and the commit. The
only wait that could come before its commit, of a consumer inside its producer's group, is
split into two groups instead.
"""

from __future__ import annotations

from typing import NamedTuple

from mlir_async_pipe.pipeliner.dependence.memory_dependences import Dependence
from mlir_async_pipe.pipeliner.dependence.regions import CoveredRegion
from mlir_async_pipe.pipeliner.plan.buffer_plan import BufferPlan
from mlir_async_pipe.pipeliner.plan.form_groups import Group
from mlir_async_pipe.pipeliner.plan.sync_state import PlannedWait
from mlir_async_pipe.pipeliner.plan.units import Unit, Units
from mlir_async_pipe.pipeliner.plan.version_rules import BufferUse, reuses


class Need(NamedTuple):
    """Before `unit` runs for iteration k, `group` of iteration k - distance must be over.

    Below 0 where a later iteration has the slot first, because its stage is earlier."""

    unit: Unit
    group: Group
    distance: int

    @property
    def wait(self) -> PlannedWait:
        """The wait that stands before the unit."""
        return PlannedWait(self.group, self.distance, self.unit.stage)

    @property
    def lag(self) -> int:
        """Kernel steps between the commit of the group and this unit."""
        return self.wait.lag


def needs_of(dependences: list[Dependence], units: Units, group_of: dict[int, Group]) -> list[Need]:
    """A wait for each dependence whose source is async and in another unit or iteration."""
    needs = []
    for dependence in dependences:
        source = units.unit_of(dependence.source.top)
        target = units.unit_of(dependence.target.top)
        if not source.asynchronous:
            continue
        if source.position == target.position and dependence.distance == 0:
            continue
        needs.append(Need(target, group_of[source.position], dependence.distance))
    return list(dict.fromkeys(needs))


def reuse_needs(
    buffers: tuple[BufferPlan, ...], units: Units, group_of: dict[int, Group]
) -> list[Need]:
    """Async accesses of a slot must be over when the next iteration that has it writes it."""
    needs = []
    for buffer in buffers:
        uses = uses_of(buffer.regions, units, group_of)
        for first, second in sorted(buffer.meeting):
            x, w = uses[first], uses[second]
            if x.group is not None and w.writes:
                source, target = (units.unit_of(buffer.regions[i].top) for i in (first, second))
                group = group_of[source.position]
                needs += [Need(target, group, d) for d in reuses(x, w, buffer.versions) if d]
    return list(dict.fromkeys(needs))


def uses_of(
    regions: tuple[CoveredRegion, ...], units: Units, group_of: dict[int, Group]
) -> list[BufferUse]:
    """The accesses of one buffer as the rules of `versions` see them."""
    found = []
    for number, region in enumerate(regions):
        unit = units.unit_of(region.top)
        group = group_of.get(unit.position) if unit.asynchronous else None
        found.append(
            BufferUse(
                unit.stage,
                unit.position,
                region.writes,
                None if group is None else group.position,
                None if group is None else group.queue,
                number,
                region.access is None or region.access.kind == "atomic",
            )
        )
    return found
