"""What can be trained: a folder each."""
