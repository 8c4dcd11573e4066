"""Runs of the command line: configuration, run folder, data, test and pictures."""
