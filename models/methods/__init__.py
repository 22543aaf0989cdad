"""One function for each method, one file for each paper."""
