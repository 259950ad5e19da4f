"""The path that shows why a count is no larger, found backwards through the solution."""
