"""The min-plus algebra of counts: rows of distances, summaries of loops and functions, their solution."""
