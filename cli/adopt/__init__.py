"""Makes a stack of a search's best trial."""
