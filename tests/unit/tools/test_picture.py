"""README's picture: a file of its own with the bars of every arm, which the page shows."""

from pathlib import Path
from xml.etree import ElementTree as ET

from tests.docs.markdown import ROOT
from tests.unit.report.test_html import measured
from tools.docs import picture

SVG = "{http://www.w3.org/2000/svg}"


def test_the_picture_is_an_svg_file_with_a_bar_of_parts_an_arm(tmp_path: Path) -> None:
    """It names the arms and the parts, and every colour that it uses is in it."""
    text = picture.picture(measured(tmp_path))
    root = ET.fromstring(text)  # noqa: S314 - the text is our own
    words = {"".join(element.itertext()).strip() for element in root.iter(f"{SVG}text")}

    assert f"{SVG}svg" == root.tag
    assert {"baseline", "native", "ray", "start-up", "training", "evaluation", "other"} <= words
    assert all(f"{name}:" in text for name in ("--ink", "--muted", "--grid", "--series-1", "--series-2", "--series-3"))


def test_readme_shows_it() -> None:
    """The file that the tool writes is there."""
    assert picture.PATH.is_file()
    assert f"]({picture.PATH.relative_to(ROOT)})" in (ROOT / "README.md").read_text(encoding="utf-8")
