"""The project's way to an existing cluster and little behind it: run by the real engine in place of `__main__.py`."""

import pulumi
import pulumi_kubernetes as k8s

from infra.places import place
from infra.settings import settings

FAILING_SEED = 13
AT_ONCE = {"pulumi.com/deletionPropagationPolicy": "background"}
"""Otherwise a deletion waits for the garbage collector, which a bare API server has not."""


class Small(pulumi.ComponentResource):
    """Two objects in a namespace that exists."""

    def __init__(self, config: settings.Settings) -> None:
        super().__init__("ray-worth-it:test:Small", "small")
        here = place.cluster_of(config.target).reach(config, self)
        made = k8s.core.v1.ConfigMap(
            "made",
            metadata=here.metadata("test", AT_ONCE, name="made-by-the-stack"),
            data={"workers": str(config.recipe.workers)},
            opts=here.options(self),
        )
        after = k8s.core.v1.ConfigMap(
            "after",
            metadata=here.metadata("test", AT_ONCE, name="made-after-it"),
            opts=here.options(self, depends_on=[made]),
        )
        assert here.guard
        here.guard([after], self)
        if config.recipe.seed == FAILING_SEED:
            # The update fails when its first object is there already.
            k8s.core.v1.ConfigMap(
                "bad", metadata=here.metadata("test", name="No_Name"), opts=here.options(self, depends_on=[made])
            )
        self.register_outputs({"kubeconfig": here.kubeconfig})


if __name__ == "__main__":
    draft = settings.load()
    Small(settings.accepted(draft, place.choose(draft.usable_target)))
