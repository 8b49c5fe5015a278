"""Throw-away database servers for the tests: own port, own folder, own process, stopped by pid."""
