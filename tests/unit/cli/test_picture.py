"""README's pictures: files of their own, as the report begins with them, which README shows."""

import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from cli.docs import picture
from report.pictures import Panel, as_file
from tests.docs.markdown import ROOT
from tests.unit.report.test_html import measured
from training.contract.codec import write_whole

SVG = "{http://www.w3.org/2000/svg}"
LIGHT, DARK = "#1b1b22", "#ececf1"
"""The colour of text in each theme; the last one that a picture names is the one that holds."""


def test_each_picture_is_an_svg_file_with_its_colours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The lines name arms and axes, the bars arms and parts; every colour that they use is in them."""
    comparison = measured(tmp_path)
    monkeypatch.setattr(picture, "DOCS", tmp_path)
    write_whole(tmp_path / "comparison.json", comparison.to_json())

    assert picture.main([str(tmp_path)]) == 0

    for name, expected in zip(
        picture.NAMES, [{"epochs", "measured", "Ray ahead from 9"}, {"start-up", "training", "evaluation"}], strict=True
    ):
        light, text = ((tmp_path / f"{name}-{theme}.svg").read_text(encoding="utf-8") for theme in ("light", "dark"))
        root = ET.fromstring(text)  # noqa: S314 - the text is our own
        words = {"".join(element.itertext()).strip() for element in root.iter(f"{SVG}text")}
        assert f"{SVG}svg" == root.tag
        assert {"baseline", "native", "ray"} | expected <= words
        assert all(f"{colour}:" in text for colour in ("--ink", "--muted", "--grid", "--arm-4", "--part-1"))
        assert "@media" not in light + text
        assert [*re.findall("--ink: ([^;]*)", light), *re.findall("--ink: ([^;]*)", text)] == [LIGHT, LIGHT, DARK]


def test_a_picture_that_was_not_drawn_is_no_file() -> None:
    """Its reason is told instead."""
    with pytest.raises(ValueError, match="why"):
        as_file(Panel("title", None, "why"))


def test_readme_shows_them() -> None:
    """The files that the tool writes are there, and each is for its theme."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")

    for name in picture.NAMES:
        assert all((ROOT / f"docs/{name}-{theme}.svg").is_file() for theme in ("light", "dark"))
        assert f'(prefers-color-scheme: dark)" srcset="docs/{name}-dark.svg">' in readme  # not prose: HTML
        assert f'src="docs/{name}-light.svg"' in readme
