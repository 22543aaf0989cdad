"""Reads finished runs: summaries, comparisons and the page."""
