"""Ray's dashboard, and how a person reaches it."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import pulumi
import pulumi_kubernetes as k8s

from infra.places.cluster import dashboard_spec
from infra.places.cluster.access import Access


@dataclass(frozen=True)
class NodePort:
    """A port of every node, at the address of one."""

    address: pulumi.Output[str]
    port: int


class Dashboard(pulumi.ComponentResource):
    """A Service in front of the head's dashboard: a NodePort on Minikube, elsewhere reached by forwarding."""

    url: pulumi.Output[str]
    token_command: str

    def __init__(
        self,
        name: str,
        access: Access,
        node_port: NodePort | None,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:Dashboard", name, {}, opts)
        spec: Any = dashboard_spec.service(node_port.port if node_port else None)
        k8s.core.v1.Service(
            dashboard_spec.NAME,
            metadata=access.metadata(name=dashboard_spec.NAME, labels=dashboard_spec.labels()),
            spec=spec,
            opts=access.options(self, depends_on=list(after)),
        )
        if node_port is None:
            self.url = pulumi.Output.from_input(dashboard_spec.FORWARDED_URL)
        else:
            self.url = node_port.address.apply(partial(dashboard_spec.node_port_url, node_port.port))
        self.token_command = dashboard_spec.token_command(access.kubeconfig, access.namespace)
        self.register_outputs({"url": self.url, "token_command": self.token_command})
