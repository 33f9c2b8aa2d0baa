"""What the program's commands run: each is started by Pulumi as a process of its own, and reads its environment."""
