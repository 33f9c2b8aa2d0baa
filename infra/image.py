"""The training image: built here and brought to the cluster, or one that is in a registry already."""

from collections.abc import Sequence

import pulumi
import pulumi_command as command

from infra.image_spec import Content

SCRIPT = ".venv/bin/python -m infra.scripts.image"


class TrainingImage(pulumi.ComponentResource):
    """Builds the image and brings it to a Minikube profile's nodes, or to its registry."""

    reference: str
    """The image's name and tag."""
    ready: command.local.Command
    """When this is done, a pod can start from the image."""

    def __init__(
        self,
        name: str,
        image: str,
        content: Content,
        *,
        profile: str | None,
        nodes: int,
        cluster: Sequence[pulumi.Resource] = (),
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:TrainingImage", name, {}, opts)
        built = command.local.Command(
            f"{name}-build",
            create=f"{SCRIPT} build",
            update=f"{SCRIPT} build",
            environment={
                "IMAGE": image,
                "BASE_IMAGE": content.base_image,
                "DATASET": content.dataset,
                "DATASET_PATH": content.dataset_path or "",
            },
            opts=pulumi.ResourceOptions(parent=self),
        )
        self.reference = image
        step = "load" if profile else "push"
        self.ready = command.local.Command(
            f"{name}-{step}",
            create=f"{SCRIPT} {step}",
            update=f"{SCRIPT} {step}",
            environment={"IMAGE": image, **({"PROFILE": profile, "NODES": str(nodes)} if profile else {})},
            opts=pulumi.ResourceOptions(parent=self, depends_on=[built, *cluster]),
        )
        self.register_outputs({"reference": self.reference})
