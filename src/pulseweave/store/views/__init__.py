"""Reads for people and programs: lists, details, histories. Scoped by namespace, paged by key."""
