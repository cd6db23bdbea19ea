"""The page: complete, self-contained, and nothing of the user's text is markup."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser

import numpy as np
import pytest

from bvsi.app.report import html_report, markdown_report
from bvsi.app.report.settings_section import flat_settings, versions
from bvsi.app.report.summary_section import judgement
from bvsi.check import Verdict
from bvsi.discovery.frames import Frames
from bvsi.infer.posteriors import GaussianPosterior
from report.report_cases import grid_frames, quantities

HOSTILE = '</title><script>alert("x")</script><img src=x onerror=alert(1)>&"\'\x00\ud800'
VOID = {"meta", "input", "img", "br"}


class Reader(HTMLParser):
    """Tags, attributes and texts; refuses tags that do not match."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        assert len(dict(attrs)) == len(attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)

    def having(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_everything_is_there_in_order(pages):
    text = pages["burgers"].read_text(encoding="utf-8")
    sections = [attributes["id"] for attributes in Reader(text).having("section")]
    first = ["equation", "verdict", "coefficients", "selection", "posterior"]
    assert sections == [*first, "quantities", "frames", "check", "forecast", "settings"]
    for words in ("Burgers from a ring", "a note", "file = &#x27;ring.nc&#x27;", "data.file", *versions()):
        assert words in text


def test_what_is_not_known_is_left_out(by_hand):
    bare = Reader(html_report(replace(by_hand, frames=None), title="bare"))
    sections = [attributes["id"] for attributes in bare.having("section")]
    assert sections == ["equation", "verdict", "coefficients", "selection", "posterior", "settings"]
    links = [attributes["href"] for attributes in bare.having("a")][1:]
    assert links == [f"#{key}" for key in sections]


def test_the_page_asks_for_nothing_from_outside(pages):
    for path in pages.values():
        page = Reader(path.read_text(encoding="utf-8"))
        addresses = [a.get(key) for _, a in page.tags for key in ("src", "href", "data", "action") if a.get(key)]
        assert addresses
        assert all(address.startswith(("data:image/png;base64,", "#")) for address in addresses)
        assert any("default-src 'none'" in (a.get("content") or "") for a in page.having("meta"))


def test_references_inside_the_page_exist_once(pages):
    for path in pages.values():
        page = Reader(path.read_text(encoding="utf-8"))
        known = [a["id"] for _, a in page.tags if "id" in a]
        assert len(known) == len(set(known))
        asked = [a[key].removeprefix("#") for _, a in page.tags for key in ("for", "href", "data-copies") if key in a]
        assert set(asked) <= set(known)


def test_no_text_of_the_user_is_markup(by_hand):
    names = (f"u: {HOSTILE}", "v: u")
    posterior = GaussianPosterior(names, np.ones(2), np.eye(2))
    path = replace(by_hand.path, criterion=HOSTILE, stopped=HOSTILE, doubts=HOSTILE)
    hostile = replace(
        by_hand, posterior=posterior, candidates=(*names, f"v: {HOSTILE}"), path=path, settings={HOSTILE: HOSTILE}
    )
    text = html_report(
        hostile,
        title=HOSTILE,
        settings={HOSTILE: {HOSTILE: [HOSTILE]}},
        quantities={HOSTILE: quantities(by_hand)["ψ"]},
        timing={HOSTILE: 1.0},
        study_text=HOSTILE,
        notes=[HOSTILE],
    )
    page = Reader(text)
    assert len(page.having("script")) == 1
    assert not [a for _, a in page.tags if any(key.startswith("on") for key in a)]
    assert not [a for a in page.having("img") if not a["src"].startswith("data:")]
    text.encode("utf-8")
    written = markdown_report(hostile, title=HOSTILE, settings={HOSTILE: HOSTILE}, notes=[HOSTILE])
    written.encode("utf-8")
    outside = re.sub(r"`+[^`]*`+", "", written)
    assert not re.search(r"(?<!\\)<\w", outside)


def test_a_report_is_small(burgers, pages):
    assert pages["burgers"].stat().st_size < 300_000
    long = replace(burgers, frames=Frames(grid_frames(nodes=96, times=12).experiments * 2))
    assert len(html_report(long, title="large")) < 3_000_000


def test_a_report_does_not_change_from_one_time_to_the_next(burgers):
    assert html_report(burgers, title="same") == html_report(burgers, title="same")


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_has_sign_colour_and_words(burgers, verdict):
    told = judgement(replace(burgers, check=replace(burgers.check, verdict=verdict)))
    assert (told.style == "good") == (verdict is Verdict.CONSISTENT)
    assert told.words.lower() == str(verdict)
    assert told.sign


def test_the_table_has_the_numbers_of_the_posterior(burgers, pages):
    words = " ".join(Reader(pages["burgers"].read_text(encoding="utf-8")).words)
    for low, high in burgers.posterior.interval():
        assert f"[{low:.6g}, {high:.6g}]".replace("-", "−") in words


def test_nested_settings_become_dotted_names():
    assert flat_settings({"a": {"b": 1, "c": {"d": "x"}}, "e": [1, 2]}) == {"a.b": "1", "a.c.d": "x", "e": "1, 2"}


def test_markdown_has_the_same_facts(burgers):
    text = markdown_report(burgers, title="Burgers", quantities=quantities(burgers), study_text="```\nx\n```")
    assert text.startswith("# Burgers\n")
    assert burgers.equation in text
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert headings[:4] == ["Equation", "Verdict", "Coefficients", "Selection"]
    assert {"Derived quantities", "Discretisation check", "Forecast", "Study file", "Versions"} <= set(headings)
    tables = re.findall(r"(?:^\|.*\|\n)+", text, flags=re.MULTILINE)
    for table in tables:
        columns = {len(re.findall(r"(?<!\\)\|", line)) for line in table.splitlines()}
        assert len(columns) == 1
    assert "````toml" in text
