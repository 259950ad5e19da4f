"""Passes that edit, ask the checker, and keep or undo: `needed_barriers` (barriers that are missing or needless, and drains),
`attach_tokens` (relaxes waits, and recounts loops that are pipelined already). Imports checker and waits."""
