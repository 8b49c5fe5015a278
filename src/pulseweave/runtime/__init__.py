"""The engine's loops: each a bounded step, called again when it is hinted at or when its rest is
over.
"""
