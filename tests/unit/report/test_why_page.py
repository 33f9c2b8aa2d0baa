"""The page of `rwi why`: what it says, that its table has what its picture shows, and that it is whole in one file."""

import re
from collections.abc import Sequence
from dataclasses import replace
from html import unescape
from typing import Any

import pytest

from compare import why
from compare.why import INPUT_READY, NO_EXCHANGE, Why
from report import plots, step_parts, why_page
from report.plots import Gain
from tests.golden import Wording
from tests.unit.compare.test_why import PARTS, judged, parts, tried
from tests.unit.report.test_html import EVIL, is_whole_in_one_file, svgs

WIDE = [0.6, 1.4, 0.7, 1.3, 0.9, 1.1]
SLOW = parts(
    seconds=PARTS | {"between": 0.02, "save": 0.01, "collective": 0.036},
    exchange=[0.030, 0.006],
    link=0.006,
    own_work=[[0.050], [0.078]],
)
RATIOS = {INPUT_READY: 0.5, NO_EXCHANGE: 0.99, "threads 1": 1.3, "threads 2": 0.9}


def found(**changes: Any) -> Why:
    """Two arms: one with causes of each kind, one without any that is certain."""
    native = tried(RATIOS, parts=SLOW, threads=4, rows=128.0)
    baseline = tried(
        {INPUT_READY: 0.8},
        wobble=WIDE,
        absent={NO_EXCHANGE: "no gradients are exchanged", "threads 1": "it has no more"},
    )
    gain = why.distribution(native, baseline, INPUT_READY, ("native", "baseline"), 2)
    whole = Why(
        schema_version=1,
        made_at="2026-11-05T09:07:11+00:00",
        command="./rwi why train.py --env TOKEN=… -- --epochs {epochs}",
        script="train.py",
        script_sha256="0" * 64,
        arguments=["--epochs", "{epochs}"],
        workers=2,
        cpu_model="A CPU",
        busy="other programs took 0.7 of 2 CPUs",
        arms={"native": judged(native), "baseline": judged(baseline)},
        unknown={"ray": "3 rounds, and 4 are needed"},
        distribution=[gain] if gain else [],
    )
    return replace(whole, **changes)


def text(page: str) -> str:
    """What is read, a line an element; of pictures their description."""
    body = page[page.index("<body>") :]
    body = re.sub(r'<svg role="img" aria-label="([^"]*)".*?</svg>', r"[\1]", body, flags=re.DOTALL)
    body = (
        re.sub(r"</(th|td)>\s*(?=<t[hd])", " | ", body)
        .replace("</p>", "\n")
        .replace("<small>", " (")
        .replace("</small>", ")")
    )
    return "\n".join(line.strip() for line in unescape(re.sub(r"<[^>]+>", "", body)).splitlines() if line.strip())


@pytest.fixture(scope="module")
def page() -> str:
    """With everything."""
    return why_page.render(found())


def test_it_says_all_that_was_found(page: str, wording: Wording) -> None:
    """The warning first, then where a step goes, causes, numbers, what was not tried, distribution, and the command."""
    wording("causes", text(page))


def test_the_warning_is_there_where_the_machine_was_busy_alone(page: str) -> None:
    """Before the heading."""
    assert page.index('class="machine"') < page.index("<h1>")
    assert 'class="machine"' not in why_page.render(found(busy=""))


def test_without_causes_and_parts_it_says_so(wording: Wording) -> None:
    """As of FSDP: no bar, and no distribution; nothing was given in ENV."""
    nothing = judged(tried({INPUT_READY: 1.0}, parts=None))
    content = found(arms={"native": nothing}, unknown={}, distribution=[], command="./rwi why train.py")
    page = why_page.render(content)

    assert {"gains-native"} == set(svgs(page))
    wording("causes", text(page))


def test_an_arm_in_which_nothing_could_be_tried_has_no_picture() -> None:
    """Its step is in the table all the same."""
    page = why_page.render(found(arms={"native": judged(tried({}, parts=None))}))

    assert {} == svgs(page)
    assert "84.0" in page


def test_the_picture_shows_the_largest_gain_first(monkeypatch: pytest.MonkeyPatch, wording: Wording) -> None:
    """Tried and clocked ones, with how each is known; a slower rank is none, since a wait is no gain."""
    drawn: dict[str, Sequence[Gain]] = {}
    monkeypatch.setattr(plots, "gains", lambda arm, rows: drawn.setdefault(arm, rows) and "<svg></svg>")
    why_page.render(found())

    wording("causes", "\n".join(f"{row.what}: {row.how}" for row in drawn["native"]))
    assert all(row.lower <= row.seconds <= row.upper for row in drawn["native"])
    assert drawn["native"][0].seconds == pytest.approx(0.042, rel=0.02)
    assert drawn["native"][-1].seconds == pytest.approx(-0.025, rel=0.05)
    assert ["not certain"] == [row.how for row in drawn["baseline"]]


def test_what_is_not_certain_is_hollow() -> None:
    """Filled with the ground that it stands on; zero is a line."""
    certain, open_ = (Gain("input ready", 0.02, 0.01, 0.03, how) for how in ("certain", "not certain"))

    assert "fill: var(--card)" not in plots.gains("native", [certain])
    assert "fill: var(--card)" in plots.gains("native", [certain, open_])
    assert "stroke: var(--ink)" in plots.gains("native", [certain])


def test_parts_have_colours_of_their_own() -> None:
    """However many there are."""
    every = {"native": dict.fromkeys(step_parts.WORDS, 0.01)}
    colours = re.findall(r"fill: var\((--(?:series|part)-\d)\)", plots.step_parts(every))

    assert len(every["native"]) == len(set(colours))


def test_it_is_whole_in_one_file(page: str) -> None:
    """With a picture of each arm in which something was tried."""
    is_whole_in_one_file(page)
    assert {"step-parts", "gains-native", "gains-baseline"} == set(svgs(page))


def test_what_was_typed_is_text() -> None:
    """A script may have any name."""
    page = why_page.render(found(script=EVIL, arguments=[EVIL], command=EVIL, busy=EVIL, unknown={"ray": EVIL}))

    assert "<script" not in page
    assert 6 == page.count("&lt;script&gt;")
