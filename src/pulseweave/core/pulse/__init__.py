"""Pulse: tasks executed under leases. It knows queues, attempts and results, and nothing of
workflows.
"""
