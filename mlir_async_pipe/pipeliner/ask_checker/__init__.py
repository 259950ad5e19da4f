"""Passes that edit, ask the checker, and keep or undo.

Public: `insert_barriers`, `drop_barriers`, `drop_drains`, `attach_tokens` (relaxes waits, and recounts loops that are pipelined already).
Imports checker and waits.
"""
