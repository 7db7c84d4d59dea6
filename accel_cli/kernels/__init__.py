"""Host twins: one module a kernel of kernels_cu/, with its geometry and its typed launch."""
