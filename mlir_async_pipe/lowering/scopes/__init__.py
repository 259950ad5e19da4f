"""Abstract async ops onto what a chip has; masked and narrow copies."""
