"""Files that are written whole or not at all: text, tensors, JSON; and the lock of a folder."""
