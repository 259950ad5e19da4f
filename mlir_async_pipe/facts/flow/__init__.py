"""Control flow, with one meaning: what may run after what, and what each place is given.

Made from the rows of `vocabulary.control_flow`, so an op with regions or successors that gets a
row there is followed by every analysis; one without is an `UNKNOWN` frame of the graph. Public:
`region_flow` between an op and its regions, `frames` with the edges between their blocks, `origins`,
`flow_graph` (with `items`, `layout`, `conditions`), `algorithms`, `solver`. Imports bindings,
session and vocabulary; nothing here knows what an analysis is for.
"""
