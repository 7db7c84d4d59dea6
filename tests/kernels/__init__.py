"""Every kernel against numpy, on both backends."""
