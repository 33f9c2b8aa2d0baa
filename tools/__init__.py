"""What `make` calls, in wings by purpose. Nothing here takes part in a measurement."""
