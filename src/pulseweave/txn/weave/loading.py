"""The facts of the instances at hand, in set reads; grows by the values that decisions ask for.

What an instance's decisions are made from: its leaves and scopes outside of maps and in open items,
its armed waits, and values by the names of ``core.weave.values``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from pulseweave.core.weave.definition.model import output_leaves_of
from pulseweave.core.weave.draft import Draft, InstanceFacts
from pulseweave.core.weave.instance import Instance
from pulseweave.core.weave.leaf import Leaf
from pulseweave.core.weave.scope import ScopeState
from pulseweave.core.weave.values import INPUT, ITEMS, OUTPUTS, SIGNAL, SIGNALS, Outputs
from pulseweave.core.weave.wait import Wait
from pulseweave.kernel import canonical
from pulseweave.store.facts import instances as facts
from pulseweave.store.facts import waits as wait_facts
from pulseweave.store.tx import Tx
from pulseweave.txn.weave.catalogue import definitions_of

#: Under this name the input is kept in the store.
_INPUT_ROW = "input"


class Loaded:
    """The facts of some instances, which the caller holds."""

    def __init__(
        self, tx: Tx, instances: Mapping[str, Instance], new_id: Callable[[], str]
    ) -> None:
        self.tx = tx
        self.instances = instances
        self.new_id = new_id
        self.definitions = definitions_of(tx, {i.definition_id for i in instances.values()})
        scoped = [key for key, i in instances.items() if self.definitions[i.definition_id].scoped]
        waiting = [key for key, i in instances.items() if self.definitions[i.definition_id].waits]
        self.scopes: dict[str, dict[str, ScopeState]] = {key: {} for key in instances}
        self.scopes |= wait_facts.open_scopes(tx, scoped)
        self.leaves = facts.current_leaves(tx, self.scopes)
        self.waits: dict[str, dict[str, Wait]] = {key: {} for key in instances}
        self.waits |= wait_facts.armed_waits(tx, waiting)
        # Most advances read the input: loading it now spares them a second round of decisions.
        self.values: dict[str, dict[str, object]] = {key: {} for key in instances}
        self.load({key: (INPUT,) for key, i in instances.items() if not i.ended})

    def make(self, instance_id: str, now: int, *, deferred: bool) -> Draft:
        instance = self.instances[instance_id]
        known = InstanceFacts(
            definition=self.definitions[instance.definition_id],
            instance=instance,
            leaves=self.leaves[instance_id],
            waits=self.waits[instance_id],
            scopes=self.scopes[instance_id],
            payloads=self.values[instance_id],
        )
        draft = Draft(known, now=now, new_id=self.new_id)
        draft.deferred = deferred
        return draft

    def load(self, missing: Mapping[str, Iterable[str]]) -> None:
        """Load the values that decisions asked for, each kind in one read."""
        wanted = [(key, name) for key, names in missing.items() for name in names]
        self._load_kept([w for w in wanted if w[1] == INPUT or w[1].startswith(ITEMS)])
        self._load_signals([w for w in wanted if w[1].startswith(SIGNALS)])
        self._load_signal_payloads([w for w in wanted if w[1].startswith(SIGNAL)])
        for instance_id, name in wanted:
            if name.startswith(OUTPUTS):
                self.values[instance_id][name] = self._outputs_of_map(instance_id, name)
        self._load_outputs([w for w in wanted if w[1] in self.leaves[w[0]]])

    def _load_kept(self, wanted: list[tuple[str, str]]) -> None:
        names = {(key, name or _INPUT_ROW): name for key, name in wanted}
        for (instance_id, row_name), value in facts.kept_payloads(self.tx, names).items():
            self.values[instance_id][names[instance_id, row_name]] = value

    def _load_signals(self, wanted: list[tuple[str, str]]) -> None:
        names: dict[str, list[str]] = {}
        for key, name in wanted:
            names.setdefault(key, []).append(name.removeprefix(SIGNALS))
        for instance_id, by_name in wait_facts.kept_signals(self.tx, names).items():
            self.values[instance_id] |= {SIGNALS + name: kept for name, kept in by_name.items()}

    def _load_signal_payloads(self, wanted: list[tuple[str, str]]) -> None:
        ids = [name.removeprefix(SIGNAL) for _, name in wanted]
        texts = wait_facts.signal_payloads(self.tx, ids)
        for instance_id, name in wanted:
            self.values[instance_id][name] = canonical.parse(texts[name.removeprefix(SIGNAL)])

    def _load_outputs(self, wanted: list[tuple[str, str]]) -> None:
        leaves = {(key, name): self.leaves[key][name] for key, name in wanted}
        values = facts.outputs(self.tx, leaves.values()) if leaves else {}
        for (instance_id, name), leaf in leaves.items():
            self.values[instance_id][name] = values[leaf.id]

    def _outputs_of_map(self, instance_id: str, name: str) -> Outputs:
        """All that the output of a finished map is made of."""
        scope = self.scopes[instance_id][name.removeprefix(OUTPUTS)]
        definition = self.definitions[self.instances[instance_id].definition_id]
        node_keys = output_leaves_of(definition.nodes[scope.node_key])
        leaves: list[Leaf] = facts.leaves_of_nodes(self.tx, instance_id, node_keys)
        done = [leaf for leaf in leaves if leaf.done]
        values: dict[str, Any] = facts.outputs(self.tx, done)
        return Outputs(
            values={leaf.step_key: values[leaf.id] for leaf in done},
            scopes=wait_facts.all_scopes(self.tx, [instance_id])[instance_id],
        )
