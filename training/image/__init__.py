"""What the training image is built from."""
