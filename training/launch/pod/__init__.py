"""What runs in pods alone."""
