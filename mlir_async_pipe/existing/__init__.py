"""Loops that somebody pipelined already, by hand or with another tool.

`slots`: buffers whose slots the loop counts itself are given back their one slot, so that they
can have as many versions as a schedule needs. `prologue`: loops that go on with what is issued
in front of them. `recount`: what such loops can still gain, larger counts.
"""
