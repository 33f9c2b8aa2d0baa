"""The machine under a run: CPUs, quotas, network, ports, the lock."""
