"""The tokens of a flow graph: what they denote, which conditions matter to them, and when."""
