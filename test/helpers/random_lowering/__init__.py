"""Random kernels for the last mile: chosen (spec), written (kernel_text), modelled in NumPy
(model), lowered and run by the PTX machine (judge)."""
