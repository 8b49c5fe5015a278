"""The only door: every read and write passes here, authenticated, authorised and scoped by
namespace.
"""
