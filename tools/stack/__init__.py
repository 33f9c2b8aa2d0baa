"""Make's commands for a stack: update, preview, destroy, state, clean."""
