"""A Kubernetes cluster that exists: which one it is, and whether it can hold a measurement."""
