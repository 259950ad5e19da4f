"""Counts that are known when the program runs: counters, and a wait for each constant."""
