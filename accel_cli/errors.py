"""Every failure that a user can cause or mend: one sentence with cause, value and remedy."""

from __future__ import annotations


class AccelWarning(UserWarning):
    """Something that the user should know, and that the work goes on without."""


class AccelError(Exception):
    """A failure with a message meant for the user; the command line exits with `exit_code`."""

    exit_code = 1


class UsageError(AccelError):
    """The command was called in a way that cannot work."""

    exit_code = 2


class ConfigError(AccelError):
    """A configuration file is missing, malformed or contradicts itself."""


class WeightsError(AccelError):
    """A weights, vocabulary or golden file is missing, damaged or does not fit the configuration."""


class InputError(AccelError):
    """An input file cannot be read as what it claims to be."""


class RecordError(InputError):
    """A record of an input has no text, or bytes that are not UTF-8; `--on-error replace` goes on past it."""


class OutputError(AccelError):
    """An output cannot be written."""


class DeviceError(AccelError):
    """The device asked for is absent, unsuited or has failed."""
