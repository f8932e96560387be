"""Law S2 against the loss of power: a name is made only once what it stands for is on disk."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.data_prep.inline import make_all, write_corpus

Event = tuple[str, str, str]


@pytest.fixture
def events(monkeypatch: pytest.MonkeyPatch) -> list[Event]:
    """Each fsync (what, "") and each new name (from, to), in order."""
    seen: list[Event] = []

    def noted(name: str, change: Callable[..., Any]) -> Callable[..., Any]:
        def note(first: Any, *others: Any, **named: Any) -> Any:
            is_open = isinstance(first, int)
            what = str(Path(f"/proc/self/fd/{first}").readlink()) if is_open else os.fspath(first)
            result = change(first, *others, **named)
            seen.append((name, what, os.fspath(others[0]) if others else ""))
            return result

        return note

    for name in ("fsync", "replace", "rename"):
        monkeypatch.setattr(os, name, noted(name, getattr(os, name)))
    return seen


def test_s2_files_and_folders_are_on_disk_before_their_names_and_the_names_after(
    events: list[Event], tmp_path: Path
) -> None:
    make_all(tmp_path / "out", write_corpus(tmp_path / "corpus.jsonl", 12))
    names = 0
    for number, (kind, old, new) in enumerate(events):
        if kind == "fsync":
            continue
        names += 1
        assert events[number - 1] == ("fsync", old, ""), f"{old} is named {new} too early"
        folder = str(Path(new).parent)
        assert events[number + 1] == ("fsync", folder, ""), f"the name {new} is not made durable"
    stages = [Path(new).name for kind, _, new in events if kind == "rename"]
    assert stages == ["documents", "tokenizer", "shards"]
    assert names > 20
