"""The table of all endpoints: routes, permissions and the OpenAPI document are made from
it alone.
"""

from pulseweave.api.endpoint import Endpoint
from pulseweave.api.endpoints import admin, definitions, instances, recovery, tasks, worker

PREFIX = "/v1"

TABLE: tuple[Endpoint, ...] = (
    *definitions.ENDPOINTS,
    *instances.ENDPOINTS,
    *recovery.ENDPOINTS,
    *tasks.ENDPOINTS,
    *worker.ENDPOINTS,
    *admin.ENDPOINTS,
)
