"""Checks of own methods, against what every method promises."""
