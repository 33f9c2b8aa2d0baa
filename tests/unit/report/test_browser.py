"""The HTML report, a sweep's and that of `rwi why` in a real browser, on a phone and a desktop, light and dark.

No console error, nothing overlaps or overflows, and every text stands out from its background as WCAG 2.2 AA has it.
"""

import json
import re
import shutil
import subprocess
from dataclasses import dataclass
from html import unescape
from typing import Any

import pytest

from report.html import render
from report.pictures import first
from report.sweep import numbers
from report.sweep_page import render as render_sweep
from report.why_page import render as render_why
from tests.limits import LONGEST_SECONDS
from tests.unit.cli.test_sweep import FakeStack, begun, in_project, run
from tests.unit.report.test_clocks import CASES
from tests.unit.report.test_gpus import page_of as page_with_gpus
from tests.unit.report.test_gpus import unequal
from tests.unit.report.test_html import measured
from tests.unit.report.test_why_page import found as found_causes
from tests.unit.results import make_recipe

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--no-first-run"),
    *("--disable-sync", "--disable-extensions", "--hide-scrollbars", "--enable-logging=stderr"),
    *("--virtual-time-budget=2000", "--allow-file-access-from-files", "--window-size=1500,900"),
]
WIDTHS = (380, 1400)
"""A phone's and a desktop's."""

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on PATH: `apt-get install chromium` to run this")

PROBE = """<script>
const hit = (a, b) => Math.min(a.right, b.right) - Math.max(a.left, b.left) > 1
  && Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2;
function channels(colour) {
  const [r, g, b, alpha = 1] = colour.match(/[\\d.]+/g).map(Number);
  return {rgb: [r, g, b], alpha};
}
const luminance = rgb => rgb.map(c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
  .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
function behind(element) {
  for (; element; element = element.parentElement) {
    const {rgb, alpha} = channels(getComputedStyle(element).backgroundColor);
    if (alpha > 0.99) return rgb;
  }
  return [255, 255, 255];
}
function contrast(element) {
  const style = getComputedStyle(element), svg = element instanceof SVGElement;
  const [low, high] = [channels(svg ? style.fill : style.color).rgb, behind(svg ? element.ownerSVGElement : element)]
    .map(luminance).sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}
function tooPale(element) {
  const style = getComputedStyle(element), size = parseFloat(style.fontSize);
  const large = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
  return contrast(element) < (large ? 3 : 4.5);
}
const overflow = document.documentElement.scrollWidth - innerWidth;
const found = {width: innerWidth, overflow, overlaps: [], outside: [], pale: []};
for (const picture of document.querySelectorAll("svg")) {
  const frame = picture.getBoundingClientRect(), texts = [...picture.querySelectorAll("text")];
  const boxes = texts.map(text => [text.textContent.trim(), text.getBoundingClientRect()]);
  boxes.forEach(([text, box], index) => {
    if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1
        || box.bottom > frame.bottom + 1)
      found.outside.push(picture.getAttribute("aria-label") + ": " + text);
    for (const [other, place] of boxes.slice(index + 1))
      if (hit(box, place)) found.overlaps.push(picture.getAttribute("aria-label") + ": " + text + " / " + other);
  });
}
for (const element of document.body.querySelectorAll("*")) {
  const own = [...element.childNodes].filter(node => node.nodeType === 3 && node.textContent.trim());
  if (own.length && !/^(script|style|title)$/i.test(element.tagName) && tooPale(element))
    found.pale.push(own[0].textContent.trim() + " " + contrast(element).toFixed(2));
}
document.title = JSON.stringify(found);
</script>"""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report with long class names and large counts, which need the most room."""
    names = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
    counts = [[907 if row == column else 10 for column in range(10)] for row in range(10)]
    comparison = measured(
        tmp_path := tmp_path_factory.mktemp("project"),
        make_recipe(epochs=12),
        class_names=names,
        confusion_matrix=counts,
    )
    return render(comparison, "local", tmp_path)


@pytest.fixture(scope="module")
def sweep_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A sweep over workers 1 to 4, of which 3 failed."""
    folder = tmp_path_factory.mktemp("swept")
    with pytest.MonkeyPatch.context() as patch:
        in_project(folder, patch)
        done = run(begun({"workers": ["1", "2", "3", "4"]}), folder / "sweep", FakeStack(folder, failing="3"))
    return render_sweep(done, numbers(done, folder))


@pytest.fixture(scope="module")
def why_page() -> str:
    """Causes of each kind, in two arms."""
    return render_why(found_causes())


@pytest.fixture(scope="module")
def gpu_page(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Arms on GPUs of a long name, which were held back, and of which not all is known."""
    return page_with_gpus(unequal(), tmp_path_factory.mktemp("gpus"))


@pytest.fixture(scope="module")
def first_screens(page: str) -> str:
    """The pictures that answer, of measurements of all kinds."""
    figures = "".join(
        f'<figure class="pictures"><figcaption>{name}</figcaption>{panel.svg}<p class="note">{panel.note}</p></figure>'
        for name, comparison in CASES.items()
        for panel in first(comparison)
    )
    head, _, _ = page.partition("<body>")
    return f"{head}<body>{figures}</body></html>"


@pytest.fixture(scope="module")
def broken_page(page: str) -> str:
    """The first one with larger letters, a wide block, pale colours, and a script that fails."""
    broken = page.replace("svg text {", "svg text { font-size: 22px !important;")
    broken = broken.replace("--muted: #5c5c68", "--muted: #8c8c98")
    return broken.replace("</body>", "<p style='width:3000px'>wide</p><script>undefinedName()</script></body>")


KINDS = ("page", "gpu_page", "first_screens", "sweep_page", "why_page")


@dataclass
class Seen:
    """What the probe finds in a page at each width, and what the console says of it."""

    found: list[dict[str, Any]]
    console: list[str]


@pytest.fixture(scope="module", params=["light", "dark"])
def seen(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Seen]:
    """Every page in one browser: to start one takes longer than to look at them."""
    folder, kinds = tmp_path_factory.mktemp("seen"), (*KINDS, "broken_page")
    for kind in kinds:
        page = request.getfixturevalue(kind).replace("</body>", PROBE + "</body>")
        (folder / f"{kind}.html").write_text(page, encoding="utf-8")
    # Headless windows are at least 500 wide, so a phone is a frame of its width within one.
    frames = folder / "frames.html"
    sizes = [f"width:{width}px;height:800px;border:0" for width in WIDTHS]
    frames.write_text(
        "".join(f'<iframe src="{kind}.html" style="{size}"></iframe>' for kind in kinds for size in sizes)
        + "<script>onload = () => { document.title = `[${Array.from(frames, one => one.document.title)}]` }</script>"
    )
    scheme = f"--blink-settings=preferredColorScheme={'01'[request.param == 'light']}"
    command = [str(CHROMIUM), *FLAGS, scheme, f"--user-data-dir={folder}/profile", "--dump-dom", frames.as_uri()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_SECONDS, check=True)
    title = re.search(r"<title>(.*?)</title>", done.stdout)
    assert title, done.stdout[:500]
    found = iter(json.loads(unescape(title[1])))
    console = [line for line in done.stderr.splitlines() if ":CONSOLE" in line]
    return {
        kind: Seen([next(found) for _ in WIDTHS], [line for line in console if f"/{kind}.html" in line])
        for kind in kinds
    }


@pytest.mark.parametrize("kind", KINDS)
def test_everything_can_be_read(kind: str, seen: dict[str, Seen]) -> None:
    """Labels stay apart and inside their picture, the page never scrolls sideways, nothing is pale."""
    flawless = {"overflow": 0, "overlaps": [], "outside": [], "pale": []}

    assert [{"width": width, **flawless} for width in WIDTHS] == seen[kind].found
    assert [] == seen[kind].console


@pytest.mark.parametrize("seen", ["light"], indirect=True)
def test_the_probe_sees_what_cannot_be_read(seen: dict[str, Seen]) -> None:
    """At each width, with the same probe."""
    broken = seen["broken_page"]

    assert list(WIDTHS) == [at_width["width"] for at_width in broken.found]
    for at_width in broken.found:
        assert at_width["overflow"] > 1000
        assert all(at_width[complaint] for complaint in ("overlaps", "outside", "pale"))
    assert broken.console
