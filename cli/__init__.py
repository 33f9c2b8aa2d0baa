"""The programs that `make` calls, in folders by purpose. Nothing here takes part in a measurement."""
