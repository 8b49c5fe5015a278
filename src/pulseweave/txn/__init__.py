"""Transactions: one module a command. Locks in order, facts, decision, writes, commit; nothing else
commits.
"""
