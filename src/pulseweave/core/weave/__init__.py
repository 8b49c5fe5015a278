"""Weave: instances of fixed definitions, moved by the results of their tasks."""
