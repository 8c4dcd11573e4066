"""The experiments of the paper: its tables and figures as commands. Imports the library, never the reverse."""
