"""accel plan-scale: closed forms, the simulation against them, and what it says when figures are missing."""

from __future__ import annotations

import json
from dataclasses import replace
from math import ceil, exp
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT
from hypothesis import given
from hypothesis import strategies as st

from accel_cli.commands.plan_scale import Quantity, command
from accel_cli.errors import InputError, UsageError
from accel_cli.scale.estimate import Estimate, Node, Pace, Resource, fleet, nodes_for, resources
from accel_cli.scale.figures import load_figures
from accel_cli.scale.plan import Question, longest_row, plan
from accel_cli.scale.simulation import Work, simulate

# as the benches wrote them once, so that new figures in docs/results change no test
GPU, CPU = (str(ROOT / "tests" / "figures" / f"sentiment-{name}.json") for name in ("h200", "cpu"))


class TestSimulation:
    @given(st.integers(1, 200), st.integers(1, 40), st.floats(0.1, 1e4), st.floats(0, 100))
    def test_without_faults_it_takes_whole_rounds(
        self, shards: int, workers: int, seconds: float, load: float
    ) -> None:
        found = simulate(Work(shards, workers, seconds, load))
        assert found.seconds == pytest.approx(load + ceil(shards / workers) * seconds)
        assert found.tail_seconds == pytest.approx(seconds)
        assert (found.deaths, found.retried, found.given_up, found.lost_seconds) == (0, 0, 0, 0)

    def test_a_slow_worker_takes_fewer_shards(self) -> None:
        """Two shards on the sound worker in the time of one on the slow one: 4 and 2 of 6."""
        assert simulate(Work(6, 2, 10.0, slow_workers=0.5, slow_factor=2.0)).seconds == 40.0

    def test_a_last_shard_on_a_slow_worker_is_the_tail(self) -> None:
        found = simulate(Work(2, 2, 10.0, slow_workers=0.5, slow_factor=7.0))
        assert (found.seconds, found.tail_seconds) == (70.0, 70.0)

    @given(st.integers(1, 100), st.integers(1, 20), st.floats(0, 1), st.floats(1, 5), st.integers(0, 99))
    def test_it_stays_within_the_bounds_of_list_scheduling(
        self, shards: int, workers: int, slow: float, factor: float, seed: int
    ) -> None:
        work = Work(shards, workers, 1.0, slow_workers=slow, slow_factor=factor, seed=seed)
        pace = workers - round(slow * workers) * (1 - 1 / factor)  # shards a second of all together
        assert shards / pace <= simulate(work).seconds + 1e-9
        assert simulate(work).seconds <= shards / pace + factor + 1e-9

    def test_deaths_cost_what_the_closed_form_says(self) -> None:
        """One worker, tries without end: (1 / rate + restart) (exp(rate * seconds) - 1) a shard."""
        rate, seconds, restart = 1 / 50.0, 40.0, 5.0
        work = Work(
            20_000, 1, seconds, between_deaths=1 / rate, restart_seconds=restart, attempts=1000, seed=1
        )
        expected = (1 / rate + restart) * (exp(rate * seconds) - 1)
        found = simulate(work)
        assert found.seconds / work.shards == pytest.approx(expected, rel=0.03)
        assert found.given_up == 0
        assert found.deaths == found.retried

    def test_a_shard_whose_worker_died_comes_after_all_new_ones(self) -> None:
        """Of two workers one dies, and the tail begins before the shard that it lost is tried again."""
        work = Work(40, 2, 10.0, between_deaths=150.0, restart_seconds=1e6, attempts=9, seed=1)
        found = simulate(work)
        assert found.retried == found.deaths > 0
        assert found.tail_seconds > 10.0

    def test_a_shard_is_given_up_after_its_attempts(self) -> None:
        work = Work(2_000, 7, 10.0, between_deaths=10.0, attempts=2, seed=3)
        found = simulate(work)
        twice = (1 - exp(-1)) ** 2
        assert found.given_up / work.shards == pytest.approx(twice, rel=0.1)
        assert found.deaths == found.retried + found.given_up

    def test_all_are_given_up_if_no_worker_lives_long_enough(self) -> None:
        found = simulate(Work(5, 2, 1e9, between_deaths=1.0, attempts=1))
        assert (found.given_up, found.deaths, found.retried) == (5, 5, 0)

    def test_the_seed_decides(self) -> None:
        work = Work(100, 7, 10.0, between_deaths=200.0, seed=5)
        assert simulate(work) == simulate(work)
        assert simulate(work) != simulate(replace(work, seed=6))

    def test_more_workers_than_shards_end_after_one(self) -> None:
        assert simulate(Work(3, 1000, 2.0, load_seconds=1.0)).seconds == 3.0


class TestClosedForm:
    PACE = Pace("GPU", "measured", 1000.0, 100.0, 900.0, 1100.0, 4000.0, core_seconds=2e-3, load_seconds=1.0)

    def test_what_each_resource_stands(self) -> None:
        node = Node(units=8, cores=32, storage=1e6, network=5e5)
        rates = {one.name: one.text_rate for one in resources(self.PACE, node, row_bytes=25.0)}
        assert rates == pytest.approx(
            {
                "text to rows": 8 * 1000 * 100,
                "of that, the model from token ids": 8 * 4000 * 100,
                "host cores": 32 / 2e-3 * 100,
                "storage": 1e6 / 1.25,  # a quarter of the text is written again
                "network": 5e5,  # rows go the other way
            }
        )

    def test_rows_longer_than_their_text_fill_the_network(self) -> None:
        node = Node(1, network=600.0)
        assert resources(self.PACE, node, row_bytes=300.0)[-1].text_rate == pytest.approx(200.0)

    def test_what_is_not_known_is_left_out(self) -> None:
        assert [one.name for one in resources(Pace("GPU", "given", 1.0, 1.0), Node(1), 1.0)] == [
            "text to rows"
        ]

    def test_the_slowest_resource_is_full_first(self) -> None:
        estimate = Estimate(3.6e6, [Resource("a", "given", 100.0), Resource("b", "given", 10.0)], nodes=5)
        assert estimate.first.name == "b"
        assert estimate.hours == pytest.approx(20.0)

    @given(st.floats(1e9, 1e15), st.floats(1e3, 1e10), st.floats(0.01, 1000))
    def test_the_fewest_nodes_that_keep_the_deadline(self, size: float, rate: float, hours: float) -> None:
        nodes = nodes_for(size, rate, hours)
        assert size / (rate * nodes) / 3600 <= hours * (1 + 1e-9)
        assert nodes == 1 or size / (rate * (nodes - 1)) / 3600 > hours * (1 - 1e-9)

    def test_a_fleet_costs_its_hours(self) -> None:
        found = fleet("x", self.PACE, 3.6e9, hours=2.5, price=3.0)
        assert (found.unit_hours, found.units, found.cost) == (pytest.approx(10.0), 4, pytest.approx(30.0))
        assert fleet("x", self.PACE, 3.6e9, 2.5, None).cost is None


class TestFigures:
    def test_the_row_from_files_is_taken(self) -> None:
        document = json.loads(Path(GPU).read_text())
        row = next(row for row in document["rows"] if row["clock"] == "file")
        found = load_figures(GPU)
        assert (found.rate, found.slowest) == (row["sentences_per_s"], row["slowest"])
        assert not found.on_cpu
        assert load_figures(CPU).unit == "core"

    def test_the_bytes_of_a_sentence_come_from_the_figures(self, tmp_path: Path) -> None:
        path = _spoiled(tmp_path, lambda document: document["sentences"].update(bytes=16384 * 70))
        assert load_figures(path).sentence_bytes == 70
        assert plan(Question(1e12, figures=path, sentence_bytes=5.0)).pace.sentence_bytes == 70

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            ("", "no JSON"),
            ("[" * 100_000, "no JSON"),
            ("[]", "has not the figures"),
            ("{}", "KeyError: 'rows'"),
            ('{"rows": 3}', "has not the figures"),
            ('{"rows": []}', "no warm row of accel by the clock `file`"),
        ],
    )
    def test_what_are_no_figures_is_refused(self, tmp_path: Path, content: str, message: str) -> None:
        path = tmp_path / "x.json"
        path.write_text(content)
        with pytest.raises(InputError, match=message):
            load_figures(str(path))

    @pytest.mark.parametrize("value", [0, -1.0, None, "9", True, float("nan"), float("inf")])
    def test_a_figure_that_is_no_rate_is_refused(self, tmp_path: Path, value: object) -> None:
        path = _spoiled(tmp_path, lambda document: document["rows"][-1].update(sentences_per_s=value))
        with pytest.raises(InputError, match="is no positive number"):
            load_figures(path)

    def test_a_file_that_is_not_there_is_named(self) -> None:
        with pytest.raises(InputError, match=r"nowhere\.json: No such file"):
            load_figures("nowhere.json")


class TestPlan:
    def test_a_deadline_says_how_many_nodes(self) -> None:
        found = plan(_asked(deadline=24.0))
        assert found.estimate.hours <= 24.0
        assert plan(_asked(nodes=found.estimate.nodes - 1)).estimate.hours > 24.0

    def test_one_node_unless_more_is_said(self) -> None:
        assert plan(_asked()).estimate.nodes == 1

    def test_a_slow_network_is_full_first(self) -> None:
        assert plan(_asked(network=1e6)).estimate.first.name == "network"

    def test_cores_of_a_cpu_are_its_units(self) -> None:
        found = plan(_asked(figures=CPU, units=64))
        assert found.pace.unit == "core"
        assert found.pace.rate == pytest.approx(load_figures(CPU).rate / 2)
        assert any("measured on 2 cores" in note for note in found.notes)

    def test_without_figures_all_is_given(self) -> None:
        found = plan(Question(1e12, sentences_per_s=1e6, sentence_bytes=50.0))
        assert found.estimate.hours == pytest.approx(1e12 / 5e7 / 3600)
        assert {one.basis for one in found.estimate.resources} == {"given"}

    def test_a_given_rate_is_not_called_measured(self) -> None:
        found = plan(_asked(sentences_per_s=3e7))
        assert {one.basis for one in found.estimate.resources} == {"given"}
        assert found.pace.load_seconds > 0
        assert "not measured: from text to rows; the rate was given" in found.notes

    def test_what_was_not_measured_is_said(self) -> None:
        notes = " ".join(plan(_asked()).notes)
        for word in ("fastText", "storage", "network", "bytes of a sentence", "no cost"):
            assert word in notes
        notes = " ".join(plan(_asked(fasttext=1.0, storage=1.0, network=1.0, gpu_price=1.0)).notes)
        for word in ("fastText", "storage", "network", "no cost"):
            assert word not in notes

    def test_fleets_are_compared_by_what_is_paid_for(self) -> None:
        found = plan(_asked(nodes=10, against=(CPU,), fasttext=1e5, gpu_price=2.0, core_price=0.5))
        names = [one.name for one in found.fleets]
        assert names == ["accel on NVIDIA H200", "accel on AMD EPYC", "fastText"]
        assert [one.cost for one in found.fleets] == pytest.approx(
            [one.unit_hours * price for one, price in zip(found.fleets, (2.0, 0.5, 0.5), strict=True)]
        )
        assert found.fleets[0].unit_hours == pytest.approx(10 * found.estimate.hours)

    def test_waiting_units_are_paid_for_too(self) -> None:
        free, held = (plan(_asked(nodes=10, network=rate)).fleets[0] for rate in (None, 1e6))
        assert held.unit_hours > free.unit_hours

    def test_shards_are_simulated_sound_and_faulty(self) -> None:
        found = plan(_asked(nodes=4, shard_sizes=(10**9, 10**10), slow_workers=0.5, hours_between_deaths=1e3))
        assert [one.work.slow_workers for one in found.tails] == [0, 0.5, 0, 0.5]
        assert [one.work.shards for one in found.tails] == [1000, 1000, 100, 100]
        sound, faulty = found.tails[:2]
        hours = found.estimate.hours * 3600
        assert sound.outcome.seconds == pytest.approx(hours + found.pace.load_seconds)
        assert faulty.outcome.seconds > sound.outcome.seconds

    def test_the_longest_row_is_what_is_written(self) -> None:
        assert longest_row(["no", "yes"]) == longest_row(["yes", "no"]) == longest_row(["a", "xx"]) + 1

    @pytest.mark.parametrize(
        ("changed", "message"),
        [
            ({"figures": None}, "no figures to plan with"),
            ({"sentence_bytes": None}, "does not say how long its sentences are; give --sentence-bytes"),
            ({"config": "school"}, "measured 'sentiment', not 'school'"),
            (
                {"figures": CPU, "cores": 4},
                "--cores 4: what a sentence costs the host beside a GPU is not known",
            ),
            ({"sentences_per_s": 1e6, "cores": 4}, "--cores 4: "),
            ({"shard_sizes": (10**5,)}, "are 10000000, more than 1000000; raise --shard-size"),
            ({"nodes": 1 << 20, "units": 2}, "workers are more than 1000000"),
            ({"hours_between_deaths": 0.01}, "lower --shard-size"),
        ],
    )
    def test_what_cannot_be_planned_is_refused(self, changed: dict[str, Any], message: str) -> None:
        with pytest.raises(UsageError, match=message):
            plan(_asked(**changed))


class TestCommand:
    def test_tables_and_json(self, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        path = tmp_path / "plan.json"
        line = ["--figures", GPU, "--bytes", "1T", "--sentence-bytes", "100", "--json", str(path)]
        command.main([*line, "--gpu-price", "3", "--hours-between-deaths", "900"], standalone_mode=False)
        shown, found = capsys.readouterr().out, json.loads(path.read_text())
        assert "full first: text to rows" in shown
        assert "not measured: fastText" in shown
        assert found["first"] == "text to rows"
        assert found["text_bytes"] == 1e12
        assert found["figures"][0]["commit"] == json.loads(Path(GPU).read_text())["commit"]
        assert [one["hours_between_deaths"] for one in found["tails"]] == [None, 900.0]
        assert (
            found["rows"][0]["hours_fastest"] < found["rows"][0]["hours"] < found["rows"][0]["hours_slowest"]
        )

    def test_json_on_stdout_stands_alone(self, capfd: pytest.CaptureFixture[str]) -> None:
        line = ["--sentences-per-s", "1e6", "--sentence-bytes", "50", "--json", "-"]
        command.main(line, standalone_mode=False)
        assert json.loads(capfd.readouterr().out)["unit"] == "GPU"

    @pytest.mark.parametrize(
        ("text", "value"),
        [("1P", 1e15), ("2.5TB", 2.5e12), ("400g", 4e11), ("64M", 6.4e7), ("1kb", 1e3), ("7", 7)],
    )
    def test_sizes(self, text: str, value: float) -> None:
        assert Quantity().convert(text, None, None) == value

    @pytest.mark.parametrize("text", ["", "0", "-1G", "1X", "1e9", "G", "1 GB", "9" * 40, "nan"])
    def test_what_is_no_size(self, text: str) -> None:
        with pytest.raises(Exception, match="is no size"):
            Quantity().convert(text, None, None)


def _asked(**changed: Any) -> Question:
    """A terabyte by the figures of a GPU, which are older than the bytes of a sentence."""
    return replace(Question(1e12, figures=GPU, sentence_bytes=100.0), **changed)


def _spoiled(folder: Path, change: Any) -> str:
    document = json.loads(Path(GPU).read_text())
    change(document)
    path = folder / "spoiled.json"
    path.write_text(json.dumps(document))
    return str(path)
