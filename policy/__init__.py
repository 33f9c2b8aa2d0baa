"""The policy pack: rules as plain functions, and what the engine runs. Nothing here declares anything."""
