"""What a handler may tell of a call to the provider: only what it knows."""

from collections.abc import Iterator
from contextlib import contextmanager

from examples.provider.client import ProviderRefused, RequestNotSent
from pulseweave import TaskFailed


@contextmanager
def known_failures() -> Iterator[None]:
    """Turns what is known to have had no effect into ``TaskFailed``. All else propagates, and Weave
    keeps it as an unknown outcome.
    """
    try:
        yield
    except ProviderRefused as refused:
        raise TaskFailed(refused.code.upper(), refused.message, retryable=False) from refused
    except RequestNotSent as not_sent:
        raise TaskFailed("PROVIDER_DOWN", str(not_sent), retryable=True) from not_sent
