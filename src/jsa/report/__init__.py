"""Runs as one HTML page that needs nothing else: tables, curves, pictures, settings. It knows no paper and no torch."""
