"""The model: its configuration, its weights, the float64 reference and the exact rewrites."""
