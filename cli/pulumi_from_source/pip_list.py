"""All that Pulumi's Python language host asks of pip: `python -m pip list -v --format json`.

It looks there for Pulumi packages, at every preview and update. This lists what is installed in a tenth of pip's time,
and goes before the pip of .venv: it is installed as a package pip beside the language host that is built here.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import distributions


def installed() -> list[dict[str, str]]:
    """Return name, version and folder of each distribution that this Python imports from."""
    return [
        {
            "name": distribution.metadata["Name"],
            "version": distribution.version,
            "location": str(distribution.locate_file("")),
        }
        for distribution in distributions()
    ]


def main(arguments: list[str]) -> int:
    """Print the distributions as JSON for `list`, and refuse pip's other commands. Return the exit status."""
    if arguments[:1] != ["list"]:
        sys.stderr.write("this is no pip: it lists packages for Pulumi's language host; `uv` installs them\n")
        return 2
    sys.stdout.write(json.dumps(installed()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
