"""The command line `rwi`: its commands, and what they are made of, in folders by purpose. Nothing here takes part in a
measurement."""
