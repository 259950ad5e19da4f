"""A result as people read it: what each pipelined loop looks like, as pictures and as a page.

Public: `limits` (prologue, kernel and epilogue of a loop, found in the IR), `pictures` (SVG of
stages, versions, groups), `page` (a report as HTML). Imports loops, flow, the vocabulary, the
bindings and the session; no pass knows of it.
"""
