"""Ray's dashboard, and how a person reaches it."""

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from infra import dashboard_spec
from infra.access import Access


class Dashboard(pulumi.ComponentResource):
    """A Service in front of the head's dashboard: a NodePort on Minikube, elsewhere reached by forwarding."""

    url: pulumi.Output[str]
    token_command: str

    def __init__(
        self,
        name: str,
        access: Access,
        *,
        node_port: int | None,
        address: pulumi.Output[str] | None,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:Dashboard", name, {}, opts)
        k8s.core.v1.Service(
            dashboard_spec.NAME,
            metadata=access.metadata(name=dashboard_spec.NAME, labels=dashboard_spec.labels()),
            spec=dashboard_spec.service(node_port),
            opts=access.options(self, depends_on=list(after)),
        )
        if node_port is None or address is None:
            self.url = pulumi.Output.from_input(dashboard_spec.FORWARDED_URL)
        else:
            self.url = pulumi.Output.all(address, node_port).apply(lambda found: dashboard_spec.node_port_url(*found))
        self.token_command = dashboard_spec.token_command(access.kubeconfig, access.context, access.namespace)
        self.register_outputs({"url": self.url, "token_command": self.token_command})
