"""What make does with a stack: update, preview, destroy, state, clean."""
