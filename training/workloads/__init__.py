"""The workloads: a folder each."""
