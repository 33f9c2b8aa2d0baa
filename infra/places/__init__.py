"""The targets that a measurement can run on: one package each, and `cluster` for all Kubernetes clusters."""
