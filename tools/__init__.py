"""What `make` calls: set-up of the tools, the environment of the Pulumi CLI, and one module for each kind of target.

Standard library only, and Python 3.9 up to bootstrap: it runs before the project's own environment exists.
Nothing here takes part in a measurement.
"""
