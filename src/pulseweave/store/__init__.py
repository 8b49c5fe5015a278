"""Every SQL fact: tables, locks, reads and writes, for SQLite, PostgreSQL and
MariaDB/MySQL alike.
"""
