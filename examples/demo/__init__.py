"""The demo: ten orders, a worker killed between a charge and its report, and what a person then
does.
"""
