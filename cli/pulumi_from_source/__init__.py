"""Builds Pulumi from Go modules, for machines that the vendor's download does not reach: see the README beside it."""
