from host_cuda.backends import backend  # noqa: F401
