"""Comments that a pull request gets: differences of previews and of measurements."""
