"""Cuts a Pulumi template from the project: what `pulumi new PATH` makes a project of one's own from."""
