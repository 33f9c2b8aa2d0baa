"""Whether the packages of the cluster targets are installed: they are a uv extra, which `local` does without."""

import importlib.util

import pulumi

PACKAGES = ("pulumi_kubernetes", "pulumi_command", "kubernetes")


def require_cluster_extra(target: str) -> None:
    """Raises RunError with the line that installs what is missing."""
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise pulumi.RunError(
            f"target {target} needs Python packages that are not installed ({', '.join(missing)}). To install them:\n"
            "  uv sync --inexact --extra cluster"
        )
