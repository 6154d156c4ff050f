"""Plots with matplotlib, and the HTML report."""
