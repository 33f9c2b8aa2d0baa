"""Where a run keeps what outlives it."""
