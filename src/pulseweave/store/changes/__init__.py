"""Writes, set-based and conditional. None of them decides."""
