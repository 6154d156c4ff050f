"""Pictures: plots by matplotlib, and the HTML report."""
