"""What a pull request shows."""
