"""Benchmarks: what a plan's throughput is, checked before it is timed, and what stands inside each clock."""
