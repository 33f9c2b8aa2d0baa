"""The Minikube cluster of the target `minikube`, managed by the commands of `infra.places.minikube.command`."""

from ipaddress import ip_address

import pulumi
import pulumi_command as command

from infra.places.cluster.manifests.network import Servers
from infra.places.minikube.spec import Cluster

SCRIPT = ".venv/bin/python -m infra.places.minikube.command"

API_PORT, API_SERVICE, DNS_SERVICE = 8443, "10.96.0.1", "10.96.0.10"
"""The port of Minikube's API server, and kubeadm's addresses of the Services of the API server and of DNS."""


class Minikube(pulumi.ComponentResource):
    """A Minikube cluster: started with the stack, and deleted with it."""

    started: command.local.Command
    """The resource that creates the cluster. Everything in the cluster depends on it, and is deleted with it."""
    address: pulumi.Output[str]
    """The address by which this machine reaches the first node."""
    servers: pulumi.Output[str]
    """The addresses of the cluster's own servers, as `network.Servers` writes them."""

    def __init__(self, name: str, cluster: Cluster, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("ray-worth-it:cluster:Minikube", name, {}, opts)
        self.started = command.local.Command(
            f"{name}-cluster",
            create=f"{SCRIPT} create",
            update=f"{SCRIPT} update",
            delete=f"{SCRIPT} delete",
            environment=cluster.environment(),
            opts=pulumi.ResourceOptions(
                parent=self,
                # Without this a replacement would create first, which finds the cluster there, and then delete it.
                delete_before_replace=True,
                custom_timeouts=pulumi.CustomTimeouts(create="40m", update="40m", delete="20m"),
            ),
        )
        self.address = self.started.stdout
        self.servers = self.address.apply(_servers)
        self.register_outputs({"address": self.address})


def _servers(address: str) -> str:
    """Return the addresses of the cluster's own servers: of the first node, and of kubeadm's Services. If this machine
    reaches the node by a loopback address, no addresses are known."""
    if ip_address(address.strip()).is_loopback:
        return Servers().to_json()
    return Servers(((address.strip(), API_PORT), (API_SERVICE, 443)), (DNS_SERVICE,)).to_json()
