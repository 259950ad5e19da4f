"""Control flow, with one meaning: what may run after what, and what each place is handed.

Made from the rows of `vocabulary.control_flow`, so an op with regions or successors that gets a
row there is followed by every analysis. Public: `origins` (what a value may come from). Imports
bindings and vocabulary; nothing here knows what an analysis is for.
"""
