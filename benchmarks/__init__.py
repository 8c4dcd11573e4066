"""The cost of steps and evaluations relative to their arithmetic: ratios measured in one run, never absolute times."""
