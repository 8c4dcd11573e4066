"""Files that are whole or not there: text, tensors, JSON, locks."""
