"""The space of a search: what it is parsed from, what is drawn from it, and what a wrong one is said to be."""

import json
import math
import subprocess
import sys

import optuna
import pytest

from tests.golden import Wording
from training.contract.provenance import PROJECT
from training.workloads.search.space import Space, SpaceError, canonical_space, is_name, replaced, words

TEXT = (
    '{"lr": {"log": [1e-5, 0.1]}, "width": {"int": [16, 256]}, "batch": {"choice": [32, 64]}, "x": {"float": [0, 1]},'
    ' "kind": {"choice": ["adam", "s g d"]}}'
)
DRAWN = [
    {"batch": 32, "kind": "adam", "lr": 0.00401548, "width": 33, "x": 0.53588},
]


def test_each_kind_of_range_stays_within_its_bounds() -> None:
    """Both bounds are allowed, and whole numbers are whole."""
    drawn = Space.parse(TEXT).draw(seed=1, trials=400)

    assert all(1e-5 <= each["lr"] <= 0.1 and 0 <= each["x"] <= 1 for each in drawn)  # type: ignore[operator]
    assert {32, 64} == {each["batch"] for each in drawn}
    assert {"adam", "s g d"} == {each["kind"] for each in drawn}
    widths = {each["width"] for each in Space.parse('{"width": {"int": [1, 3]}, "x": {"float": [0, 1]}}').draw(1, 60)}
    assert {1, 2, 3} == widths
    assert all(isinstance(width, int) for width in widths)


def test_a_logarithmic_range_has_as_many_values_in_each_order_of_magnitude() -> None:
    """A fifth of them between two powers of ten, give or take."""
    drawn = Space.parse('{"lr": {"log": [1e-5, 1]}}').draw(seed=3, trials=1000)
    counts = [sum(10.0**power <= each["lr"] < 10.0 ** (power + 1) for each in drawn) for power in range(-5, 0)]  # type: ignore[operator]

    assert all(150 < count < 250 for count in counts)


def test_the_same_configurations_are_drawn_everywhere() -> None:
    """Of another process, whose hashes of texts differ; and as they were when this was written."""
    code = "import sys, json; from training.workloads.search.space import Space;"
    code += "print(json.dumps(Space.parse(sys.argv[1]).draw(7, 5)))"
    command = [sys.executable, "-c", code, TEXT]
    elsewhere = subprocess.run(command, cwd=PROJECT, capture_output=True, text=True, check=True).stdout

    here = Space.parse(TEXT).draw(seed=7, trials=5)
    assert here == json.loads(elsewhere)
    assert DRAWN == here[:1]


def test_more_trials_begin_with_the_same_ones() -> None:
    """And another order of the names changes nothing; another seed does."""
    space = Space.parse(TEXT)
    reversed_text = json.dumps(dict(reversed(json.loads(TEXT).items())))

    assert space.draw(1, 16) == space.draw(1, 40)[:16]
    assert space.draw(1, 16) == Space.parse(reversed_text).draw(1, 16)
    assert space.draw(1, 16) != space.draw(2, 16)
    assert canonical_space(TEXT) == canonical_space(reversed_text) == canonical_space(canonical_space(TEXT))


def test_no_configuration_is_drawn_twice() -> None:
    """All of a small space are drawn, and more than it has are refused."""
    space = Space.parse('{"a": {"choice": [1, 2, 3]}, "b": {"int": [0, 3]}}')
    drawn = space.draw(seed=5, trials=12)

    assert 12 == space.count
    assert 12 == len({json.dumps(each) for each in drawn})
    with pytest.raises(ValueError, match="13"):
        space.draw(seed=5, trials=13)
    assert math.inf == Space.parse(TEXT).count


def test_numbers_are_short_and_near_what_was_drawn() -> None:
    """Six digits: of the number in a logarithmic range, of the width in another, and enough for a narrow one."""
    for text, digits in {'{"a": {"log": [1e-7, 1e7]}}': 6, '{"a": {"float": [0, 1]}}': 6}.items():
        for each in Space.parse(text).draw(1, 200):
            assert float(f"{each['a']:.{digits}g}") == each["a"]
    narrow = Space.parse('{"a": {"log": [1, 1.00001]}, "b": {"float": [1000000, 1000001]}}').draw(1, 100)
    assert 100 == len({each["a"] for each in narrow}) == len({each["b"] for each in narrow})


@pytest.mark.parametrize(
    ("value", "word"),
    [
        (1e-05, "0.00001"),
        (-1.5e-07, "-0.00000015"),
        (32, "32"),
        (0.5, "0.5"),
        (1e22, "10000000000000000000000"),
        ("a b", "a b"),
    ],
)
def test_a_value_is_a_word_that_every_parser_takes(value: str | float, word: str) -> None:
    """Without an exponent, and the same number when it is read."""
    assert {"a": word} == words({"a": value})
    if not isinstance(value, str):
        assert value == float(word)


def test_values_are_put_in_all_at_once() -> None:
    """One that looks like a name is left; so are the names of others."""
    assert ["--a", "{b}", "--b=2", "{epochs}", "{}"] == replaced(
        ["--a", "{a}", "--b={b}", "{epochs}", "{}"], {"a": "{b}", "b": 2}
    )


def test_optuna_has_the_same_bounds() -> None:
    """Logarithmic, whole, of choices, and any."""
    found = Space.parse(TEXT).distributions()

    assert optuna.distributions.FloatDistribution(1e-5, 0.1, log=True) == found["lr"]
    assert optuna.distributions.IntDistribution(16, 256) == found["width"]
    assert optuna.distributions.CategoricalDistribution((32, 64)) == found["batch"]
    assert optuna.distributions.FloatDistribution(0.0, 1.0) == found["x"]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "lr",
        "[]",
        "{}",
        "[" * 100_000,
        '{"lr": {"log": [1e-5, 0.1]}, "lr": {"int": [1, 2]}}',
        '{"1r": {"int": [1, 2]}}',
        '{"a-b": {"int": [1, 2]}}',
        '{"": {"int": [1, 2]}}',
        *(
            f'{{"{name}": {{"int": [1, 2]}}}}'
            for name in ("workers", "seed", "epochs", "storage", "port", "checkpoint")
        ),
        '{"a": 1}',
        '{"a": [1, 2]}',
        '{"a": {}}',
        '{"a": {"log": [1, 2], "int": [1, 2]}}',
        '{"a": {"uniform": [0, 1]}}',
        '{"a": {"int": 3}}',
        '{"a": {"int": [1]}}',
        '{"a": {"int": [1, 2, 3]}}',
        '{"a": {"int": ["1", "2"]}}',
        '{"a": {"int": [true, 2]}}',
        '{"a": {"int": [1.5, 2]}}',
        '{"a": {"int": [0, 9007199254740993]}}',
        '{"a": {"int": [3, 1]}}',
        '{"a": {"int": [3, 3]}}',
        '{"a": {"float": [1, 0]}}',
        '{"a": {"float": [0, NaN]}}',
        '{"a": {"float": [0, 1e999]}}',
        '{"a": {"float": [0, 1e19]}}',
        '{"a": {"float": [0, 5e-324]}}',
        '{"a": {"float": [1, 1.0000000000000002]}}',
        '{"a": {"log": [0, 1]}}',
        '{"a": {"log": [-1, 1]}}',
        '{"a": {"log": [0.1, 1e-5]}}',
        '{"a": {"log": [1e-300, 1]}}',
        '{"a": {"choice": []}}',
        '{"a": {"choice": [1, 1]}}',
        '{"a": {"choice": [1, 1.0]}}',
        '{"a": {"choice": [1, "1"]}}',
        '{"a": {"choice": ["1.0", 2, 1, "1"]}}',
        '{"a": {"choice": [0.1, "1e-1"]}}',
        '{"a": {"choice": ["adam", "adam "]}}',
        '{"a": {"choice": ["", " "]}}',
        '{"a": {"choice": [true]}}',
        '{"a": {"choice": [null]}}',
        '{"a": {"choice": [[1]]}}',
        '{"a": {"choice": ["a\\nb"]}}',
        '{"a": {"choice": [1e999]}}',
        '{"a": {"choice": ["{lr}"]}}',
        pytest.param(json.dumps({"a": {"choice": [*range(1001)]}}), id="1001 values"),
        pytest.param(json.dumps({f"a{number}": {"int": [0, 1]} for number in range(51)}), id="51 names"),
        pytest.param(f'{{"a": {{"int": [0, {"9" * 5000}]}}}}', id="5000 digits"),
        pytest.param(f'{{"a": {{"int": [0, {"9" * 400}]}}}}', id="400 digits"),
    ],
)
def test_what_is_no_space_is_refused(text: str, wording: Wording) -> None:
    """With a reason, here or in Python's own words; what is probably meant is a space."""
    with pytest.raises(SpaceError) as refused:
        Space.parse(text)

    assert text.strip() == canonical_space(text)
    if "no JSON:" not in str(refused.value):  # not prose: Python's own words follow, which its versions change
        wording("search", f"{text[:70]}\n{refused.value}\n{refused.value.instead}")
    if refused.value.instead:
        Space.parse(refused.value.instead)


@pytest.mark.parametrize(
    ("text", "instead"),
    [
        ('{"a": {"log": [0.1, 1e-05]}}', '{"a": {"log": [1e-05, 0.1]}}'),
        ('{"a": {"int": [1.5, 2]}}', '{"a": {"float": [1.5, 2]}}'),
        ('{"a": {"log": [0, 1]}}', '{"a": {"float": [0, 1]}}'),
        ('{"a": {"int": [3, 3]}}', '{"a": {"choice": [3]}}'),
        ('{"a": {"choice": [1, "1", 2, "2.0", 1]}}', '{"a": {"choice": [1, 2]}}'),
    ],
)
def test_what_was_probably_meant_is_offered(text: str, instead: str) -> None:
    """The other names stay as they are."""
    with pytest.raises(SpaceError) as refused:
        Space.parse(text)

    assert instead == refused.value.instead


def test_texts_that_a_script_can_tell_apart_are_choices() -> None:
    """Versions, or names: only a number is the text that says it."""
    space = Space.parse('{"a": {"choice": ["1.1", "1.10", "true", "True", "nan", "", 2, "adam w"]}}')

    assert 8 == space.count == len({replaced(["{a}"], each)[0] for each in space.draw(1, 8)})


def test_no_two_numbers_that_are_drawn_are_one_argument() -> None:
    """Not -0.0 and 0.0, to which others are rounded."""
    (values,) = Space.parse('{"a": {"float": [-1, 1]}}').ranges.values()

    assert ["0.0", "0.0"] == [words({"a": values.at(share)})["a"] for share in (0.5 - 1e-9, 0.5 + 1e-9)]
    assert "0.0" == words({"a": values.within(-1e-9)})["a"]


def test_a_name_is_one_that_nothing_else_has() -> None:
    """As a placeholder in the arguments."""
    assert is_name("lr")
    assert is_name("weight_decay2")
    assert not any(map(is_name, ("", "2lr", "epochs", "port", "a b", "é")))
