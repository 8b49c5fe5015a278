"""The order workflow: a definition, and handlers that call the provider next door."""
