"""The limit of this machine and how near to it each arm comes: it trains, and shows what it measured."""
