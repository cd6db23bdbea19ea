"""The report in a browser: nothing fails, nothing is fetched, everything is seen and can be reached by keyboard."""

from __future__ import annotations

from pathlib import Path

import pytest

CHROMIUM = Path("/usr/bin/chromium")
sync_api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytestmark = pytest.mark.skipif(not CHROMIUM.exists(), reason=f"{CHROMIUM} is not there")

NAMES = ("burgers", "rotation", "by_hand")


@pytest.fixture(scope="module")
def browser():
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=str(CHROMIUM), args=["--no-sandbox"])
        yield started
        started.close()


@pytest.fixture
def opened(browser, pages):
    """Opens a report; what it says on the console or asks for is an error at the end."""
    contexts, wrong = [], []

    def open_page(name: str, width: int = 1200, scheme: str = "light"):
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: wrong.append(message.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on(
            "request",
            lambda request: wrong.append(request.url) if not request.url.startswith(("file:", "data:")) else None,
        )
        page.goto(pages[name].as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert not wrong


@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("name", NAMES)
def test_every_figure_is_seen_within_the_page(opened, name, width):
    page = opened(name, width)
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    page.wait_for_function("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    boxes = page.evaluate(
        "[...document.querySelectorAll('figure, svg.chart, .film, .equation, .verdict')]"
        ".map(e => { const b = e.getBoundingClientRect(); return [b.left, b.right, b.width, b.height] })"
    )
    assert len(boxes) > 8
    for left, right, shown, height in boxes:
        assert left >= 0
        assert right <= width + 0.5
        assert shown > 100
        assert height > 20


def test_labels_of_figures_are_not_cut_off(opened):
    """Texts of a figure stay within the page, also where names are long."""
    page = opened("rotation", 360)
    ends = page.evaluate(
        "[...document.querySelectorAll('svg.chart text')]"
        ".map(e => { const b = e.getBoundingClientRect(); return [b.left, b.right] })"
    )
    assert min(left for left, _ in ends) >= 0
    assert max(right for _, right in ends) <= 360


@pytest.mark.parametrize("name", ["burgers", "rotation"])
def test_the_slider_moves_by_keyboard(opened, name):
    page = opened(name)
    slider = page.locator(".movie input[type=range]").first
    slider.focus()
    before = page.locator(".movie output").first.inner_text()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    assert slider.input_value() == "2"
    after = page.locator(".movie output").first.inner_text()
    assert before == "t = 0"
    assert after == slider.get_attribute("data-times").split("|")[2] == slider.get_attribute("aria-valuetext")
    if name == "burgers":
        shown = page.evaluate(
            "[...document.querySelectorAll('.step')].map(s => getComputedStyle(s).display !== 'none')"
        )
        assert [k for k, on in enumerate(shown) if on] == [2]
    else:
        moved = page.locator(".film img").first.evaluate(
            "e => new DOMMatrix(getComputedStyle(e).transform).f / e.getBoundingClientRect().height"
        )
        assert moved == pytest.approx(-2 / 7, abs=0.01)


def test_a_model_of_the_path_names_its_operator_when_focused_or_pointed_at(opened):
    page = opened("burgers")
    told, points = page.locator("#selection .told"), page.locator("circle.model")
    selected = told.inner_text()
    assert "(selected)" in selected
    points.nth(2).focus()
    assert told.inner_text() == points.nth(2).get_attribute("data-told") != selected
    points.nth(2).blur()
    assert told.inner_text() == selected
    points.nth(0).hover()
    assert "added ∇²u" in told.inner_text()


def test_latex_is_copied(opened):
    page = opened("burgers")
    page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    page.get_by_role("button", name="Copy LaTeX", exact=True).click()
    page.wait_for_function("document.querySelector('.copy').textContent !== 'Copy LaTeX'")
    assert page.locator(".copy").first.inner_text() == "Copied"
    assert r"\nabla^{2} u" in page.evaluate("navigator.clipboard.readText()")


def test_dark_and_light_differ_and_can_be_read(opened):
    colours = {}
    for scheme in ("light", "dark"):
        page = opened("burgers", scheme=scheme)
        back, front, label = page.evaluate(
            "[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,"
            " getComputedStyle(document.querySelector('svg.chart text')).fill]"
        )
        colours[scheme] = back
        for colour in (front, label):
            assert _contrast(colour, back) > 4.5
    assert colours["light"] != colours["dark"]


def test_verdicts_can_be_read_in_both_schemes(opened):
    for scheme in ("light", "dark"):
        page = opened("burgers", scheme=scheme)
        for style in ("good", "doubt", "bad", "unknown"):
            page.evaluate(f"document.querySelector('.verdict').className = 'verdict {style}'")
            back, front, sign, mark = page.evaluate(
                "(() => { const v = document.querySelector('.verdict'), s = v.querySelector('.sign');"
                " const c = getComputedStyle;"
                " return [c(v).backgroundColor, c(v).color, c(s).backgroundColor, c(s).color] })()"
            )
            assert _contrast(front, back) > 4.5
            assert _contrast(mark, sign) > 4.5


def test_all_controls_are_reached_by_the_tab_key(opened):
    page = opened("burgers")
    seen = set()
    for _ in range(60):
        page.keyboard.press("Tab")
        seen.add(page.evaluate("(e => e.className.baseVal ?? (e.className || e.tagName))(document.activeElement)"))
    assert {"skip", "copy", "SUMMARY", "model", "model selected", "INPUT", "play"} <= seen


def test_printing_opens_everything(opened):
    page = opened("burgers")
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate("[...document.querySelectorAll('details')].every(d => d.open)")
    assert not page.locator("nav").is_visible()


def _contrast(one: str, other: str) -> float:
    """Ratio of luminances by WCAG, of colours as ``rgb(r, g, b)``."""
    levels = []
    for colour in (one, other):
        shares = [float(c) / 255 for c in colour[colour.index("(") + 1 : -1].split(",")[:3]]
        linear = [s / 12.92 if s <= 0.04045 else ((s + 0.055) / 1.055) ** 2.4 for s in shares]
        levels.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    return (max(levels) + 0.05) / (min(levels) + 0.05)
