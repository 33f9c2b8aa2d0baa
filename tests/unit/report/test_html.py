"""The HTML report: whole in one file, without an outside address, with every picture that its runs allow."""

import html
import re
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from cli.door import parse
from compare.comparison import compare
from compare.schema import Comparison
from report import plots
from report.html import render
from report.plots import ShownRun
from tests.unit.results import RUN, make_context, make_provenance, make_recipe, make_result, make_runs, written_run
from training.contract.result import Reported
from training.workloads.cnn.recipe import CnnRecipe

PICTURES = {
    "clocks", "time", "start-up", "step-times", "accuracy-epochs", "accuracy-seconds", "loss-epochs", "loss-seconds",
    "rate", "class-accuracy", "confusion-baseline", "confusion-native", "confusion-ray", "cpu", "memory", "scaling",
}  # fmt: skip


def measured(
    project: Path, recipe: CnnRecipe | None = None, settings: dict[str, str] | None = None, **changes: Any
) -> Comparison:
    """A measurement whose result files lie in `project`."""
    runs = [written_run(project, make_result(arm, r, recipe, **changes), r) for r in (1, 2, 3) for arm in RUN]
    return compare(runs, make_context(recipe, settings=settings or {}))


def whole(project: Path) -> Comparison:
    """A plain, whole measurement, with two settings."""
    return measured(project, make_recipe(epochs=5), settings={"epochs": "5", "model": "cnn"})


@pytest.fixture(scope="module")
def comparison(tmp_path_factory: pytest.TempPathFactory) -> tuple[Comparison, Path]:
    """That one, and the project in which its files lie."""
    project = tmp_path_factory.mktemp("project")
    return whole(project), project


@pytest.fixture(scope="module")
def page(comparison: tuple[Comparison, Path]) -> str:
    """Its report: rendering takes a second and more, and most tests of this file look at this one."""
    return render(comparison[0], "local", comparison[1])


def svgs(page: str) -> dict[str, str]:
    """The pictures of a page by the name that prefixes their ids."""
    found = re.findall(r"<svg .*?</svg>", page, re.DOTALL)
    return {re.search(r'id="(.+?)-figure_1"', text)[1]: text for text in found}  # type: ignore[index]


class _Tags(HTMLParser):
    """Open tags and ids of a page, and tags that close what is not open."""

    void = frozenset({"meta", "link", "br"})

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        if tag not in self.void:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def tags_of(page: str) -> _Tags:
    """What is open in the end, ids, and what is closed without being open."""
    tags = _Tags()
    tags.feed(page)
    return tags


def is_whole_in_one_file(page: str) -> None:
    """No address, no script, no import, no font, not even a name space: the file works from file:// alone.

    Every tag is closed, every id is unique, and every reference leads to one.
    """
    tags = tags_of(page)
    references = set(re.findall(r'(?:href="|url\()#([^")]+)', page))

    assert [] == re.findall(r"https?:|//\w|@import|<script|<iframe|<img|url\((?!#)|srcset", page)
    assert [] == re.findall(r'href="(?!#|data:,")', page)
    assert ([], []) == (tags.open, tags.wrong)
    assert len(set(tags.ids)) == len(tags.ids)
    assert set() == references - set(tags.ids)


def test_the_page_is_whole_in_one_file(page: str) -> None:
    """And has one inline SVG for each picture that the report promises."""
    is_whole_in_one_file(page)
    assert set(svgs(page)) == PICTURES


def test_axes_are_labelled_with_units(page: str) -> None:
    """Each picture has its axes named; SVGs are XML with text as text."""
    pictures = svgs(page)
    expected = {
        "clocks": ["epochs", "seconds, start to result"],
        "time": ["seconds, median run"],
        "step-times": ["step of rank 0, milliseconds", "share of the arm's steps, %"],
        "accuracy-epochs": ["epoch", "validation accuracy, %"],
        "accuracy-seconds": ["training seconds (steady state)", "validation accuracy, %"],
        "loss-epochs": ["epoch", "training loss"],
        "loss-seconds": ["training seconds (steady state)", "training loss"],
        "rate": ["epoch", "learning rate"],
        "class-accuracy": ["test accuracy, %", "class"],
        "confusion-ray": ["predicted class", "true class"],
        "cpu": ["seconds since the first step", "CPUs in use"],
        "memory": ["seconds since the first step", "resident memory, MiB"],
        "scaling": ["workers", "speedup"],
    }

    for name, labels in expected.items():
        texts = ["".join(text.itertext()).strip() for text in ET.fromstring(pictures[name]).iter("text")]  # noqa: S314 - drawn by this program
        assert [label for label in labels if label not in texts] == []


def test_colours_follow_the_theme(page: str) -> None:
    """Every colour drawn is a variable of the page, and each variable has a light and a dark value."""
    used = set(re.findall(r"var\((--[\w-]+)\)", page))
    light, dark = re.findall(r":root \{(.*?)\}", page, re.DOTALL)[:2]

    assert [name for name in used if f"{name}:" not in light or f"{name}:" not in dark] == []
    assert set(re.findall(r"(?:fill|stroke): (#[0-9a-f]{6})", "".join(svgs(page).values()))) <= {"#000000"}


@pytest.mark.parametrize("theme", [0, 1])
def test_text_has_the_contrast_of_wcag_aa(page: str, theme: int) -> None:
    """4.5 to 1 for text on the page and on cards, 3 to 1 for what is drawn."""
    block = re.findall(r":root \{(.*?)\}", page, re.DOTALL)[theme]
    colours = dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", block))

    for ground in ("page", "card"):
        for text in ("ink", "muted", "good", "bad"):
            assert _contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
        for drawn in [name for name in colours if name.startswith(("series", "arm-", "part-"))]:
            assert _contrast(colours[drawn], colours[ground]) >= 3, (drawn, ground)
    strongest = _mixed(colours["heat"], colours["card"], 0.42)
    assert _contrast(colours["ink"], strongest) >= 4.5


def _mixed(above: str, below: str, share: float) -> str:
    pairs = zip(_channels(above), _channels(below), strict=True)
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


def _channels(colour: str) -> list[int]:
    return [int(colour[index : index + 2], 16) for index in (1, 3, 5)]


def _contrast(one: str, other: str) -> float:
    """Relative luminance as WCAG 2.2 defines it."""

    def luminance(colour: str) -> float:
        linear = [
            c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (v / 255 for v in _channels(colour))
        ]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def test_verdict_table_checks_recipe_and_commands_are_there(comparison: tuple[Comparison, Path], page: str) -> None:
    """What the pictures do not say: in words, top down."""
    places = [
        page.index(text)
        for text in (
            "<h1>Worth it from 9 epochs on</h1>",
            ">Arms<",
            ">Time<",
            ">Learning<",
            ">Fairness<",
            ">Made with<",
        )
    ]

    assert places == sorted(places)
    assert comparison[0].verdict.partition(": ")[2][1:] in html.unescape(page)
    assert page.count("✓ verified") == len(comparison[0].checks)
    assert "epochs=5" in page
    again = " --set epochs=5 --set model=cnn"
    assert f"./rwi destroy{again}\n./rwi up{again}" in page  # not prose: commands


@pytest.mark.usefixtures("undrawn")
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"datasetPath": "/my data/it's here", "allowOversubscription": "true", "workerMemory": "2Gi", "repeats": "4"},
        {"scriptArguments": '{"pool": "$HOME"}', "podTemplate": "it's [here].yaml", "nativeArm": "false"},
    ],
)
def test_the_command_that_measures_again_has_every_setting(tmp_path: Path, settings: dict[str, str]) -> None:
    """A shell that reads the line has the same texts in the end."""
    page = render(compare(make_runs(), make_context(settings=settings)), "sweep-local", tmp_path)
    line = next(text for text in html.unescape(page).splitlines() if text.startswith("./rwi up")).partition("<")[0]
    words = subprocess.run(["bash", "-c", f"printf '%s\\0' {line}"], stdout=-1, text=True, check=True).stdout
    given = parse(words.split("\0")[1:-1]).params

    assert ("local", settings) == (given["stack"], given["settings"])


@pytest.mark.usefixtures("undrawn")
def test_missing_runs_are_named_and_the_rest_is_drawn(tmp_path: Path) -> None:
    """A removed run folder costs its lines and no more."""
    comparison = measured(tmp_path)
    (tmp_path / "runs/test/ray-2/result.json").unlink()
    (tmp_path / "runs/test/ray-3/result.json").write_text("{}")

    page = render(comparison, "local", tmp_path)

    assert [("ray-2", "missing"), ("ray-3", "changed")] == re.findall(r"<code>(ray-\d)</code> \((\w+)\)", page)
    assert set(svgs(page)) == PICTURES


@pytest.mark.usefixtures("undrawn")
def test_without_any_run_file_the_numbers_remain(tmp_path: Path) -> None:
    """All run folders removed: verdict, table, time and projection stand in the comparison itself. What is absent says
    why, also where nothing was measured."""
    comparison = compare(make_runs(), make_context())
    page = render(comparison, "local", tmp_path)
    two, nothing = ("baseline", "ray"), compare([], make_context())

    assert set(svgs(page)) == {"clocks", "time", "start-up", "scaling"}
    (answer,) = re.findall("<h1>(.*)</h1>", page)
    assert comparison.verdict.startswith(answer)
    assert "<code>baseline-1</code> (missing)" in page
    assert "nativeArm is off" in render(compare(make_runs(arms=two), make_context(arms=two)), "local", tmp_path)
    empty = html.unescape(render(nothing, "local", tmp_path))
    assert nothing.verdict.partition(": ")[2].partition(".")[0] in empty


EVIL = "<script>alert(1)</script> & co"
NAMES = [
    r"$x^{$",
    r"\$\frac{$",
    "$$",
    "#010500",
    'id="a"',
    "<!-- b -->",
    "]]>&lt;",
    "c\x00\x1b\n",
    "\ud800",
    "d" * 999,
    EVIL,
]
"""Names that look like formulas, colours, ids or markup, that no SVG may hold, or that are far too long."""


HOSTILE: dict[str, Any] = {
    "provenance": make_provenance(cpu_model=EVIL),
    "class_names": NAMES,
    "class_accuracy": [0.9 for _ in NAMES],
    "confusion_matrix": [[9 if row == column else 1 for column in range(len(NAMES))] for row in range(len(NAMES))],
}
"""Of runs on a CPU with such a model, and of classes with such names."""


@pytest.mark.usefixtures("undrawn")
def test_text_from_runs_is_escaped(tmp_path: Path) -> None:
    """A CPU model or a class name is text and never markup."""
    page = render(measured(tmp_path, **HOSTILE), "local", tmp_path)

    page.encode()  # can be written
    assert "<script" not in page
    assert "&lt;script&gt;alert(1)&lt;/script&gt; &amp; co" in page


def test_hostile_class_names_are_drawn_as_they_are() -> None:
    """Those of `NAMES`."""
    runs = [ShownRun(f"{arm}-1", 1, make_result(arm, **HOSTILE)) for arm in RUN]
    shown = [*NAMES[:7], "c\ufffd\ufffd\ufffd", "\ufffd", "d" * 23 + "…"]

    for picture in (plots.class_accuracy(runs), plots.confusion("ray", runs)):
        (svg,) = svgs(picture).values()
        texts = [text.text for text in ET.fromstring(svg).iter("text")]  # noqa: S314 - drawn by this program
        assert [name for name in shown if name not in texts] == []


def test_rendering_is_deterministic(page: str, tmp_path: Path) -> None:
    """The same comparison gives the same bytes, wherever its files lie: a report can be compared and cached."""
    assert page == render(whole(tmp_path), "local", tmp_path)


def test_classes_without_images_and_runs_without_samples(tmp_path: Path) -> None:
    """A class that the test set lacks and a system without samples leave gaps, not errors."""
    workers = {arm: [replace(worker, samples=[]) for worker in make_result(arm).workers] for arm in RUN}
    lacking: dict[str, Any] = {"class_accuracy": [None, *[0.9] * 9], "steps_trace": []}
    runs = [
        written_run(tmp_path, make_result(arm, repeat, workers=workers[arm], **lacking), repeat)
        for repeat in (1, 2, 3)
        for arm in RUN
    ]

    page = render(compare(runs, make_context()), "local", tmp_path)

    assert set(svgs(page)) == PICTURES - {"step-times", "cpu", "memory"}
    assert "samples" in page


def test_the_metric_of_a_script_is_a_line_a_run() -> None:
    """Through what each run reported; one that reported nothing has no points."""
    reported = {"f1": [Reported(seconds=2.0, value=0.5), Reported(seconds=4.0, value=0.75)]}
    runs = [ShownRun(f"{arm}-1", 1, make_result(arm, reported=reported)) for arm in ("baseline", "ray")]
    runs.append(ShownRun("native-1", 1, make_result("native")))

    picture = svgs(plots.metric(runs, "f1"))["metric"]

    assert "f1 over seconds" in picture
    assert "seconds since" in picture
