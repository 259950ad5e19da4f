"""NVIDIA: PTX and cubin, shared memory, and reading counts back from both."""
