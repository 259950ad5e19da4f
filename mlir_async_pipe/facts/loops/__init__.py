"""A loop as it was annotated: its attributes, its statements, its copies, its trip count.

Public: `annotations`, `statements`, `needed_statements`, `mark_independent`,
`trip_count`. Imports values and what that stands on.
"""
