"""What --address leads to, without Ray: tests/cluster has real clusters."""

from __future__ import annotations

import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from ray_work import no_ray

from accel_cli.errors import UsageError
from accel_cli.shards import ray_address
from accel_cli.shards.ray_address import RayError
from accel_cli.shards.ray_cluster import Cluster

Listen = Callable[[bytes], str]
GRPC = bytes(3) + b"\4" + bytes(5)  # the frame that gRPC begins with
LOCKED = "InvalidAuthToken: Authentication token is missing or incorrect. Note: RAY_AUTH_MODE is not set."


@pytest.fixture(autouse=True)
def _variables(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAY_ADDRESS", "RAY_USE_TLS"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Listen at an address, and say something to whoever comes."""
    ends: list[socket.socket] = []

    def begin(says: bytes) -> str:
        listener = socket.create_server(("127.0.0.1", 0))
        ends.append(listener)

        def serve() -> None:
            try:
                while True:
                    connection, _ = listener.accept()
                    ends.append(connection)
                    connection.sendall(says)
            except OSError:
                return

        threading.Thread(target=serve, daemon=True).start()
        return f"127.0.0.1:{listener.getsockname()[1]}"

    yield begin
    for end in ends:
        end.close()


@pytest.fixture
def nobody() -> str:
    """An address where nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"127.0.0.1:{listener.getsockname()[1]}"


class TestAddress:
    @pytest.mark.parametrize("address", ["x", "ray://host:1", "host:", ":6379", "host:port"])
    def test_what_is_none(self, address: str, monkeypatch: pytest.MonkeyPatch) -> None:
        with pytest.raises(
            UsageError, match=f"--address {address} is neither auto, nor local, nor host:port"
        ):
            Cluster(address)
        monkeypatch.setenv("RAY_ADDRESS", address)
        with pytest.raises(UsageError, match=f"RAY_ADDRESS={address} is neither auto"):
            Cluster("auto")

    def test_other_digits(self) -> None:
        with pytest.raises(UsageError, match="is neither auto, nor local, nor host:port"):
            Cluster("host:６３７９")

    def test_colons_without_brackets(self) -> None:
        with pytest.raises(UsageError, match=r"--address ::1:6379: .* stands in brackets; say \[::1\]:6379"):
            Cluster("::1:6379")

    def test_blanks_around_a_variable(self, nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RAY_ADDRESS", f" {nobody} ")
        with pytest.raises(RayError, match=f"no Ray cluster at {nobody}, named by RAY_ADDRESS"):
            Cluster("auto")

    @pytest.mark.parametrize("port", ["0", "65536", "99999"])
    def test_what_is_no_port(self, port: str) -> None:
        with pytest.raises(
            UsageError, match=f"--address host:{port}: .*no port {port}; say one of 1 to 65535"
        ):
            Cluster(f"host:{port}")

    def test_nobody_listens(self, nobody: str) -> None:
        said = (
            rf"no Ray cluster at {nobody} \(Connection refused\); start one with `ray start --head`, or say"
        )
        with pytest.raises(RayError, match=said):
            Cluster(nobody)

    def test_something_else_listens(self, listen: Listen) -> None:
        address = listen(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        said = rf"no Ray cluster at {address} \(what listens there does not speak as Ray does\); start one"
        with pytest.raises(RayError, match=said):
            Cluster(address)

    def test_what_listens_says_nothing(self, listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ray_address, "_PATIENCE", 0.2)
        address = listen(b"")
        with pytest.raises(RayError, match=rf"no Ray cluster at {address} \(what listens there says nothing"):
            Cluster(address)

    def test_another_server_of_grpc(self, listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ray would ask it twenty times, and tell the terminal each time."""
        address = listen(GRPC)
        ray = no_ray("")

        def client(address: str) -> None:
            raise ray.exceptions.RayError("RPC error: Method not found!")

        ray._raylet.GcsClient = client
        monkeypatch.setitem(sys.modules, "ray", ray)
        with pytest.raises(RayError, match=rf"no Ray cluster at {address} \(Method not found\); start one"):
            Cluster(address)

    def test_what_ray_says_is_kept_off_the_terminal(
        self, listen: Listen, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
    ) -> None:
        ray = no_ray("")
        ray._raylet.GcsClient = lambda address: os.write(2, b"Failed to get cluster ID")
        monkeypatch.setitem(sys.modules, "ray", ray)
        Cluster(listen(GRPC)).close()
        os.write(2, b"after")
        assert capfd.readouterr().err == "after"

    def test_a_cluster_that_cannot_be_joined(self, listen: Listen, monkeypatch: pytest.MonkeyPatch) -> None:
        def init(**said: Any) -> None:
            raise ConnectionError("Failed to connect") from RuntimeError("No node info found. Please look.")

        address = listen(GRPC)
        monkeypatch.setitem(sys.modules, "ray", no_ray("", init=init))
        said = (
            rf"cannot join the Ray cluster at {address} \(No node info found\); see .* --address {address}`"
        )
        with pytest.raises(RayError, match=said):
            Cluster(address)


class TestAuto:
    def test_a_dead_variable(self, nobody: str, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("RAY_ADDRESS", nobody)
        with pytest.raises(
            RayError, match=rf"at {nobody}, named by RAY_ADDRESS \(Conn.*\); unset that, name"
        ):
            Cluster("auto")

    @pytest.mark.parametrize("noted", [True, False])
    def test_a_dead_cluster(self, nobody: str, noted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "ray", no_ray(nobody, nobody if noted else None))
        origin = "Ray's file ray_current_cluster" if noted else "a process of Ray in this machine"
        with pytest.raises(
            RayError, match=rf"at {nobody}, named by {origin} \(Connection refused\); start one"
        ):
            Cluster("auto")

    @pytest.mark.parametrize("variable", [None, "", "auto"])
    def test_what_ray_finds(
        self, listen: Listen, variable: str | None, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said: list[dict[str, Any]] = []
        address = listen(GRPC)
        monkeypatch.setitem(sys.modules, "ray", no_ray(address, init=lambda **how: said.append(how)))
        if variable is not None:
            monkeypatch.setenv("RAY_ADDRESS", variable)
        Cluster("auto").close()
        assert [one["address"] for one in said] == [address]

    def test_the_variable_may_say_local(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setitem(sys.modules, "ray", no_ray(AssertionError()))
        monkeypatch.setenv("RAY_ADDRESS", "local")
        Cluster("auto").close()


class TestToken:
    @pytest.fixture
    def ray(self, monkeypatch: pytest.MonkeyPatch) -> Any:
        """A cluster that asks for a token, which this process has in `ray.mine`, once it may be used."""
        ray = no_ray("", mine=True, used=False)
        wrong = type("AuthenticationError", (ray.exceptions.RayError,), {})

        def client(address: str) -> None:
            if not ray.used:
                raise wrong(f"RPC error: {LOCKED}")

        def enable(**how: Any) -> None:
            ray.used = ray.mine

        ray.exceptions.AuthenticationError, ray._raylet.GcsClient = wrong, client
        setup = SimpleNamespace(
            ensure_token_if_auth_enabled=lambda *_, **how: None,
            maybe_enable_token_auth_if_token_available=enable,
        )
        ray._private.authentication = SimpleNamespace(authentication_token_setup=setup)
        monkeypatch.setitem(sys.modules, "ray", ray)
        return ray

    def test_a_cluster_of_this_machine_is_given_it(self, ray: Any, listen: Listen) -> None:
        Cluster(listen(GRPC)).close()
        assert ray.used

    def test_only_if_it_asks(self, ray: Any, listen: Listen) -> None:
        """With a token an actor could not answer where there are none."""
        ray._raylet.GcsClient = lambda address: None
        Cluster(listen(GRPC)).close()
        assert not ray.used

    def test_ray_that_cannot_use_it_by_itself(self, ray: Any, listen: Listen) -> None:
        """As before 2.59, which wants the variable."""
        del ray._private.authentication.authentication_token_setup.maybe_enable_token_auth_if_token_available
        with pytest.raises(RayError, match=r"refuses the run .*set RAY_AUTH_MODE=token"):
            Cluster(listen(GRPC))

    def test_no_other_machine_is_told(self, ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(ray_address.Place, "reach", lambda place: False)
        with pytest.raises(RayError, match=r"refuses the run .*set RAY_AUTH_MODE=token"):
            Cluster("far.away:6379")
        assert not ray.used

    def test_there_is_none(self, ray: Any, listen: Listen) -> None:
        ray.mine = False
        address = listen(GRPC)
        said = rf"{address}: this Ray cluster refuses the run \(Inv[^.]* incorrect\); .* RAY_AUTH_MODE=token"
        with pytest.raises(RayError, match=said):
            Cluster(address)


class TestJoining:
    def test_only_a_cluster_of_our_own_is_set_up(
        self, listen: Listen, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        said: list[dict[str, Any]] = []
        ray = no_ray("", init=lambda **how: said.append(how), shutdown=lambda: said.append({}))
        monkeypatch.setitem(sys.modules, "ray", ray)
        mine = "RAY_enable_autoscaler_v2"
        monkeypatch.setattr(os, "environ", {mine: "0"})
        with Cluster(listen(GRPC)):
            assert set(said[-1]) == {"address", "logging_level", "log_to_driver"}
            assert set(os.environ) == {mine, "RAY_USAGE_STATS_ENABLED"}
        assert said.pop() == {}
        said.clear()
        with Cluster("local") as cluster:
            assert not said, "it is started when it is needed"
            assert cluster.ray is ray
            assert cluster.ray is ray
        assert [one.get("include_dashboard") for one in said] == [False, None]
        assert os.environ.pop(mine) == "0", "what the user says holds"
        assert "RAY_raylet_client_connect_timeout_milliseconds" in os.environ

    def test_the_main_thread_takes_signals(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And the one that starts a cluster stays until its end: Linux ends the processes with it."""
        seen: list[threading.Thread] = []
        ray = no_ray("", init=lambda **how: seen.append(threading.current_thread()))
        monkeypatch.setitem(sys.modules, "ray", ray)
        monkeypatch.setattr(os, "environ", {})
        with Cluster("local") as cluster:
            assert cluster.ray is ray
            assert seen[0] is not threading.main_thread()
            assert seen[0].is_alive()
        seen[0].join(10)
        assert not seen[0].is_alive()

    def test_a_cluster_of_our_own_that_does_not_start(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def init(**said: Any) -> None:
            raise RuntimeError("The node is full. Please\nlook.")

        monkeypatch.setitem(sys.modules, "ray", no_ray("", init=init))
        monkeypatch.setattr(os, "environ", {})
        said = r"--address local: Ray does not start \(The node is full\); its logs"
        with Cluster("local") as cluster, pytest.raises(RayError, match=said):
            _ = cluster.ray
