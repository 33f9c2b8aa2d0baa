"""The exercise's CNN on small images, in Keras."""
