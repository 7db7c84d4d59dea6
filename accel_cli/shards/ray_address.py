"""Where a Ray cluster should be by what --address says, and whether anything like one answers there."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass

from accel_cli.errors import AccelError, UsageError

_PATIENCE = 10.0  # seconds to be let in, and as many to be greeted
_VARIABLE = "RAY_ADDRESS"
_LOCAL = "or say --address local"
_START = "start one with `ray start --head`, name one as --address host:port, " + _LOCAL
_TOKEN = "have its token in ~/.ray/auth_token or RAY_AUTH_TOKEN, and set RAY_AUTH_MODE=token"
# HTTP/2, which gRPC speaks: what a client says first, and what frame comes back of any length
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes.fromhex("000000 04 00 00000000")
_SETTINGS = bytes.fromhex("04 00 00000000")


class RayError(AccelError):
    """There is no cluster, or it cannot run workers."""


@dataclass(frozen=True)
class Place:
    """A cluster's host:port. `origin` is what named it, unless --address did; `remedy` is for its absence."""

    address: str
    origin: str = ""
    remedy: str = "start one with `ray start --head`, " + _LOCAL

    def __str__(self) -> str:
        return f"{self.address}, named by {self.origin}" if self.origin else self.address

    def absent(self, error: Exception) -> RayError:
        """What to say when there is no cluster."""
        return RayError(f"no Ray cluster at {self} ({brief(error)}); {self.remedy}")

    def locked(self, error: Exception) -> RayError:
        """What to say when it wants a token."""
        return RayError(f"{self}: this Ray cluster refuses the run ({brief(error)}); {_TOKEN}")

    def unfit(self, error: Exception) -> RayError:
        """What to say when it answers, but cannot be joined."""
        reason = brief(error.__cause__ or error)
        return RayError(
            f"cannot join the Ray cluster at {self} ({reason}); see that this machine is one of its nodes"
            f" (`ray start --address {self.address}`), with the same Ray and Python"
        )

    def reach(self) -> bool:
        """See that something answers there as Ray would, which tries for minutes itself; whether it is here.

        Here is this machine. Raises RayError if nothing answers, UsageError if that is no address.
        """
        host, _, port = self.address.rpartition(":")
        said = f"RAY_ADDRESS={self.address}" if self.origin == _VARIABLE else f"--address {self.address}"
        if not host or "/" in host or not (port.isascii() and port.isdecimal()):
            raise UsageError(f"{said} is neither auto, nor local, nor host:port; say one of them")
        if ":" in host and not host.startswith("["):
            raise UsageError(f"{said}: an address of IPv6 stands in brackets; say [{host}]:{port}")
        if not 1 <= int(port) <= 65535:
            raise UsageError(f"{said}: there is no port {port}; say one of 1 to 65535")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout=_PATIENCE) as connection:
                if os.environ.get("RAY_USE_TLS", "0").lower() not in ("1", "true"):
                    _greet(connection)
                # a connection within a machine has one address at both ends
                return bool(connection.getsockname()[0] == connection.getpeername()[0])
        except (OSError, UnicodeError) as error:
            raise self.absent(error) from error


def named(address: str) -> Place | None:
    """The place that --address or RAY_ADDRESS names; None for `auto`, which Ray has to look for."""
    if address != "auto":
        return Place(address)
    said = os.environ.get(_VARIABLE, "").strip() or "auto"
    if said == "auto":
        return None
    return Place(said, _VARIABLE, f"unset that, name another one as --address host:port, {_LOCAL}")


def found(address: str, noted: str | None) -> Place:
    """The place of `auto`: what Ray has looked up. The last `ray start` has `noted` one in a file."""
    origin = "Ray's file ray_current_cluster" if address == noted else "a process of Ray in this machine"
    return Place(address, origin, _START)


def nowhere(error: Exception) -> RayError:
    """What to say when `auto` leads nowhere."""
    return RayError(f"--address auto: no Ray cluster runs here ({brief(error)}); {_START}")


def _greet(connection: socket.socket) -> None:
    """OSError unless gRPC answers."""
    connection.sendall(_HELLO)
    try:
        answer = connection.recv(9)
    except TimeoutError:
        raise OSError("what listens there says nothing, and so is not Ray") from None
    if answer[3:] != _SETTINGS:
        raise OSError("what listens there does not speak as Ray does")


def brief(error: BaseException) -> str:
    """What an error is in one line, without Ray's advice after it."""
    said = (isinstance(error, OSError) and error.strerror) or str(error)
    line = " ".join(said.split()).partition(". ")[0].removeprefix("RPC error: ")
    return line.rstrip(".:!") or type(error).__name__
