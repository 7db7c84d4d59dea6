"""What a run has come to."""

from __future__ import annotations

import pytest
from conftest import ours

from accel_cli.errors import AccelError, InputError, RecordError
from accel_cli.shards.shard import Shard
from accel_cli.shards.tally import ShardsFailed, Tally
from accel_cli.text.span import Span

SHARDS = [Shard(number, "a.txt", "text", None, Span(number * 10, number * 10 + 10)) for number in range(9)]


def test_progress_is_summed_up_over_workers() -> None:
    shown: list[tuple[int, int]] = []
    tally = Tally(show=lambda sentences, read: shown.append((sentences, read)))
    tally.progress(SHARDS[0], 2, 20)
    tally.progress(SHARDS[1], 1, 5)
    tally.progress(SHARDS[0], 3, 30)
    tally.progress(SHARDS[1], 0, 0)  # it is tried once more
    assert shown == [(2, 20), (3, 25), (4, 35), (3, 30)]


def test_the_plan_is_told_once() -> None:
    told: list[str] = []
    tally = Tally(told.append)
    tally.loaded("device=cuda:0")
    tally.loaded("device=cuda:1")
    assert told == ["device=cuda:0"]


def test_failures_are_named_in_order() -> None:
    tally = Tally()
    tally.check()
    tally.failed(SHARDS[4], "killed")
    tally.failed(SHARDS[1], "lost")
    with pytest.raises(ShardsFailed) as caught:
        tally.check()
    assert str(caught.value) == (
        "failed twice: a.txt, bytes 10 to 19 (lost); a.txt, bytes 40 to 49 (killed); mend the cause, then go"
        " on with --resume"
    )


def test_many_failures_are_not_all_named() -> None:
    tally = Tally()
    for shard in SHARDS:
        tally.failed(shard, "why")
    with pytest.raises(ShardsFailed, match=r"bytes 40 to 49 \(why\); and 4 more; mend the cause"):
        tally.check()


def test_a_retry_is_told_once_and_the_place_of_its_record_too(recwarn: pytest.WarningsRecorder) -> None:
    tally = Tally()
    tally.retried(SHARDS[1], f"{SHARDS[1]}, row 3 there: lost")
    tally.retried(SHARDS[1], "its worker died")
    tally.retried(SHARDS[2], "its worker died")
    assert ours(recwarn) == [
        "a.txt, bytes 10 to 19 failed (row 3 there: lost); it is tried once more",
        "a.txt, bytes 20 to 29 failed (its worker died); it is tried once more",
    ]


@pytest.mark.parametrize("error", [RecordError, InputError])
def test_what_can_be_done_depends_on_the_worst_error(error: type[AccelError]) -> None:
    tally = Tally()
    tally.failed(SHARDS[1], f"{SHARDS[1]}, line 3 there: not valid JSON", error)
    tally.failed(SHARDS[2], "its worker died")
    with pytest.raises(
        error, match=r"^failed: a.txt, bytes 10 to 19 \(line 3 there: not valid JSON\); a"
    ) as caught:
        tally.check()
    assert isinstance(caught.value, ShardsFailed)
    assert isinstance(caught.value, RecordError) == (error is RecordError)
