"""What a measurement makes on any Kubernetes cluster: a component a file, and its pure builder beside it."""
