"""Passes that edit, ask the checker, and keep or undo.

Public: `insert_barriers`, `drop_barriers`, `drop_drains`, `relax_waits`, `attach_tokens`, `recount_existing`.
Imports checker and waits.
"""
