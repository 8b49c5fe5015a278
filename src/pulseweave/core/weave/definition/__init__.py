"""Definitions: what a workflow's document means, or all that is wrong with it (WEA-1, WEA-2)."""
