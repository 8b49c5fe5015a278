"""The server process: HTTP, engine, or both, over one database."""
