from host_cuda.backends import backend  # noqa: F401
from host_cuda.planting import plant  # noqa: F401
