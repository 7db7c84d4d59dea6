"""accel_cli.torch: operators, modules, models from PyTorch. All of it needs PyTorch."""
