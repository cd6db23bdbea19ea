"""Code on the pages is run: README by docs/run_readme.py, the others when they are built; nothing escapes that."""

import importlib
import re
from pathlib import Path

import pytest

import bvsi

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
PAGES = [page for page in sorted(DOCS.rglob("*.md")) if page.name != "changelog.md"]
PAPER = ROOT.parent / "shared" / "paper" / "bvsi.tex"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_all_code_of_a_page_is_executed(page):
    text = page.read_text(encoding="utf-8")
    kinds = re.findall(r"^```(.*)\n.*?^```$", text, re.MULTILINE | re.DOTALL)
    assert not [kind for kind in kinds if not kind.startswith("{")], "write {code-cell} python, so that it is run"
    assert "{code-cell}" not in text or text.startswith("---\nfile_format: mystnb\n")


def test_the_readme_has_code_with_its_output():
    kinds = re.findall(r"^```(\w+)$", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE)
    assert kinds == ["python", "text", "sh"]


def test_every_public_name_has_an_example():
    text = (DOCS / "api" / "examples.md").read_text(encoding="utf-8")
    used = set(re.findall(r"\bbvsi\.(\w+)", text))
    assert [name for name in bvsi.__all__ if name not in used] == []


def test_every_noise_model_has_an_entry_and_an_example():
    """Models, and what makes them from measurements, whether they are imported from bvsi or from bvsi.noise."""
    made = [name for name, one in vars(bvsi.noise).items() if isinstance(one, type) and hasattr(one, "scale_known")]
    names = [name for name in (*made, "from_replicates", "from_counts") if name != "Noise"]
    page, examples = ((DOCS / "api" / file).read_text(encoding="utf-8") for file in ("likelihood.md", "examples.md"))
    assert len(names) == 10
    for name in names:
        full = name if name in bvsi.__all__ else f"bvsi.noise.{name}"
        assert re.search(rf"^\.\. auto(class|function):: {re.escape(full)}$", page, re.MULTILINE), name
        assert f"{full if '.' in full else f'bvsi.{name}'}(" in examples, name


def test_names_modules_and_tests_of_the_paper_table_exist():
    text = (DOCS / "paper_table.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:-1] for line in text.splitlines() if re.match(r"\| (?:eq|alg|tab):", line)]
    assert len(rows) > 30
    for _, _, names, module, test in rows:
        assert (ROOT / test.strip(" `")).exists()
        assert (ROOT / "src" / "bvsi" / module.strip(" `")).exists()
        for name in re.findall(r"`([\w.]+)`", names):
            *path, last = name.removeprefix("bvsi.").split(".")
            if name[:1].isupper() or not path:  # of the public names
                assert hasattr(getattr(bvsi, path[0]) if path else bvsi, last), name
            else:
                assert hasattr(importlib.import_module(".".join(["bvsi", *path])), last), name


@pytest.mark.skipif(not PAPER.exists(), reason="the paper's source is not here")
def test_the_paper_table_has_every_label():
    labels = re.findall(r"\\label\{((?:eq|alg|tab):[^}]*)\}", PAPER.read_text(encoding="utf-8"))
    text = (DOCS / "paper_table.md").read_text(encoding="utf-8")
    listed = set(re.findall(r"\b(?:eq|alg|tab):[\w-]+", text))
    assert [label for label in labels if label not in listed] == []
