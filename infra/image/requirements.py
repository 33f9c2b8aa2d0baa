"""A user's requirements file: pinned packages of the training image in addition to those of uv.lock. Pure."""

import re
from collections.abc import Mapping
from pathlib import Path

from training.contract.provenance import package_name

ALLOWED = "a file with lines `name==version`; pip's options may stand in it, and comments"
_OPTIONS = (
    "-i ",
    "-f ",
    "--index-url",
    "--extra-index-url",
    "--find-links",
    "--only-binary",
    "--no-binary",
    "--pre",
    "--hash",
)
_PIN = re.compile(r"([A-Za-z0-9][\w.-]*)(\[[\w.,\s-]*\])?\s*==\s*([^\s;]+)\s*(;.*)?")


class RequirementsError(ValueError):
    """Raised if a requirements file cannot be installed; the message names the line."""


def pins(path: Path) -> dict[str, str]:
    """Return the version of each package in the file. Raise RequirementsError if a line does not pin one version, and
    OSError if the file cannot be read."""
    versions = {}
    text = path.read_text(encoding="utf-8").replace("\\\n", " ")
    for number, line in enumerate(text.splitlines(), 1):
        requirement = re.sub(r"(^|\s)#.*", "", line).strip()
        if not requirement or requirement.startswith(_OPTIONS):
            continue
        pin = _PIN.fullmatch(re.split(r"\s--hash", requirement)[0].strip())
        if not pin or "*" in pin[3]:
            shown = re.sub(r"//[^/\s]*@", "//[secret]@", requirement)  # a preview is printed, also into a pull request
            raise RequirementsError(f"line {number} is {shown!r}, which does not pin one version")
        versions[package_name(pin[1])] = pin[3]
    return versions


def conflict(more: Mapping[str, str], locked: Mapping[str, str]) -> str:
    """Return a text about the first package whose version differs from the image's; empty if no version differs."""
    return next(
        (
            f"{name}=={version}, and the image has {name}=={locked[name]}"
            for name, version in sorted(more.items())
            if locked.get(name, version) != version
        ),
        "",
    )
