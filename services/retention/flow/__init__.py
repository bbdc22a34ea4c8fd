"""One run: look, decide, trim."""
