"""The settings of a stack: keys, rules, checks. Nothing else reads the configuration."""
