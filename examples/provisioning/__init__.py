"""Provisioning machines: a definition with a poll, a map and a choice, and its handlers."""
