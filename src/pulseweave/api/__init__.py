"""The HTTP interface: one table of endpoints makes the routes, the permissions and the OpenAPI
document.
"""
