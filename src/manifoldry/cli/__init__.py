"""What people run: the command line, its demonstration, and pictures."""
