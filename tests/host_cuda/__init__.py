"""CUDA kernels on the CPU: see docs/testing.md."""
