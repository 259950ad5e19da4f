"""What is known about one value: linear form, range, set of numbers, alignment, whether all
threads agree on it, and the memory that it points to.

Public: every module. Imports bindings, session and vocabulary; nothing here knows of loops that
are pipelined.
"""
