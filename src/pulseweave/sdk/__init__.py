"""The SDK: clients, definition builder and worker. Imports nothing of the server."""
