"""Live counts: totals not differences, a try of its own each, and what a person reads of them."""

import io
import os
import shutil
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep import progress as progress_module
from data_prep.progress import Board, StageProgress, Teller, Totals, add, listen, tell
from mlmdist import logs

told = st.lists(
    st.fixed_dictionaries(
        {},
        optional={
            "bytes": st.integers(0, 99),
            "documents": st.integers(0, 9),
            "dropped": st.dictionaries(st.sampled_from(["short", "empty"]), st.integers(1, 9)),
        },
    ),
    max_size=12,
)


class Clock:
    """A clock that the test moves."""

    now = 100.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    moved = Clock()
    monkeypatch.setattr(progress_module, "time", moved)
    monkeypatch.setattr(logs, "time", moved)
    return moved


@given(told, st.lists(st.booleans(), min_size=12, max_size=12))
def test_a_lost_message_does_not_matter(counts: list[Totals], arrives: list[bool]) -> None:
    board = Board()
    sent: list[Totals] = []
    teller = Teller(lambda totals: sent.append(dict(totals)), interval=-1.0)
    for each in counts:
        teller.add(each)
    for message, comes in zip(sent[1:], arrives, strict=False):
        if comes:
            board.put(1, message)
    board.put(1, sent[-1])
    expected: Totals = {}
    for each in counts:
        add(expected, each)
    assert board.read([1]) == {1: expected}
    assert teller.totals == expected


def test_messages_come_no_oftener_than_the_interval(clock: Clock) -> None:
    sent: list[Totals] = []
    teller = Teller(lambda totals: sent.append(dict(totals)), interval=1.0)
    for _ in range(1000):
        clock.now += 0.01
        teller.add({"documents": 1})
    assert 9 <= len(sent) - 1 <= 10
    assert teller.totals == {"documents": 1000}


def test_outside_a_task_telling_does_nothing() -> None:
    tell(documents=1)
    heard: list[object] = []
    listen(heard.append)
    try:
        tell(documents=1)
    finally:
        listen(None)
    tell(documents=1)
    assert heard == [{"documents": 1}]


def test_the_board_forgets_what_does_not_run() -> None:
    board = Board()
    for ticket in range(5):
        board.put(ticket, {"documents": ticket})
    assert board.read([3, 4, 9]) == {3: {"documents": 3}, 4: {"documents": 4}}
    assert board.read([4]) == {4: {"documents": 4}}
    assert not board.read([3])


def test_a_try_that_died_and_a_probe_do_not_count(clock: Clock) -> None:
    shown = StageProgress("reading", [100, 100], ["a", "b"])
    shown.hear({1: {"bytes": 90, "documents": 9}, 2: {"documents": 5}}, {1: 0, 2: -1})
    assert shown.current() == {"bytes": 90, "documents": 9}
    assert shown.bar.done == 90
    shown.hear({3: {"bytes": 10, "documents": 1}}, {3: 0})  # the second try of the same task
    assert shown.current() == {"bytes": 10, "documents": 1}
    shown.hear({3: {"bytes": 130, "documents": 1}}, {3: 0})
    assert shown.bar.done == 100, "and a running one as no more than that"
    shown.finish(0, {"bytes": 130, "documents": 12}, 4.0)
    shown.finish(-1, {"documents": 50}, 400.0)
    assert shown.current() == {"bytes": 130, "documents": 12}
    assert shown.bar.done == 100, "a task counts as what it was planned to be"
    assert shown.slowest == (4.0, "a")


def test_what_a_person_reads(clock: Clock) -> None:
    shown = StageProgress("reading", [4_000_000, 6_000_000], ["dump 0", "dump 1"])
    shown.begin()
    shown.hear({1: {}, 2: {}}, {1: 0, 2: 1})
    clock.now += 75
    shown.finish(0, {"documents": 1500, "tokens": 75_000, "dropped": {"empty": 1, "short": 20}}, 70)
    shown.hear({2: {"bytes": 1_000_000, "documents": 4}}, {2: 1})
    shown.bar.note = shown.note()
    assert shown.bar.text() == (
        "reading  50% [########--------] 66.7k B/s, 1:15 left, 5M of 10M B, 1k tokens/s, "
        "1,504 documents, dropped 20 short 1 empty, longest at dump 1 1:15"
    )
    shown.finish(1, {"documents": 10}, 74)
    assert shown.summary() == (
        "reading: 10M B in 1:15, 133k B/s, 1k tokens/s, 1,510 documents, dropped 20 short 1 empty, "
        "slowest dump 1 1:14"
    )


def test_what_an_earlier_process_did_is_no_part_of_the_rate(clock: Clock) -> None:
    shown = StageProgress("reading", [100], ["a"], done_before=300)
    shown.begin()
    clock.now += 10
    shown.hear({1: {"bytes": 50}}, {1: 0})
    assert shown.bar.bar() == "reading  87% [##############--] 5 B/s, 0:10 left"


def test_the_end_of_what_is_told_says_what_goes_on(clock: Clock) -> None:
    shown = StageProgress("tokenizer", [100], ["a"], measured_by="chars", at_the_end="it thinks")
    shown.hear({1: {"chars": 50}}, {1: 0})
    assert "longest at a" in shown.note()
    shown.hear({1: {"chars": 100}}, {1: 0})
    clock.now += 61
    assert shown.note() == "it thinks, 1:01"


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def screen(written: str) -> list[str]:
    """The lines that a terminal shows of what was written to it."""
    lines, row = [""], 0
    place = 0
    while place < len(written):
        for code in (logs.LINE_UP, logs.CLEAR_LINE, "\r", "\n"):
            if written.startswith(code, place):
                break
        else:
            lines[row] += written[place]
            place += 1
            continue
        place += len(code)
        if code == logs.LINE_UP:
            row -= 1
        elif code == "\n":
            row += 1
            lines += [""] if row == len(lines) else []
        if code in (logs.CLEAR_LINE, "\n"):
            lines[row] = ""
    return lines


@pytest.mark.parametrize("columns", [40, 60, 300])
def test_a_note_that_does_not_fit_stands_below_and_leaves_nothing(
    columns: int, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(
        shutil, "get_terminal_size", lambda *_, **__: os.terminal_size((columns, 9))
    )
    handler = logs._AboveTheBar(terminal)
    with logs.Progress("work", 10, "B") as bar:
        for number in range(10):
            clock.now += 1
            bar.advance(1, f"a note of many words and the number {number}")
            if number == 4:
                handler.emit(logs.logging.makeLogRecord({"msg": "a line"}))
    lines = screen(terminal.getvalue())
    text = bar.text()
    whole = [text] if len(text) < columns else [bar.bar()[: columns - 1], bar.note[: columns - 1]]
    assert lines == ["a line", *whole, ""]
