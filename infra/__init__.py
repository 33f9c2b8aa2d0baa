"""The Pulumi side: settings, places, the image, the plan of the runs and the stack's outputs. Nothing here trains."""
