"""Pulse's transactions: workers' turns, stand-alone tasks, the sweeper's and promoter's steps."""
