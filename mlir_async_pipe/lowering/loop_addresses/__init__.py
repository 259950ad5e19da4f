"""Addresses and counters in the loops of LLVM code, for both vendors."""
