"""`rwi bench recovery`: a training that loses a worker, or Ray's head, and goes on."""
