"""Engines: the same small interface over a model, on a CPU or a CUDA device."""
