"""`python -m accel_cli` is `accel`."""

from accel_cli.commands import main

if __name__ == "__main__":
    main()
