"""The Pulumi side: settings, one component a file, and the pure builders beside them. Nothing here trains."""
