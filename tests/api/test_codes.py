"""Every code that the table of endpoints declares is an answer that somebody can get, over HTTP.

And the other way round: ``ApiWorld.send`` refuses each answer whose code is not declared.
"""

import pytest

from pulseweave.api.openapi import codes_of
from pulseweave.kernel.codes import CODES
from tests.api.happy import HAPPY
from tests.api.scenarios import GENERIC, SPECIFIC
from tests.api.world import BY_KEY, Answer, ApiWorld

DECLARED = [(key, code) for key, endpoint in BY_KEY.items() for code in codes_of(endpoint)]

#: Codes that no endpoint declares, each with the reason. A code that is declared must leave.
ELSEWHERE = {
    "METHOD_NOT_ALLOWED": "answered by the router, before any endpoint",
    "INTERNAL": "a fault, not an answer that is promised",
    "UNSUPPORTED_DATABASE": "a server on such a database does not start",
    "SCHEMA_VERSION": "a server on such a schema does not start",
    "LEASE_LOST": "an answer to one entry of a turn",
    "GATE_CLOSED": "an answer to one entry of a turn",
    "START_REFUSED": "an answer to one entry of a turn",
    "REPORT_CONFLICT": "an answer to one entry of a turn",
    "QUEUE_NOT_FOUND": "a queue comes into being when it is first named",
}


def test_every_code_is_declared_or_said_to_be_elsewhere() -> None:
    declared = {code for _, code in DECLARED}
    assert declared | ELSEWHERE.keys() == CODES.keys()
    assert not declared & ELSEWHERE.keys()


def test_no_scenario_is_for_what_is_not_declared() -> None:
    told = {(key, code) for key, codes in SPECIFIC.items() for code in codes}
    assert told <= set(DECLARED)


def test_every_declared_code_has_a_scenario() -> None:
    untold = [
        (key, code)
        for key, code in DECLARED
        if code not in GENERIC and code not in SPECIFIC.get(key, {})
    ]
    assert not untold, "nobody says how these come about"


@pytest.mark.parametrize("key", BY_KEY)
def test_codes_that_mean_the_same_everywhere(world: ApiWorld, key: str) -> None:
    asked = HAPPY[key](world)
    declared = codes_of(BY_KEY[key])
    for code, scenario in GENERIC.items():
        if code in declared and code not in SPECIFIC.get(key, {}):
            check(scenario(world, asked), code)


@pytest.mark.rule("REC-12")
@pytest.mark.parametrize(
    ("key", "code"), [(key, code) for key, codes in SPECIFIC.items() for code in codes]
)
def test_codes_of_one_endpoint(world: ApiWorld, key: str, code: str) -> None:
    check(SPECIFIC[key][code](world), code)


def check(answer: Answer, code: str) -> None:
    """The code with its status; where it is worth trying again, how long to wait."""
    assert answer.code == code, answer.text
    assert answer.status == CODES[code].status
    assert ("retry-after" in answer.headers) == (answer.status in (429, 503))
