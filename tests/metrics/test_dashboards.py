"""Every panel that is shipped has data of a real Ray, or docs/metrics.md says why it has none."""

import re

import pytest

from tests.docs import markdown
from tests.metrics.conftest import Read
from tests.metrics.panels import Panel, panels_of
from tests.metrics.prometheus import Prometheus
from tests.ray_head import needed

pytestmark = [pytest.mark.slow, needed]
PAGE = "docs/metrics.md"
SECONDS = 300
OF_LIMITS = "ray_node_cgroup_mem"
"""A metric that depends on whether this machine limits the memory of its processes; pods always have a limit."""
ROW = re.compile(
    r"\| `(?P<dashboard>[a-z]+)` \| (?P<titles>[^|]+) \| (?P<refs>all|[A-Z](?: [A-Z])*) \| (?P<why>[^|]+) \|"
)


def listed() -> dict[str, dict[str, str]]:
    """What the page says is empty: by dashboard and panel, the letters of expressions, or `all`."""
    tables: dict[str, dict[str, str]] = {}
    for match in ROW.finditer(markdown.read(PAGE)):
        tables.setdefault(match["dashboard"], {}).update(dict.fromkeys(match["titles"].split("; "), match["refs"]))
    return tables


def empty(panel: Panel, prometheus: Prometheus) -> str:
    """The letters of a panel's expressions without a series; `all`, or "" for none."""
    queries = [query for query in panel.queries if OF_LIMITS not in query.expression]
    refs = [query.ref for query in queries if not prometheus.series(query.expression, SECONDS, step=2)]
    return "all" if len(refs) == len(queries) else " ".join(refs)


@pytest.mark.parametrize("dashboard", ["default", "train", "arms"])
def test_a_panel_has_data_or_says_why_not(dashboard: str, read: Read) -> None:
    """One that loses its data is a metric that Ray renamed, or a port that is not read; one that gains some, a row too
    many."""
    panels = panels_of(read.dashboards[dashboard])
    found = {panel.title: refs for panel in panels if (refs := empty(panel, read.prometheus))}

    assert len(panels) == len({panel.title for panel in panels})
    assert listed().get(dashboard, {}) == found


def test_an_expression_without_data_is_noticed(read: Read) -> None:
    """By the very function, on a metric that nothing has."""
    text = read.dashboards["arms"].replace("ray_node_mem_used", "ray_node_memory_used")
    assert text != read.dashboards["arms"]
    lost = [panel.title for panel in panels_of(text) if empty(panel, read.prometheus)]

    assert 1 == len([title for title in lost if title not in listed().get("arms", {})])


def test_every_port_is_read(read: Read) -> None:
    """The agent's, the autoscaler's, the dashboard's, and Prometheus' own."""
    up = [(one["metric"]["job"], one["value"][1]) for one in read.prometheus.now("up")]

    assert [("prometheus", "1"), ("ray", "1"), ("ray-head", "1"), ("ray-head", "1")] == sorted(up)
