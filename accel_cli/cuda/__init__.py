"""CUDA: device facts, compiling and caching, launching, buffers. CuPy is imported here and nowhere else."""
