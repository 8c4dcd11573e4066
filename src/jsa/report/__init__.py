"""Runs as one self-contained HTML page: tables, curves, pictures, settings. It needs neither the paper nor torch."""
