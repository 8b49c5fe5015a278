"""Pulse's transactions: the workers' turn, stand-alone tasks, the sweeper's and the promoter's steps."""
