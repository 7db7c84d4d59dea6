"""docs/serving.md says what is so."""

from __future__ import annotations

import re
from typing import Any

import click
import httpx
import yaml
from conftest import ROOT

from accel_cli.commands import cli

DOCS = (ROOT / "docs/serving.md").read_text()


def fenced(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", DOCS, re.DOTALL)
    assert found
    return found.group(1)


def test_every_option_of_its_own_is_documented() -> None:
    command = cli.get_command(click.Context(cli), "serve")
    assert command is not None
    for option in command.params:
        name = option.opts[0]
        if name not in (
            "--config",
            "--device",
            "--precision",
            "--batch",
            "--streams",
            "--kernel-debug",
            "--kernels",
        ):
            assert f"`{name}" in DOCS or f" {name} " in DOCS, name


def test_every_address_is_served(client: httpx.Client) -> None:
    table = DOCS.partition("## Addresses")[2].partition("### ")[0]
    rows = re.findall(r"^\| (`.*?) \|", table, re.MULTILINE)
    assert len(rows) >= 9
    for row in rows:
        method = row.partition(" ")[0].strip("`")
        for path in re.findall(r"(/[^`,]*)`", row):
            code = client.request(method, path.replace("NAME", "tiny")).status_code
            assert code == (200 if method == "GET" else 400), path


def test_every_metric_is_there(client: httpx.Client) -> None:
    client.post("/predict", json={"inputs": "good"})
    text = client.get("/metrics").text
    for name in re.findall(
        r"`(accel_[a-z_]+)", DOCS.partition("## Metrics")[2].partition("Worth an alert")[0]
    ):
        assert f"# TYPE {name} " in text or f"# TYPE {name}_info " in text, name


def test_the_probes_of_kubernetes(client: httpx.Client) -> None:
    deployment, service = yaml.safe_load_all(fenced("yaml"))
    pod: dict[str, Any] = deployment["spec"]["template"]["spec"]
    [container] = pod["containers"]
    for probe, path in (("startup", "/ready"), ("readiness", "/ready"), ("liveness", "/health")):
        assert container[f"{probe}Probe"]["httpGet"] == {"path": path, "port": 8000}
        assert client.get(path).status_code == 200
    assert pod["terminationGracePeriodSeconds"] > 5 + 30
    assert pod["enableServiceLinks"] is False
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["containerPort"]
