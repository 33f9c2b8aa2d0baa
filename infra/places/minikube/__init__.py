"""A Minikube cluster that the stack makes by commands."""
