"""Files that other programs read: workflows, templates, hooks, the citation. Skipped where PyYAML is missing."""

import tomllib
from pathlib import Path

import pytest

from bvsi.studies.golden_cases import CASES

yaml = pytest.importorskip("yaml")

_ROOT = Path(__file__).parents[2]
_FORMS = sorted((_ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
_FILES = [*_FORMS, *sorted((_ROOT / ".github" / "workflows").glob("*.yml")), *sorted(_ROOT.glob(".*.yaml"))]


def read(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", [*_FILES, _ROOT / "CITATION.cff"], ids=lambda path: path.name)
def test_yaml_is_a_mapping(path):
    assert isinstance(read(path), dict)


@pytest.mark.parametrize("path", [p for p in _FORMS if p.stem != "config"], ids=lambda path: path.name)
def test_fields_of_an_issue_form_are_complete(path):
    form = read(path)
    assert {"name", "description", "body"} <= set(form)
    asked = [part for part in form["body"] if part["type"] != "markdown"]
    assert len({part["id"] for part in asked}) == len(asked)
    assert all(part["attributes"]["label"] for part in asked)


def test_every_action_has_a_major_version_and_every_python_is_tested():
    jobs = read(_ROOT / ".github" / "workflows" / "ci.yml")["jobs"]
    actions = [step["uses"] for job in jobs.values() for step in job["steps"] if "uses" in step]
    assert actions
    assert all(action.partition("@v")[2].isdigit() for action in actions)
    for job in jobs.values():
        assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13"]
    assert any(step.get("run") == ".ci/run" for step in jobs["linux"]["steps"])


def test_hooks_run_what_make_check_runs():
    hooks = [hook["id"] for repo in read(_ROOT / ".pre-commit-config.yaml")["repos"] for hook in repo["hooks"]]
    assert hooks == ["ruff-check", "ruff-format", "mypy", "lint-imports"]


def test_hooks_have_the_ruff_that_make_check_has():
    (hook,) = [one for one in read(_ROOT / ".pre-commit-config.yaml")["repos"] if "ruff" in one["repo"]]
    wanted = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert f"ruff=={hook['rev'].removeprefix('v')}" in wanted["optional-dependencies"]["dev"]


def test_the_number_of_golden_cases_is_that_which_is_told():
    told = f"# {len(CASES)} cases against"
    assert told in (_ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
