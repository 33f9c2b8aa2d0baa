"""What a machine gives its processes and keeps apart: CPUs, quotas, network, ports, the lock."""
