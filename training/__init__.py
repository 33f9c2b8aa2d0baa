"""What runs: the recipe, the training body, one entry point an arm, and the contract they share with the program."""
