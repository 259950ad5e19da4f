"""Writes what was planned: each step of prologue, kernel and epilogue. Nothing here can fail."""
