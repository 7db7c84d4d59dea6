"""`python -m accel_cli` is `accel`. Nothing is imported before Ctrl-C can end it quietly."""

import os


def main() -> None:
    """Run the command line and exit."""
    try:
        from accel_cli import commands

        commands.main()
    except KeyboardInterrupt:
        os._exit(130)


if __name__ == "__main__":
    main()
