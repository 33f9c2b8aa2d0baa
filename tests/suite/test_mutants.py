"""The mutants still say where they belong: whoever moves the code that they break adapts them."""

import pytest

from tests.mutants.mutants import PROJECT, Mutant, NotAppliedError, mutants, sources

SOURCES = {"a.py": "def f(x):\n    return (\n        x > 1\n    )\n", "b.py": "y = 1\n"}
CHANGED = "def f(x):\n    return x > 2\n"


def _mutant(find: str, replace: str) -> Mutant:
    return Mutant(name="m", promise="", find=find, replace=replace, tests=())


def test_every_mutant_applies_exactly_once() -> None:
    """Each changes one place of the product, leaves it Python, and has tests that there are."""
    texts, problems = sources(), []
    for mutant in mutants():
        try:
            mutant.applied(texts)
        except NotAppliedError as error:
            problems.append(str(error))
        problems += [
            f"{mutant.name}: there is no {test}"
            for test in mutant.tests
            if not (PROJECT / test.split("::")[0]).exists()
        ]

    assert [] == problems


def test_a_snippet_is_found_however_it_is_wrapped() -> None:
    """Neither its file nor its line breaks matter."""
    path, changed = _mutant("return (x > 1)", "return x > 2").applied(SOURCES)

    assert ("a.py", CHANGED) == (path, changed)


@pytest.mark.parametrize(("find", "replace"), [("x > 9", "x"), ("1", "2"), ("x > 1", "x >")])
def test_what_does_not_apply_is_refused(find: str, replace: str) -> None:
    """A snippet that stands nowhere or twice, and one that leaves no Python."""
    with pytest.raises(NotAppliedError):
        _mutant(find, replace).applied(SOURCES)
