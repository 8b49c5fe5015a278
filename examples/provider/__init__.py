"""An outside payment provider to try things against: a process with a ledger and faults of its own.

It stands for the system that somebody else runs. It shares no code with its callers; only what its
ledger holds has really happened.
"""
