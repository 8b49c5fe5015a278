"""A bank transfer that somebody must approve: a definition with a signal, and its handlers."""
