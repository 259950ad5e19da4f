"""The min-plus algebra of counts: rows of distances, summaries of loops and functions, and
their solution."""
