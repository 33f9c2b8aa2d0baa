"""What a measurement's runs say about each other: pure, standard library only. No arm imports it."""
