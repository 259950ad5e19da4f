"""PTX as a source: its text, its instructions as ops, its kernels as functions."""
