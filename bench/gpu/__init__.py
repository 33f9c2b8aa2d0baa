"""What the observer of a script does on a real NVIDIA GPU: its clock, its cost, and what it says of the GPU."""
