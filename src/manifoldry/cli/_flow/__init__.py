"""The stages of a command: read, prepare, choose, fit, evaluate, write."""
