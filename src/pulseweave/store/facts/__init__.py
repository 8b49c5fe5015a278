"""Reads that decisions are made from. None of them locks."""
