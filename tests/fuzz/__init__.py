"""Mutated files of every kind that the program opens: each must load, or end in an error of the program's own."""
