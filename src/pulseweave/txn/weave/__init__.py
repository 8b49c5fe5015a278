"""Weave's transactions: definitions, starts, the pump and the waker, control, and one-snapshot
reads.
"""
