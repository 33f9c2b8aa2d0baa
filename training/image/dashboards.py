"""Prints the Grafana dashboards of the Ray in an image: `python -c` of this text in it, as a pod's user.

Nothing of this project need be in that image. Prints one line: base64 of a zlib stream of a JSON object, the text of
each dashboard by its name. Exits with 1 where the image's Ray has no generator.
"""

import base64
import importlib
import json
import zlib

FACTORY = "ray.dashboard.modules.metrics.grafana_dashboard_factory"
NAMES = ("default", "train")
"""Names of the dashboards of Ray that show something here. Those of Ray Data and Ray Serve would be empty, because
nothing uses them."""


def generated() -> dict[str, str]:
    """Return the dashboards by name, each as JSON text, as the head of a Ray cluster writes them."""
    factory = importlib.import_module(FACTORY)
    return {name: getattr(factory, f"generate_{name}_grafana_dashboard")()[0] for name in NAMES}


def packed(dashboards: dict[str, str]) -> str:
    """Return the dashboards as a line of text, compressed to a tenth, because they leave the cluster by a pod's log."""
    return base64.b64encode(zlib.compress(json.dumps(dashboards).encode())).decode()


if __name__ == "__main__":
    print(packed(generated()))
