"""The pass `async-pipe-tokens`: groups for waits that were written with counts."""
