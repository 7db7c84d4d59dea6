"""JSON lines as records, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import failures, texts, write

from accel_cli.text import jsonl, lines


@pytest.mark.parametrize(
    ("line", "text"),
    [
        ('{"text": "good"}', b"good"),
        ('  {"x": [1, {"text": 0}], "text": "a"}\r', b"a"),
        ('{"text": ""}', b""),
        ('{"text": "a\\nb\\u0000\\u2028"}', b"a\nb\x00\xe2\x80\xa8"),
        ('{"text": "\\ud83d\\ude00"}', b"\xf0\x9f\x98\x80"),
        ('{"text": "\\ud800"}', b"\xed\xa0\x80"),
        ('{"text": "a", "text": "b"}', b"b"),
        ('{"text": "a", "n": NaN}', b"a"),
        ("\ufeff" + '{"text": "marked"}', b"marked"),
        (b'{"text": "a\xffb"}', b"a\xffb"),
        (b'{"text": "\xed\xa0\x80"}', b"\xed\xa0\x80"),
    ],
)
def test_json(tmp_path: Path, line: bytes | str, text: bytes) -> None:
    path = write(tmp_path, "a.jsonl", line)
    assert (texts(path), failures(path)) == ([text], [])


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("", "not valid JSON: Expecting value at character 1"),
        ("{", "not valid JSON: Expecting property name enclosed in double quotes at character 2"),
        ('{"text": "a"} x', "not valid JSON: Extra data at character 15"),
        ("{'text': 'a'}", "not valid JSON"),
        ('{"text": "a', "not valid JSON: Unterminated string"),
        ('{"text": "\t"}', "not valid JSON: Invalid control character"),
        (b"\xff", "not valid JSON"),
        ("[" * 200_000, "nested too deeply"),
        ('{"text": ' * 200_000, "nested too deeply"),
        ('{"text": ' + "9" * 10_000 + "}", "not readable JSON: a number has more than 4300 digits"),
        ('"text"', "expected a JSON object, got str"),
        ("[1]", "expected a JSON object, got list"),
        ("null", "expected a JSON object, got NoneType"),
        ('{"a": 1, "b": 2}', "no key 'text'; its keys: a, b"),
        ("{}", "no key 'text'; its keys: none"),
        ('{"text": 1}', "'text' is int, not a string"),
        ('{"text": null}', "'text' is NoneType, not a string"),
        ('{"text": ["a"]}', "'text' is list, not a string"),
    ],
)
def test_broken_json_is_a_failed_record(tmp_path: Path, line: bytes | str, reason: str) -> None:
    data = b'{"text": "a"}\n' + (line.encode() if isinstance(line, str) else line) + b'\n{"text": "c"}\n'
    path = write(tmp_path, "a.jsonl", data)
    assert texts(path) == [b"a", b"", b"c"]
    found = failures(path)
    assert len(found) == 1
    assert found[0].startswith(f"{path}:2: ")
    assert reason in found[0]
    assert "sys." not in found[0]


def test_a_long_text_is_cut_as_a_line_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "LINE_LIMIT", 10)
    assert texts(write(tmp_path, "a.jsonl", '{"text": "xxxxxxxxx\u00e9"}\n')) == [b"x" * 9]


def test_another_key(tmp_path: Path) -> None:
    path = write(tmp_path, "a.jsonl", '{"text": "a", "body": "b"}\n')
    assert texts(path, "body") == [b"b"]


@settings(max_examples=150)
@given(st.lists(st.binary(max_size=30)))
def test_any_bytes_give_a_record_a_line(tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]) -> None:
    data = b"\n".join([b'{"text": "a"}', *(line.replace(b"\n", b"") for line in lines)]) + b"\n"
    path = write(tmp_path_factory.getbasetemp(), "fuzz.jsonl", data)
    assert len(texts(path)) == len(lines) + 1


@settings(max_examples=50)
@given(st.lists(st.text()))
def test_what_python_writes_as_json_is_read_again(
    tmp_path_factory: pytest.TempPathFactory, records: list[str]
) -> None:
    content = "".join(json.dumps({"text": text}) + "\n" for text in records)
    path = write(tmp_path_factory.getbasetemp(), "again.jsonl", content)
    assert texts(path) == [text.encode("utf-8", "surrogatepass") for text in records]


def test_a_record_without_an_end_is_not_gathered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(jsonl, "LIMIT", 1000)
    monkeypatch.setattr(lines, "BLOCK", 64)
    fits = "x" * 900
    path = write(tmp_path, "a.jsonl", f'{{"text": "{fits}"}}\n{{"text": "{fits * 5}"}}\n{{"text": "b"}}\n')
    assert texts(path) == [fits.encode(), b"", b"b"]
    assert failures(path) == [f"{path}:2: the record is longer than 0 MiB"]
