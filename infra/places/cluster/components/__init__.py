"""The Pulumi components of a measurement on a cluster."""
