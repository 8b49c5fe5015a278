"""Endpoints by subject; each module gives its rows of the table."""
