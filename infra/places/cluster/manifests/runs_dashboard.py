"""A small Grafana dashboard of a measurement: which arm runs, and what Ray's pods do meanwhile. Pure: texts, no Pulumi.

It stands beside Ray's own, which know no arms. Without a Prometheus of the stack's own nothing counts the arms' pods,
and their panel is left out.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass

from infra.places.cluster.manifests.monitoring import ARM_PREFIX, CLUSTER_NAME_LABEL
from infra.places.cluster.manifests.pod_parts import Manifest
from infra.places.cluster.manifests.ray_cluster import NAME as RAY_CLUSTER

NAME = "ray-worth-it"
TITLE = "Is Ray worth it: arms and runs"
WIDTH, HEIGHT = 12, 8
"""The width and the height of a panel on Grafana's grid, which has 24 columns."""
_OURS = f'{CLUSTER_NAME_LABEL}="{RAY_CLUSTER}"'


@dataclass(frozen=True)
class Panel:
    """A panel of the dashboard: a graph of time series."""

    title: str
    unit: str
    """The unit of the values, by Grafana's name."""
    queries: Sequence[tuple[str, str]]
    """Expressions for Prometheus, each with the legend of its time series."""


_ARMS = Panel(
    "Pods of each arm",
    "none",
    [(f'sum by (config) (prometheus_sd_discovered_targets{{config=~"{ARM_PREFIX}.*"}})', "{{config}}")],
)
_RAY = (
    Panel(
        "CPUs that Ray's pods use",
        "none",
        [
            (
                f"sum by (instance) (ray_node_cpu_utilization{{{_OURS}}} * ray_node_cpu_count{{{_OURS}}} / 100)",
                "{{instance}}",
            ),
            (f"sum(ray_node_cpu_count{{{_OURS}}})", "all they have"),
        ],
    ),
    Panel(
        "Memory of Ray's pods",
        "bytes",
        [(f"sum by (instance) (ray_node_mem_used{{{_OURS}}})", "{{instance}}")],
    ),
    Panel(
        "Runs of Ray Train, by their state",
        "none",
        [
            (
                f"sum by (ray_train_run_name, ray_train_controller_state) (ray_train_controller_state{{{_OURS}}})",
                "{{ray_train_run_name}} {{ray_train_controller_state}}",
            )
        ],
    ),
    Panel(
        "Time in ray.train.report",
        "s",
        [
            (
                "sum by (ray_train_run_name, ray_train_worker_world_rank)"
                f" (ray_train_report_total_blocked_time_s{{{_OURS}}})",
                "{{ray_train_run_name}} rank {{ray_train_worker_world_rank}}",
            )
        ],
    ),
    Panel(
        "Time that reading a port takes",
        "s",
        [(f"scrape_duration_seconds{{{_OURS}}}", "{{instance}}")],
    ),
)


def dashboard(*, arms: bool) -> str:
    """Return the dashboard as JSON. `arms`: with a panel of the arms' pods, which only the stack's Prometheus
    counts."""
    panels = [_ARMS, *_RAY] if arms else list(_RAY)
    document = {
        "title": TITLE,
        "uid": NAME,
        "schemaVersion": 39,
        "editable": True,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "templating": {"list": [{"name": "datasource", "type": "datasource", "query": "prometheus"}]},
        "panels": [_graph(panel, number) for number, panel in enumerate(panels)],
    }
    return json.dumps(document, indent=1)


def _graph(panel: Panel, number: int) -> Manifest:
    source = {"type": "prometheus", "uid": "${datasource}"}
    return {
        "id": number + 1,
        "type": "timeseries",
        "title": panel.title,
        "datasource": source,
        "gridPos": {"h": HEIGHT, "w": WIDTH, "x": number % 2 * WIDTH, "y": number // 2 * HEIGHT},
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend, "datasource": source}
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }
