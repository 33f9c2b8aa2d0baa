"""Compares a measurement's runs: pure, standard library only. No arm imports it."""
