"""The resources of a measurement on any Kubernetes cluster: one component a file, with its pure builder next to it."""
