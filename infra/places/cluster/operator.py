"""The KubeRay operator: installed by Helm with its CRDs beside it, for this stack's namespace alone."""

from collections.abc import Sequence

import pulumi
import pulumi_kubernetes as k8s

from infra.places.cluster import operator_spec
from infra.places.cluster.access import Access
from infra.places.cluster.chart import crds_digest
from infra.places.cluster.crds import Crds
from infra.places.cluster.operator_spec import OperatorSettings


class Operator(pulumi.ComponentResource):
    """CRDs, then the release. For a platform team's operator this is not made."""

    release: k8s.helm.v3.Release
    """When this is done, RayClusters are looked after."""

    def __init__(
        self,
        name: str,
        settings: OperatorSettings,
        access: Access,
        after: Sequence[pulumi.Resource],
        opts: pulumi.ResourceOptions | None = None,
    ) -> None:
        super().__init__("ray-worth-it:cluster:Operator", name, {}, opts)
        crds = Crds(
            f"{name}-crds",
            {
                "digest": crds_digest(settings.chart.crds()),
                "chart": settings.source.chart,
                "repository": settings.source.repository,
                "version": settings.source.version,
                "chartDigest": settings.source.digest,
                "kubeconfig": access.kubeconfig,
                "takeOver": access.cluster is not None,
            },
            pulumi.ResourceOptions(parent=self, depends_on=list(after), retain_on_delete=True),
        )
        self.release = k8s.helm.v3.Release(
            f"{name}-release",
            name=operator_spec.RELEASE,
            chart=str(settings.chart.path),
            namespace=access.namespace,
            values=operator_spec.values(settings.placement, access.namespace),
            skip_crds=True,
            timeout=300,
            # In a cluster of our own: a release that an interrupted `up` left is taken up again (`helm_release`).
            replace=True if access.cluster is not None else None,
            opts=access.options(self, depends_on=[crds, *after]),
        )
        self.register_outputs({"release": self.release.name})
