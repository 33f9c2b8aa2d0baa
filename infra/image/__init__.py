"""The training image: its content, its tag, its build."""
