"""Whether workers have the versions that we have: others train something else, or fail anywhere.

Asked for by Dask's own message, as a worker that cannot load a task of ours does not survive it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

from distributed import Client
from distributed.versions import get_versions

from robustruct.errors import EngineError

PACKAGES = ["robustruct", "numpy"]
PATIENCE = 10.0  # seconds for an answer that takes milliseconds; who hangs is dealt with elsewhere


def ours() -> dict[str, str]:
    """Return the versions of this process."""
    return _of(get_versions(packages=PACKAGES))


def _of(answer: Mapping[str, Any]) -> dict[str, str]:
    """Return what counts of Dask's answer: of numpy and Python no more than two numbers."""
    found = {name: answer["packages"].get(name) or "not installed" for name in PACKAGES}
    found["Python"] = answer["packages"]["python"]
    short = {name: ".".join(found[name].split(".")[:2]) for name in ("numpy", "Python")}
    return {**found, **short}


def versions_of(client: Client, addresses: Sequence[str]) -> dict[str, dict[str, str]]:
    """Return the versions of those workers that answer."""
    message, scheduler = {"op": "versions", "packages": PACKAGES}, client.scheduler
    assert scheduler is not None  # of a client that runs

    async def ask(address: str) -> Any:
        asked = scheduler.broadcast(msg=message, workers=[address], on_error="ignore")
        try:
            return (await asyncio.wait_for(asked, PATIENCE)).get(address)
        except (TimeoutError, OSError):
            return None

    async def ask_all() -> list[Any]:
        return await asyncio.gather(*map(ask, addresses))

    answers = zip(addresses, client.sync(ask_all), strict=True)
    return {address: _of(answer) for address, answer in answers if answer is not None}


def refusal(address: str, found: Mapping[str, str]) -> EngineError | None:
    """Return the error about a worker of other versions; None where they are ours."""
    differ = [f"{name} {found[name]} (here {v})" for name, v in ours().items() if found[name] != v]
    if not differ:
        return None
    return EngineError(
        f"the Dask worker {address} has {', '.join(differ)}. Install the same versions everywhere, "
        "or stop that worker."
    )
