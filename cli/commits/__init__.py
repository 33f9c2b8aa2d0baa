"""`rwi compare-commits`: measures a script of base and head in turns, on the repository of the user."""
