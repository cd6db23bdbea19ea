"""Pages point at files and headings that exist, and the reference manual has every public name."""

import re
from pathlib import Path

import pytest

import bvsi

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
_LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)|<img[^>]+src=\"([^\"]+)\"")
_FENCED = re.compile(r"^(`{3,}).*?^\1\s*$", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]+`")


def prose(page):
    """Text of a page without code, in which brackets mean something else."""
    return _CODE.sub("", _FENCED.sub("", page.read_text(encoding="utf-8")))


def links(page):
    """Relative targets of links and images."""
    targets = [first or second for first, second in _LINK.findall(prose(page))]
    return [target for target in targets if not re.match(r"[a-z]+:", target)]


def anchors(page):
    """Headings as GitHub and MyST name them."""
    text = _FENCED.sub("", page.read_text(encoding="utf-8"))
    titles = re.findall(r"^#{1,3} +(.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_and_images_exist(page):
    for target in links(page):
        name, _, heading = target.partition("#")
        place = (page.parent / name).resolve() if name else page
        assert place.exists(), f"{target} does not exist"
        assert not heading or heading in anchors(place), f"{target}: no such heading"


def test_links_are_found():
    assert "docs/trust.md" in links(ROOT / "README.md")
    assert "images/overview.png" in links(ROOT / "docs" / "index.md")


def test_every_page_is_in_the_tree():
    """A page that no toctree names would be built, but never be found."""
    named = {ROOT / "docs" / "index.md"}
    for page in PAGES:
        for block in re.findall(r"^```\{toctree\}\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S):
            entries = [line for line in block.splitlines() if line and not line.startswith(":")]
            named |= {(page.parent / f"{entry}.md").resolve() for entry in entries}
    assert named == {page for page in PAGES if (ROOT / "docs") in page.parents}


def test_the_reference_has_every_public_name_once():
    text = "\n".join(page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "api").glob("*.md"))
    found = re.findall(r"^\.\. (?:autoclass|autofunction|autoexception|py:data):: (\w+)$", text, re.MULTILINE)
    public = [name for name in bvsi.__all__ if name != "__version__"]
    assert sorted(found) == sorted(public)
