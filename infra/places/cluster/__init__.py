"""A measurement on any Kubernetes cluster: manifests, clients, components, and its dynamic resources."""
