"""The proof: no access races, on any path, in any thread. `check_pass` is `async-pipe-check`.

Public: `check_pass`, `kernel.check_kernel`. Imports values, vocabulary and what they stand on.
"""
