"""The experiments of `accel bench --suite`, each a question, small kernels and a table: see docs/lab.md."""
