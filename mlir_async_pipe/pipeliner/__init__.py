"""From an annotated loop to a pipeline, in the order in which it runs: `normalise` writes the input in one form,
`dependence` says what must stay in order, `schedule` chooses stages, `plan` decides, `expand` writes, and
`ask_checker` keeps what the proof allows. `async_pipe_pass` is the tuple of all."""
