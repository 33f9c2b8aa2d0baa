"""The commands of `./rwi`, a module each: what can be typed, and what is called then."""
