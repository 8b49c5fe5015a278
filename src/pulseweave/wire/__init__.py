"""Message types of the HTTP interface, shared by server, SDK and CLI. Nothing here imports the
server.

Bodies are parsed by ``kernel.canonical.parse`` (strict, exact numbers, duplicate keys refused) and
only then converted to these types, so that a payload reaches storage exactly as it was sent. A
payload that the server answers with is stored canonical text and is embedded as it is
(``msgspec.Raw``).
"""
