"""The front door in Python: train a model on rows, and open what was trained."""
