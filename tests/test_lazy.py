"""Values that objects work out when they are first asked for."""

from __future__ import annotations

import re
import threading
from pathlib import Path

import robustruct
from robustruct._lazy import cached_property


class Slow:
    """Takes until it may go on."""

    def __init__(self, may_go_on: threading.Event) -> None:
        self.may_go_on, self.asked, self.calls = may_go_on, threading.Event(), 0

    @cached_property
    def value(self) -> object:
        self.calls += 1
        self.asked.set()
        self.may_go_on.wait(60)
        return object()


def test_a_value_is_worked_out_once():
    go = threading.Event()
    go.set()
    one = Slow(go)
    assert one.value is one.value
    assert one.calls == 1
    assert isinstance(Slow.value, cached_property)


def test_one_object_does_not_wait_for_another():
    """A lock that both share would be held for ever in a process that was forked meanwhile."""
    go, at_once = threading.Event(), threading.Event()
    at_once.set()
    held_up = Slow(go)
    busy = threading.Thread(target=lambda: held_up.value)
    busy.start()
    held_up.asked.wait(60)
    found = []
    other = threading.Thread(target=lambda: found.append(Slow(at_once).value), daemon=True)
    other.start()
    other.join(10)
    go.set()
    busy.join()
    assert len(found) == 1


def test_threads_that_ask_together_get_the_same_value():
    go = threading.Event()
    one, found = Slow(go), []
    threads = [threading.Thread(target=lambda: found.append(one.value)) for _ in range(4)]
    for thread in threads:
        thread.start()
    one.asked.wait(60)
    go.set()
    for thread in threads:
        thread.join()
    assert len(set(map(id, found))) == 1


def test_no_module_has_the_property_with_a_lock():
    for path in Path(robustruct.__file__).parent.rglob("*.py"):
        if path.name != "_lazy.py":
            assert not re.search("functools.*cached_property", path.read_text("utf-8")), path
