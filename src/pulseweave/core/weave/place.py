"""Where a node stands in a running instance: its key with the indexes of the items around it.

``charge`` outside of maps, ``charge[17]`` in item 17 of a map, ``charge[3][17]`` in item 17 of one
that stands in item 3 of another (WEA-2). An item has a name of its own: that of its map's scope
with the index, ``ship_all[17]``; what stands in an item carries that name as ``within``.
"""

from typing import TypeAlias

#: Indexes of the items around a node, outermost first.
Path: TypeAlias = tuple[int, ...]


def key_at(node_key: str, path: Path) -> str:
    """The key of a leaf or scope."""
    return node_key + "".join(f"[{index}]" for index in path)


def item_of(scope_key: str, index: int) -> str:
    """The name of one item of a map's scope."""
    return f"{scope_key}[{index}]"


def path_of(step_key: str) -> Path:
    """The indexes in a key."""
    _, *indexes = step_key.split("[")
    return tuple(int(index.removesuffix("]")) for index in indexes)
