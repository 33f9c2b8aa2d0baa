"""Jobs from outside: scripts of one's own on a stack's Ray cluster, beside no measurement."""
