"""The training image: built here and brought to the cluster, or pulled from a registry."""

from dataclasses import dataclass

import pulumi
import pulumi_command as command

from infra.image.spec import Content

SCRIPT = ".venv/bin/python -m infra.image.command"


@dataclass(frozen=True)
class Nodes:
    """The nodes of a Minikube profile, which get the image from this machine's Docker."""

    profile: str
    count: int
    started: pulumi.Resource


class TrainingImage(pulumi.ComponentResource):
    """Builds the image, and loads it into Minikube's nodes or, without such nodes, pushes it to its registry."""

    reference: str
    """The image's name and tag."""
    ready: command.local.Command
    """The resource that must exist before a pod can start from the image."""

    def __init__(
        self,
        name: str,
        image: str,
        content: Content,
        nodes: Nodes | None,
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:TrainingImage", name, {}, opts)
        built = command.local.Command(
            f"{name}-build",
            create=f"{SCRIPT} build",
            update=f"{SCRIPT} build",
            delete=f"{SCRIPT} remains || true",  # a stack can be destroyed where the environment is not installed
            environment={
                "IMAGE": image,
                "WORKLOAD": content.workload,
                "BASE_IMAGE": content.base_image,
                "DATASET": content.dataset,
                "DATASET_PATH": content.dataset_path or "",
                "REQUIREMENTS": content.requirements or "",
            },
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.reference = image
        step = "load" if nodes else "push"
        self.ready = command.local.Command(
            f"{name}-{step}",
            create=f"{SCRIPT} {step}",
            update=f"{SCRIPT} {step}",
            environment={"IMAGE": image, **({"PROFILE": nodes.profile, "NODES": str(nodes.count)} if nodes else {})},
            opts=pulumi.ResourceOptions(parent=self, depends_on=[built, *([nodes.started] if nodes else [])]),
        )
        self.register_outputs({"reference": self.reference})
