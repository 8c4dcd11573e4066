"""How far the program is from what its arithmetic alone costs: ratios measured in one run, never absolute times."""
