"""Every link of the documents leads somewhere, and the official documentation is linked from where people learn."""

import re
from pathlib import PurePosixPath
from urllib.parse import urlsplit

import pytest

from tests.docs import markdown
from tests.docs.markdown import ROOT, Command

OFFICIAL = {
    "Ray Train": "https://docs.ray.io/en/latest/train/train.html",
    "distributed TensorFlow with Ray Train": "https://docs.ray.io/en/latest/train/distributed-tensorflow-keras.html",
    "KubeRay": "https://docs.ray.io/en/latest/cluster/kubernetes/index.html",
    "Ray key concepts": "https://docs.ray.io/en/latest/ray-core/key-concepts.html",
    "TensorFlow's distributed training guide": "https://www.tensorflow.org/guide/distributed_training",
    "Pulumi": "https://www.pulumi.com/docs/",
}


def dead_end(link: Command) -> str:
    """Why a link leads nowhere; empty for one that does, or that leaves the project."""
    address = urlsplit(link.text)
    if address.scheme in ("https", "mailto"):
        return ""
    if address.scheme:
        return f"a link is relative or https: {link.text}"
    here = PurePosixPath(link.place.document)
    target = (ROOT / here.parent / address.path).resolve() if address.path else ROOT / here
    if not target.is_relative_to(ROOT) or not target.exists():
        return f"{link.text} is not there"
    if address.fragment and address.fragment not in markdown.anchors(target.read_text(encoding="utf-8")):
        return f"{link.text} names no heading of {target.relative_to(ROOT)}"
    return ""


@pytest.mark.parametrize("document", markdown.documents())
def test_every_link_leads_somewhere(document: str) -> None:
    """Files exist, anchors are headings."""
    found = markdown.links(document, markdown.read(document))

    assert [] == [f"{link.place}: {why}" for link in found if (why := dead_end(link))]


@pytest.mark.parametrize("document", ["README.md", "docs/exercise.md"])
def test_the_official_documentation_is_linked(document: str) -> None:
    """Who wants more than this project says finds it."""
    addresses = {link.text for link in markdown.links(document, markdown.read(document))}

    assert {} == {what: address for what, address in OFFICIAL.items() if address not in addresses}


@pytest.mark.parametrize("guide", [path.stem for path in sorted((ROOT / "docs").glob("*.md"))])
def test_readme_leads_to_every_guide(guide: str) -> None:
    """A document that nothing links is not found."""
    found = markdown.links("README.md", markdown.read("README.md"))

    assert f"docs/{guide}.md" in {link.text.partition("#")[0] for link in found}


@pytest.mark.parametrize(
    "target", ["no/such.md", "docs/outputs.md#no-such-heading", "#no-such-heading", "http://x.example"]
)
def test_a_broken_link_is_found(target: str) -> None:
    """Each kind of mistake once."""
    (link,) = markdown.links("README.md", f"a [link]({target})")

    assert dead_end(link)


def test_every_document_that_the_code_names_is_there() -> None:
    """In comments, messages, `rwi --help` and stack files; a decision may be named by its number alone."""
    folders = ("bench", "compare", "infra", "policy", "report", "stacks", "cli", "training")
    files = [path for name in folders for kind in ("*.py", "*.yaml", "*.j2") for path in (ROOT / name).rglob(kind)]
    texts = {path: path.read_text(encoding="utf-8") for path in [*files, ROOT / "Pulumi.yaml"]}
    absent = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in texts.items()
        for name in re.findall(r"(?<![\w./-])docs/[\w./-]*\w", text)
        if not (ROOT / name).exists() and not list(ROOT.glob(f"{name}-*.md"))
    ]

    assert [] == absent


def test_anchors_are_those_of_github() -> None:
    """Punctuation goes, blanks become dashes, and a name that is taken gets a number."""
    text = "# What's `up`?\n## What's up\n```sh\n# a comment\n```\n### 3. Ray, *twice* – again\n"

    assert {"whats-up", "whats-up-1", "3-ray-twice--again"} == markdown.anchors(text)
