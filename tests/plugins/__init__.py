"""A plugin as somebody else would write it, installed and run."""
