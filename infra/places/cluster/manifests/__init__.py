"""What is declared in a cluster, as dicts: pure builders, and no Pulumi."""
