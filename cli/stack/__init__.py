"""A stack: update, preview, destroy, state; and what removes it all."""
