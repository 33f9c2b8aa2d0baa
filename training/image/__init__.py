"""The inputs of the training image."""
