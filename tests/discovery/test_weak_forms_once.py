"""One discovery builds the weak form of each candidate once, checks and refits included."""

import bvsi.operators.operator as building
from bvsi.discovery import discover
from discovery.exact_cases import BURGERS, burgers


def test_each_weak_form_is_built_and_linearised_once(monkeypatch):
    built, linearised = [], []
    build, linearise = building.build_operator, building.linearise

    def counted(operator, **given):
        built.append(operator.name)
        return build(operator, **given)

    def counted_too(terms, words):
        linearised.append(terms)
        return linearise(terms, words)

    monkeypatch.setattr(building, "build_operator", counted)
    monkeypatch.setattr(building, "linearise", counted_too)
    library = BURGERS.subset(BURGERS.names)
    for operator in library.operators:
        operator.weak_forms.clear()
    found = discover(burgers(), library)
    assert found.check is not None
    assert sorted(built) == sorted(library.names)
    # once as it is and once without the number in front of it, over cells, facets and boundary
    assert len(linearised) <= 2 * 3 * len(library)
