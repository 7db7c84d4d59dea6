"""The page for people, in a real browser without a window."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from accel_cli.classifier import Classifier
from accel_cli.model.config import Config
from serve.processes import PATIENCE, Running, running

BROWSERS = ("chromium", "chromium-headless-shell", "chromium-browser", "google-chrome")
BROWSER = next(filter(None, map(shutil.which, BROWSERS)), None)
pytestmark = [
    pytest.mark.extras,
    pytest.mark.skipif(BROWSER is None, reason=f"no browser is installed: none of {', '.join(BROWSERS)}"),
]
PHONE = {"width": 360, "height": 640}
TEXTS = ["a good film", "", "<b>bad</b> & co", "☃ not good"]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api")
    with playwright.sync_playwright() as started:
        made = started.chromium.launch(
            executable_path=BROWSER, args=["--no-sandbox"], timeout=1000 * PATIENCE
        )
        yield made
        made.close()


def blank(browser: Any) -> Any:
    """A page on a phone that waits as long as these tests do."""
    made = browser.new_page(viewport=PHONE)
    made.set_default_timeout(1000 * PATIENCE)
    return made


@pytest.fixture
def page(browser: Any, server: Running) -> Iterator[Any]:
    """The page on a phone; whatever it asks of others, or complains of, fails the test."""
    made = blank(browser)
    complaints: list[str] = []
    made.on("console", lambda message: complaints.append(message.text) if message.type == "error" else None)
    made.on("pageerror", lambda error: complaints.append(str(error)))
    made.on(
        "request",
        lambda asked: asked.url.startswith((server.url, "data:", "blob:")) or complaints.append(asked.url),
    )
    made.goto(server.url)
    yield made
    made.close()
    assert complaints == []


def rows(page: Any) -> list[list[str]]:
    page.wait_for_selector("#go:not([disabled])")
    return [row.locator("td").all_text_contents() for row in page.locator("#rows tr").all()]


def check(found: list[list[str]], config: Config) -> None:
    with Classifier(config, "cpu") as classifier:
        expected = classifier.predict(TEXTS)
    assert [row[:2] for row in found] == [list(pair) for pair in zip(TEXTS, expected.labels, strict=True)]
    for row, score in zip(found, expected.scores.max(axis=1), strict=True):
        assert abs(float(row[2]) - score) < 6e-5


def test_typing_and_the_button(page: Any, tiny: Config) -> None:
    page.get_by_label("Sentences").fill("\n".join(TEXTS) + "\n")
    page.get_by_role("button", name="Classify").click()
    check(rows(page), tiny)
    said = page.get_by_role("status").text_content()
    assert said.startswith("4 of 4 sentences in ")
    assert " a second: " in said
    assert page.locator("caption").text_content() == "Results"


def test_typing_and_the_keyboard(page: Any, tiny: Config) -> None:
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.id") == "text"
    page.keyboard.insert_text("\r\n".join(TEXTS))
    page.keyboard.press("Control+Enter")
    check(rows(page), tiny)


def test_a_file_is_opened(page: Any, tiny: Config, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("\n".join(TEXTS))
    page.get_by_label("A text file").set_input_files(tmp_path / "in.txt")
    page.wait_for_selector("#rows tr")
    check(rows(page), tiny)


def test_a_file_is_dropped(page: Any, tiny: Config) -> None:
    page.evaluate(
        """text => {
            const moved = new DataTransfer();
            moved.items.add(new File([text], "in.txt", {type: "text/plain"}));
            const how = {dataTransfer: moved, bubbles: true, cancelable: true};
            for (const name of ["dragover", "drop"]) document.body.dispatchEvent(new DragEvent(name, how));
        }""",
        "\n".join(TEXTS),
    )
    page.wait_for_selector("#rows tr")
    check(rows(page), tiny)


def test_many_lines_and_all_of_them_saved(page: Any, tmp_path: Path) -> None:
    page.get_by_label("Sentences").fill("".join(f"film\t{number}\n" for number in range(1500)))
    page.get_by_role("button", name="Classify").click()
    page.wait_for_selector("#go:not([disabled])")
    assert page.locator("#rows tr").count() == 1000
    assert page.locator("caption").text_content() == "The first 1000 results"
    assert page.get_by_role("status").text_content().startswith("1500 of 1500")
    with page.expect_download() as download:
        page.get_by_role("button", name="Save all as TSV").click()
    download.value.save_as(tmp_path / "labels.tsv")
    lines = (tmp_path / "labels.tsv").read_text().splitlines()
    assert len(lines) == 1500
    assert lines[7].split("\t")[2] == "film\\t7"


def test_nothing_to_classify(page: Any) -> None:
    page.get_by_role("button", name="Classify").click()
    assert page.get_by_role("status").text_content() == "There is nothing to classify yet."


@pytest.mark.parametrize("width", [320, 360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_and_can_be_read(page: Any, width: int, scheme: str) -> None:
    """No sideways scrolling, targets for fingers, names for everything, contrast of at least 4.5."""
    page.set_viewport_size({"width": width, "height": 640})
    page.emulate_media(color_scheme=scheme)
    page.get_by_label("Sentences").fill("good" * 300)
    page.get_by_role("button", name="Classify").click()
    rows(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.lang") == "en"
    for button in page.get_by_role("button").all():
        assert button.text_content()
        if button.is_visible():
            assert button.bounding_box()["height"] >= 44
    for selector in ("h1", "#status", "td", "#go", "#pick", "#text"):
        assert page.evaluate(CONTRAST, selector) >= 4.5, selector


CONTRAST = """selector => {
    const light = color => {
        const [r, g, b] = color.match(/[\\d.]+/g).map(part => part / 255)
            .map(part => part <= .04045 ? part / 12.92 : ((part + .055) / 1.055) ** 2.4);
        return .2126 * r + .7152 * g + .0722 * b;
    };
    const element = document.querySelector(selector), ink = light(getComputedStyle(element).color);
    let behind = element;
    while (getComputedStyle(behind).backgroundColor === "rgba(0, 0, 0, 0)") behind = behind.parentElement;
    const paper = light(getComputedStyle(behind).backgroundColor);
    return (Math.max(ink, paper) + .05) / (Math.min(ink, paper) + .05);
}"""


def test_a_server_that_wants_its_token(browser: Any, tiny_path: Path, tmp_path: Path) -> None:
    (tmp_path / "token").write_text("secret")
    with running(tiny_path, "--token-file", tmp_path / "token") as server:
        page = blank(browser)
        page.goto(server.url)
        page.get_by_label("Token of this server").wait_for()
        page.get_by_label("Sentences").fill("good")
        page.get_by_role("button", name="Classify").click()
        alert = page.get_by_role("alert")
        alert.filter(has_text="this server wants its token").wait_for()
        page.get_by_label("Token of this server").fill("secret")
        page.get_by_role("button", name="Classify").click()
        assert len(rows(page)) == 1
        assert alert.text_content() == ""
        server.stop()
        page.get_by_role("button", name="Classify").click()
        alert.filter(has_text="The server cannot be reached.").wait_for()
        page.close()
