"""Where a measurement can be made: a folder each, and `cluster` for what every Kubernetes cluster has."""
