"""The code that trains: one entry point an arm, and below it contract, machine, launch, workloads and the image."""
