"""What accel bench classifies, and the work that it counts in it."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accel_cli.batches import TokenBatch
from accel_cli.bench import inputs, work
from accel_cli.classifier import Classifier
from accel_cli.engines.base import Plan
from accel_cli.errors import InputError, UsageError, WeightsError
from accel_cli.model.config import Config, load_config
from accel_cli.text.tokenizer import Tokenizer
from accel_cli.text.vocabulary import PAD, UNKNOWN, load_vocabulary

DIRECT = Plan("cpu", "fp32", "direct", "separate", 512, 1)
FOLDED = Plan("cpu", "fp32", "folded", "folded", 512, 1)
# words that are tokens, and some that are none
HAND = (
    b"<unk> <pad> the film is n't 's don't gr\xc3\xa8at \xe2\x80\x99 \xe2\x80\x94 , two-words UPPER a'b"
).split()


class TestInputs:
    def test_only_words_that_are_tokens_are_drawn(self) -> None:
        assert inputs.drawable(HAND) == b"the film is n't 's gr\xc3\xa8at \xe2\x80\x94 , a'b".split()

    @settings(max_examples=40, deadline=None)
    @given(st.integers(1, 60), st.integers(0, 2**32), st.one_of(st.none(), st.integers(5, 30)))
    def test_sentences_tokenise_to_what_was_drawn(
        self, tiny: Config, count: int, seed: int, length: int | None
    ) -> None:
        spec = replace(tiny.model, length=length)
        vocabulary = {word: number for number, word in enumerate(HAND)}
        sentences = inputs.generated(spec, vocabulary, count, seed)
        batch = Tokenizer(vocabulary, 1, 1000).encode(sentences.lines).batch
        assert len(sentences) == len(batch) == count
        assert not np.isin(batch.ids, [UNKNOWN, PAD]).any()
        if length is None:
            assert batch.lengths.min() >= 4
            assert batch.lengths.max() <= spec.max_tokens
        else:
            assert (batch.lengths == length).all()

    def test_the_seed_alone_decides(self, tiny: Config) -> None:
        drawn = [inputs.generated(tiny.model, HAND, 20, seed).lines for seed in (1, 1, 2)]
        assert drawn[0] == drawn[1]
        assert drawn[0] != drawn[2]

    def test_frequencies_fall_as_one_over_the_rank(self, tiny: Config) -> None:
        words = [b"w%d" % number for number in range(200)]
        lines = inputs.generated(replace(tiny.model, max_tokens=256), words, 20_000).lines
        counts = Counter(b" ".join(lines).split())
        assert sum(counts.values()) / len(lines) == pytest.approx(19, abs=0.2)  # 4 + Poisson(15)
        for rank in (2, 3, 10, 50):
            assert counts[words[rank - 1]] * rank == pytest.approx(counts[words[0]], rel=0.1)

    def test_by_a_uniform_law_all_words_are_as_frequent(self, tiny: Config) -> None:
        words = [b"w%d" % number for number in range(50)]
        sentences = inputs.generated(tiny.model, words, 20_000, law="uniform")
        counts = Counter(b" ".join(sentences.lines).split())
        assert min(counts.values()) > 0.9 * max(counts.values())
        assert "uniform law" in sentences.origin

    def test_the_school_vocabulary_can_be_drawn_from(self) -> None:
        spec = load_config("school").model
        vocabulary = load_vocabulary(spec.vocabulary, spec.vocabulary_size)
        sentences = inputs.generated(spec, vocabulary, 100)
        batch = Tokenizer(vocabulary, spec.min_tokens, spec.max_tokens).encode(sentences.lines).batch
        assert (batch.lengths == 16).all()
        assert not np.isin(batch.ids, [UNKNOWN, PAD]).any()

    def test_a_vocabulary_without_words_is_refused(self, tiny: Config) -> None:
        with pytest.raises(WeightsError, match="--input"):
            inputs.generated(tiny.model, [b"<unk>", b"<pad>", b"two-words"], 1)

    def test_the_first_lines_of_a_file(self, tmp_path: Path) -> None:
        path = tmp_path / "a.txt"
        path.write_bytes(b"one\ntwo\n\nthree")
        assert inputs.from_file(str(path), 3).lines == [b"one", b"two", b""]
        assert inputs.from_file(str(path), 99).lines == [b"one", b"two", b"", b"three"]

    def test_sentences_are_those_of_a_file_if_there_is_one(self, tiny: Config, tmp_path: Path) -> None:
        path, spec = tmp_path / "a.txt", tiny.model
        path.write_bytes(b"one\ntwo\n")
        assert inputs.obtain_sentences(spec, str(path), 1, 9).lines == [b"one"]
        vocabulary = load_vocabulary(spec.vocabulary, spec.vocabulary_size)
        drawn = inputs.generated(spec, vocabulary, 20, mean=9)
        assert inputs.obtain_sentences(spec, None, 20, 9) == drawn
        alike = inputs.generated(spec, vocabulary, 20, mean=9, law="uniform")
        assert inputs.obtain_sentences(spec, None, 20, 9, "uniform") == alike

    def test_a_line_end_inside_a_field_makes_no_second_sentence(self, tmp_path: Path) -> None:
        path = tmp_path / "a.csv"
        path.write_bytes(b'text\n"one\ntwo"\nthree\n')
        assert inputs.from_file(str(path), 9).lines == [b"one two", b"three"]

    def test_files_that_hold_no_sentences(self, tmp_path: Path) -> None:
        empty, array = tmp_path / "empty.txt", tmp_path / "ids.npy"
        empty.write_bytes(b"")
        np.save(array, np.zeros((2, 5), dtype=np.int32))
        with pytest.raises(InputError, match="no sentences"):
            inputs.from_file(str(empty), 5)
        with pytest.raises(UsageError, match="array"):
            inputs.from_file(str(array), 5)


class TestWork:
    def test_school_direct_by_hand(self) -> None:
        spec = load_config("school").model
        counted = work.layers(spec, DIRECT, TokenBatch.from_rows(np.zeros((1, 16), dtype=np.int32)))
        convolutions = [counted[f"convolution.{width}"].flop for width in (3, 5, 7, 9)]
        assert sum(convolutions) == 2 * 4096 * 1024 * 244 == 2_046_820_352
        assert counted["gate"].flop == 2 * 4096 * 4
        assert counted["experts"].flop == 4 * 2 * 4096 * 2048 + 2 * 4 * 2048
        assert [counted[name].flop for name in ("fc.0", "fc.1", "logits")] == [4_194_304, 1_048_576, 2048]
        assert work.total(list(counted.values())).flop == 2_119_223_296  # 2.12 GFLOP a sentence
        assert sum(convolutions) / 2_119_223_296 == pytest.approx(0.966, abs=5e-4)

    def test_school_folded_by_hand(self) -> None:
        spec = load_config("school").model
        counted = work.layers(spec, FOLDED, TokenBatch.from_rows(np.zeros((1, 16), dtype=np.int32)))
        assert counted["embedding"] == work.Work(0, 16 * 4)
        # 244 rows of 1,024 values are gathered for 44 windows, 4,096 features written
        assert sum(counted[f"convolution.{width}"].bytes for width in (3, 5, 7, 9)) == 999_424 + 16_384
        assert (
            work.total(list(counted.values())).flop
            == (244 - 44) * 1024 + 32_768 + 33_554_432 + 8192 + 1_050_624
        )

    def test_school_by_toom_cook_by_hand(self) -> None:
        spec = load_config("school").model
        plan = replace(FOLDED, device="cuda:0", convolution="toomcook")
        counted = work.layers(spec, plan, TokenBatch.from_rows(np.zeros((2, 16), dtype=np.int32)))
        # a chunk a sentence of 18 transformed tokens of 4,096 dimensions, read once for 4 x 1,024 filters
        chunks, weights, products = 2 * 18 * 4096, 18 * 4096 * 1024, 2 * 18 * 1024
        assert counted["embedding"] == work.Work(0, 32 * 4 + (32 * 4096 + chunks) * 4)
        for width in (3, 5, 7, 9):
            expected = work.Work(2 * chunks * 1024, (chunks // 4 + weights + products) * 4)
            assert counted[f"convolution.{width}"] == expected
        assert counted["features"] == work.Work(0, (4 * products + 2 * 4096) * 4)

    def test_bytes_of_a_direct_layer_by_hand(self, tiny: Config) -> None:
        # 2 sentences of 5 and 7 tokens; 12 dimensions, 10 filters; windows of width 3: 3 + 5
        batch = TokenBatch(np.zeros(12, dtype=np.int32), np.array([0, 5, 12], dtype=np.int32))
        counted = work.layers(tiny.model, DIRECT, batch)
        assert counted["embedding"] == work.Work(0, 12 * 4 + 2 * 12 * 12 * 4)
        assert counted["convolution.3"] == work.Work(
            2 * 8 * 10 * 12 * 3, (12 * 12 + 10 * (12 * 3 + 1) + 8 * 10) * 4
        )
        assert counted["features"] == work.Work(0, (8 * 10 + 4 * 10 + 2 * 20) * 4)
        assert counted["gate"] == work.Work(2 * 2 * 20 * 3, (2 * 20 + 21 * 3 + 2 * 3) * 4)

    def test_work_grows_with_the_batch_but_weights_are_read_once(self, tiny: Config) -> None:
        one, two = (
            work.total(
                list(
                    work.layers(tiny.model, DIRECT, TokenBatch.from_rows(np.zeros((n, 9), np.int32))).values()
                )
            )
            for n in (1, 2)
        )
        assert two.flop == 2 * one.flop
        assert one.bytes < two.bytes < 2 * one.bytes

    def test_stages_take_the_layers_before_them(self) -> None:
        layers = {name: work.Work(flop, 1) for flop, name in enumerate(["a", "b", "c", "d"], start=1)}
        assert work.by_stage(layers, ["b", "d"]) == {"b": work.Work(3, 2), "d": work.Work(7, 2)}

    @pytest.mark.parametrize("convolution", ["folded", "im2col"])
    @pytest.mark.parametrize("experts", ["folded", "separate"])
    def test_no_work_is_lost_between_the_stages(self, tiny: Config, convolution: str, experts: str) -> None:
        plan = replace(tiny.plan, convolution=convolution, experts=experts)
        with Classifier(replace(tiny, plan=plan), "cpu") as classifier:
            batch = classifier.tokenizer.encode([b"a good film", b"not"]).batch
            counted = work.layers(tiny.model, classifier.plan, batch)
            stages = [name for name, _ in classifier.engine.stage_times(batch)]
        assert work.total(list(work.by_stage(counted, stages).values())) == work.total(list(counted.values()))


def test_sentences_are_as_long_as_asked(tiny: Config) -> None:
    spec = replace(tiny.model, max_tokens=256)
    for mean in (1, 9, 40):
        lines = inputs.generated(spec, HAND, 4000, mean=mean).lines
        assert abs(np.mean([len(line.split()) for line in lines]) - mean) < 0.5


def test_a_record_without_a_text_is_not_timed_as_an_empty_one(tmp_path: Path) -> None:
    path = tmp_path / "some.jsonl"
    path.write_text('{"text": "good"}\n{"body": "bad"}\n')
    with pytest.raises(InputError, match=r"some.jsonl:2: no key 'text'.*leave that file out"):
        inputs.from_file(str(path), 10)
