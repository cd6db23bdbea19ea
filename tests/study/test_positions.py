"""Line numbers of TOML against ``tomllib``: every value of a document has a line, and the right one."""

import tomllib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bvsi.app.study.positions import positions
from bvsi.app.study.toml_text import toml_key, toml_value

DOCUMENT = '''# comment with [brackets] and "quotes"
title = "a # b"            # line 2
a.b = 1                    # dotted, line 3
a."c d" = 'x]'             # line 4

[table]                    # line 6
list = [                   # line 7
  "one, two",              # line 8
  # a comment ] in between
  [1, 2],                  # line 10
  {p = 1, q = [3,
    4]},                   # line 12 holds the 4
]
text = """
not = "a key"
[nor a table] \\""" still
"""
after = true               # line 18
empty = []
blank = ""

[[many]]                   # line 22
n = 1
[many.inner]               # line 24
m = 1.5
[[many]]                   # line 26
n = 2
[[many.deep]]              # line 28
k = 1979-05-27T07:32:00Z
["quoted.header".x]        # line 30
y = \'\'\'
raw \\ \'\'two quotes
\'\'\'
z = {}
'''


def places(value, place=()):
    """All places of a document."""
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield from places(inner, (*place, key))


def test_every_place_has_its_line():
    found = positions(DOCUMENT)
    assert set(found) == set(places(tomllib.loads(DOCUMENT)))
    wanted = {
        ("title",): 2,
        ("a",): 3,
        ("a", "b"): 3,
        ("a", "c d"): 4,
        ("table",): 6,
        ("table", "list"): 7,
        ("table", "list", 0): 8,
        ("table", "list", 1): 10,
        ("table", "list", 1, 1): 10,
        ("table", "list", 2, "q"): 11,
        ("table", "list", 2, "q", 1): 12,
        ("table", "text"): 14,
        ("table", "after"): 18,
        ("table", "blank"): 20,
        ("many",): 22,
        ("many", 0): 22,
        ("many", 0, "inner", "m"): 25,
        ("many", 1): 26,
        ("many", 1, "n"): 27,
        ("many", 1, "deep", 0, "k"): 29,
        ("quoted.header", "x"): 30,
        ("quoted.header", "x", "y"): 31,
        ("quoted.header", "x", "z"): 34,
    }
    assert {place: found[place] for place in wanted} == wanted


def test_windows_lines_count_once():
    assert positions("a = 1\r\n\r\n[b]\r\nc = [1,\r\n2]\r\n")[("b", "c", 1)] == 5


@pytest.mark.parametrize("text", ["", "\n\n", "# only a comment", "a = 1", "[a]", "a = {b = {c = []}}"])
def test_short_documents(text):
    assert set(positions(text)) == set(places(tomllib.loads(text)))


texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r"), max_size=8)
values = st.recursive(
    st.one_of(texts, st.integers(-5, 5), st.booleans(), st.floats(allow_nan=False)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(texts, inner, max_size=3)),
    max_leaves=8,
)


@settings(max_examples=50)
@given(st.dictionaries(texts, st.dictionaries(texts, values, max_size=3), max_size=3))
def test_what_is_written_is_read_back_with_all_places(document):
    """The writer's text gives the same document, and the locator finds every key of it on its line."""
    lines, wanted = [], {}
    for table, pairs in document.items():
        lines.append(f"[{toml_key(table)}]")
        wanted[(table,)] = "\n".join(lines).count("\n") + 1
        for key, value in pairs.items():
            lines.append(f"{toml_key(key)} = {toml_value(value)}")
            wanted[(table, key)] = "\n".join(lines[:-1]).count("\n") + 2
    text = "\n".join(lines)
    assert tomllib.loads(text) == document
    found = positions(text)
    assert set(found) == set(places(document))
    assert {place: found[place] for place in wanted} == wanted
