"""The Minikube cluster of the target `minikube`, managed by the commands of `infra.places.minikube.command`."""

import pulumi
import pulumi_command as command

from infra.places.minikube.spec import Cluster

SCRIPT = ".venv/bin/python -m infra.places.minikube.command"


class Minikube(pulumi.ComponentResource):
    """Starts the cluster, and deletes it with the stack."""

    started: command.local.Command
    """The resource that creates the cluster: everything in it depends on this, and is deleted with it."""
    address: pulumi.Output[str]
    """The first node's address, as this machine reaches it."""

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
        self.register_outputs({"address": self.address})
