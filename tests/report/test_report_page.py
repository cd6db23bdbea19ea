"""The page: complete, self-contained, and nothing of the user's text is markup."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from urllib.parse import unquote

import numpy as np
import pytest

from bvsi.app.report import html_report, markdown_report
from bvsi.app.report.changes_section import changes
from bvsi.app.report.markup import download
from bvsi.app.report.paper_section import methods_text, table_latex
from bvsi.app.report.settings_section import flat_settings, versions
from bvsi.app.report.summary_section import judgement
from bvsi.app.study.summary import summary
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
    assert sections == [*first, "quantities", "frames", "check", "forecast", "settings", "paper"]
    for words in ("Burgers from a ring", "a note", "file = &#x27;ring.nc&#x27;", "data.file", *versions()):
        assert words in text


def test_what_is_not_known_is_left_out(by_hand):
    bare = Reader(html_report(replace(by_hand, frames=None), title="bare"))
    sections = [attributes["id"] for attributes in bare.having("section")]
    assert sections == ["equation", "verdict", "coefficients", "selection", "posterior", "settings", "paper"]
    links = [a["href"] for a in bare.having("a") if "download" not in a][1:]
    assert links == [f"#{key}" for key in sections]


def test_the_page_asks_for_nothing_from_outside(pages):
    for path in pages.values():
        page = Reader(path.read_text(encoding="utf-8"))
        addresses = [a.get(key) for _, a in page.tags for key in ("src", "href", "data", "action") if a.get(key)]
        assert addresses
        assert all(address.startswith(("data:image/png;base64,", "data:text/csv;", "#")) for address in addresses)
        assert any("default-src 'none'" in (a.get("content") or "") for a in page.having("meta"))


def test_references_inside_the_page_exist_once(pages):
    for path in pages.values():
        page = Reader(path.read_text(encoding="utf-8"))
        known = [a["id"] for _, a in page.tags if "id" in a]
        assert len(known) == len(set(known))
        own = [a for _, a in page.tags if "download" not in a]
        asked = [a[key].removeprefix("#") for a in own for key in ("for", "href", "data-copies") if key in a]
        assert set(asked) <= set(known)


def test_numbers_of_charts_can_be_saved(burgers, pages):
    links = [a for a in Reader(pages["burgers"].read_text(encoding="utf-8")).having("a") if "download" in a]
    files = {a["download"]: unquote(a["href"].partition(",")[2]) for a in links}
    assert {"selection.csv", "correlations.csv", "draws.csv"} <= set(files)
    assert len(files) >= 7  # and two quantities, error and coverage of the forecast
    rows = [line.split(",") for line in files["correlations.csv"].splitlines()]
    assert [row[0].strip('"') for row in rows[1:]] == list(burgers.names)
    assert all(float(row[k]) == 1 for k, row in enumerate(rows) if k)


def test_cells_of_a_table_are_no_formulas():
    assert unquote(download("x.csv", ["=1+1", 'a"b'], [[1.5, "u"]])).count('" =1+1","a""b"') == 1


def test_the_page_for_the_paper_has_settings_table_and_references(burgers):
    words = methods_text(burgers)
    assert f"{len(burgers.candidates)} candidate operators, of which {len(burgers.names)} were selected" in words
    assert burgers.verdict in words
    table = table_latex(burgers)
    assert table.count(r"\\") == len(burgers.names) + 1
    assert "−" not in table


def test_changes_are_told_by_verdict_operators_and_shifts(burgers):
    same = json.loads(json.dumps(summary(burgers)))
    assert changes(burgers, same) == []
    before = {**same, "verdict": "not decided", "coefficients": [{**same["coefficients"][0], "mean": 1e3}, 7, {}]}
    lines = changes(burgers, before)
    assert lines[0] == f"The verdict was 'not decided', and is {burgers.verdict!r} now."
    assert any(line.startswith("New in the equation: ") for line in lines)
    assert any("joint sd" in line for line in lines)
    assert changes(burgers, {"coefficients": "damaged"}) == []


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
