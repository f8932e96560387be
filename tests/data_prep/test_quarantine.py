"""A record that kills its worker is found by halves, left out, counted and listed."""

import json
import math
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.config import Ray
from data_prep.quarantine import (
    KILLED,
    MOST_SHOWN,
    TRIES_AFTER_A_SEARCH,
    TRIES_TO_CONFIRM,
    Killers,
    Reported,
    refuse_standing,
    run_guarded,
    settle,
)
from mlmdist.errors import DataError
from mlmdist.files import write_json
from mlmdist.shards import ShardSet
from tests.data_prep.corpus import documents, prep, tree, write_recipe
from tests.data_prep.guarded import DEADLY, Killed, Mortal, work

corpora = st.lists(
    st.integers(1, 60).flatmap(
        lambda n: st.tuples(st.just(n), st.frozensets(st.integers(0, n - 1), max_size=3))
    ),
    min_size=1,
    max_size=5,
)


def guarded(
    tasks: list[tuple[int, frozenset[int]]], killers: Killers, *, known: bool = False
) -> tuple[dict[int, list[int]], Mortal]:
    cluster = Mortal(Ray())
    names = [str(number) for number in range(len(tasks))]
    sizes = [task[0] for task in tasks] if known else None
    results = run_guarded(cluster, work, tasks, names=names, killers=killers, num_records=sizes)
    return dict(results), cluster


@settings(max_examples=40)
@given(corpora, st.booleans())
def test_every_killer_is_found_and_nothing_else_is_left_out(
    tmp_path_factory: pytest.TempPathFactory, tasks: list[tuple[int, frozenset[int]]], known: bool
) -> None:
    killers = Killers(tmp_path_factory.mktemp("killers") / "killers.json", 100)
    results, cluster = guarded(tasks, killers, known=known)
    for number, (records, fatal) in enumerate(tasks):
        assert killers.of(str(number)) == fatal
        assert results[number] == [record for record in range(records) if record not in fatal]
    assert not killers.undone
    probes = sum(
        len(fatal) * (math.ceil(math.log2(n + 1)) + 1 + TRIES_TO_CONFIRM) for n, fatal in tasks
    )
    tries = sum(4 + TRIES_AFTER_A_SEARCH * len(fatal) for _, fatal in tasks)
    assert cluster.calls <= probes + tries


@settings(max_examples=40)
@given(corpora, st.integers(0, 3))
def test_over_the_allowance_the_search_stops_and_goes_on_with_a_larger_one(
    tmp_path_factory: pytest.TempPathFactory,
    tasks: list[tuple[int, frozenset[int]]],
    allowance: int,
) -> None:
    path = tmp_path_factory.mktemp("killers") / "killers.json"
    killers = Killers(path, allowance)
    results, _ = guarded(tasks, killers)
    fatal = sum(len(killed) for _, killed in tasks)
    found = sum(map(len, killers.found.values()))
    assert found == min(fatal, allowance + 1)
    assert killers.too_many == (fatal > allowance)
    assert set(map(str, results)) == {str(n) for n in range(len(tasks))} - set(killers.undone)
    assert bool(killers.undone) == killers.too_many
    again, _ = guarded(tasks, Killers(path, 100))
    assert sorted(again) == list(range(len(tasks)))


def test_a_task_that_dies_only_as_a_whole_is_named(tmp_path: Path) -> None:
    def heavy(_: int, *, only: range | None = None, skip: frozenset[int] = frozenset()) -> int:
        if only is None:
            raise Killed
        return 20

    killers = Killers(tmp_path / "killers.json", 5)
    with pytest.raises(DataError, match=r"dump.bz2: its worker dies .* no single record does it"):
        list(run_guarded(Mortal(Ray()), heavy, [(1,)], names=["dump.bz2"], killers=killers))
    assert killers.found == {}


def test_a_record_that_kills_by_chance_stays(tmp_path: Path) -> None:
    deaths = iter([True] * 6 + [False] * 100)  # the task four times, then two probes

    def unlucky(_: int, *, only: range | None = None, skip: frozenset[int] = frozenset()) -> object:
        if only != range(1 << 48, (1 << 48) + 1) and next(deaths):
            raise Killed
        return 20 if only else sorted(skip)

    killers = Killers(tmp_path / "killers.json", 5)
    results = list(run_guarded(Mortal(Ray()), unlucky, [(1,)], names=["a"], killers=killers))
    assert results == [(0, [])]
    assert killers.found == {}


def test_what_cannot_even_be_read_is_named(tmp_path: Path) -> None:
    def unreadable(_: int, *, only: range | None = None, skip: frozenset[int] = frozenset()) -> int:
        raise Killed

    killers = Killers(tmp_path / "killers.json", 5)
    with pytest.raises(DataError, match="a: reading it kills the worker"):
        list(run_guarded(Mortal(Ray()), unreadable, [(1,)], names=["a"], killers=killers))


def report(path: Path, numbers: list[int], dropped: int | None = None) -> Path:
    """A report of the read stage with these quarantined records."""
    lines = [
        {"source": "a", "record": n, "place": n, "id": n, "stage": "read", "reason": f"bad {n}"}
        for n in numbers
    ]
    counted = {"quarantined": len(numbers) if dropped is None else dropped}
    write_json(path, {"quarantined": lines, "documents": {"dropped": counted}})
    return path


def settled(folder: Path, tasks: list[Reported], killers: Killers, before: int = 0) -> int:
    return settle(
        tasks,
        killers,
        stage="read",
        kept=folder / "quarantine.jsonl",
        refused=folder / "refused.jsonl",
        allowance=killers.allowance,
        number_before=before,
    )


def test_w2_the_list_of_what_is_allowed_stands_in_the_result(tmp_path: Path) -> None:
    killers = Killers(tmp_path / "killers.json", 4)
    killers.add("second", 7)
    tasks = [
        Reported("first", "a", report(tmp_path / "1.json", [3, 1])),
        Reported("second", "b", report(tmp_path / "2.json", [7, 2])),
    ]
    (tmp_path / "refused.jsonl").write_text("of an earlier try")
    assert settled(tmp_path, tasks, killers) == 4
    lines = [json.loads(line) for line in (tmp_path / "quarantine.jsonl").open()]
    assert [(line["record"], line["reason"]) for line in lines] == [
        (1, "bad 1"),
        (3, "bad 3"),
        (2, "bad 2"),
        (7, KILLED),
    ]
    assert lines[3]["id"] == 7, "what the task knows of the record stays"
    assert not (tmp_path / "refused.jsonl").exists()


@pytest.mark.parametrize(("number", "before"), [(3, 0), (2, 1)])
def test_more_than_is_allowed_is_refused_with_a_list(
    number: int, before: int, tmp_path: Path
) -> None:
    killers = Killers(tmp_path / "killers.json", 2)
    tasks = [Reported("first", "a", report(tmp_path / "1.json", list(range(number))))]
    with pytest.raises(DataError) as refused:
        settled(tmp_path, tasks, killers, before)
    text = str(refused.value)
    assert "allow_quarantined=2" in text
    assert "say allow_quarantined=3" in text
    assert "a record 1 (bad 1)" in text
    assert str(tmp_path / "refused.jsonl") in text
    assert "\n" not in text
    assert len((tmp_path / "refused.jsonl").read_text().splitlines()) == number
    assert not (tmp_path / "quarantine.jsonl").exists()


def test_an_error_shows_the_first_ten_and_counts_them_all(tmp_path: Path) -> None:
    killers = Killers(tmp_path / "killers.json", 0)
    listed = report(tmp_path / "1.json", list(range(30)), dropped=5000)
    with pytest.raises(DataError) as refused:
        settled(tmp_path, [Reported("first", "a", listed)], killers)
    assert str(refused.value).count("record ") == MOST_SHOWN
    assert "4,990 more" in str(refused.value)
    assert "say allow_quarantined=5000" in str(refused.value)


def test_killers_of_a_task_left_undone_are_listed(tmp_path: Path) -> None:
    killers = Killers(tmp_path / "killers.json", 0)
    killers.add("first", 9)
    killers.undone.append("first")
    with pytest.raises(DataError, match=r"a record 9 \(killed its worker\); not searched .*first"):
        settled(tmp_path, [Reported("first", "a", tmp_path / "none.json")], killers)


def test_nothing_quarantined_leaves_no_list(tmp_path: Path) -> None:
    killers = Killers(tmp_path / "killers.json", 0)
    tasks = [Reported("first", "a", report(tmp_path / "1.json", []))]
    assert settled(tmp_path, tasks, killers) == 0
    assert not (tmp_path / "quarantine.jsonl").exists()


def test_a_finished_result_is_refused_by_a_smaller_allowance(tmp_path: Path) -> None:
    refuse_standing(3, 3, tmp_path)
    with pytest.raises(DataError, match="allow_quarantined=2"):
        refuse_standing(3, 2, tmp_path)


def recipe(folder: Path, source: Path) -> Path:
    """A recipe whose tagger ends the process at a word."""
    path = write_recipe(folder, source, "jsonl")
    values = yaml.safe_load(path.read_text())
    values |= {"tags": {"tagger": "tests.data_prep.guarded:deadly_tagger"}}
    values |= {"tokenizer": {"vocab_size": 60}}
    path.write_text(yaml.safe_dump(values))
    return path


@pytest.fixture(scope="module")
def poisoned(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of 30 documents, two of which kill a worker, with a broken line between them."""
    lines = [json.dumps({"text": "\n".join(each.paragraphs)}) for each in documents(0, 30)]
    for place in (5, 17):
        lines[place] = lines[place].replace("river", DEADLY, 1)
    lines.insert(10, '{"text": "cut sho')
    path = tmp_path_factory.mktemp("poisoned") / "corpus.jsonl"
    path.write_text("\n".join(lines))
    return path


@pytest.mark.long
def test_w2_killers_and_broken_lines_are_left_out_and_counted(
    poisoned: Path, tmp_path: Path
) -> None:
    path = recipe(tmp_path, poisoned)
    output = tmp_path / "out"
    words = ["shards", "--config", path]
    result = prep(*words)
    assert result.returncode == 3
    assert "corpus.jsonl record 10" in result.stderr
    assert (output / "documents.work").is_dir()
    result = prep(*words, "allow_quarantined=1")
    assert result.returncode == 3
    assert "killed its worker" in result.stderr
    assert (output / "documents" / "quarantine.jsonl").is_file()
    assert not (output / "documents.quarantine.jsonl").exists()
    result = prep(*words, "allow_quarantined=3")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("skipped") == 2, "documents and tokenizer are not made again"
    listed = [json.loads(line) for line in (output / "shards" / "quarantine.jsonl").open()]
    assert [line["reason"] for line in listed] == [KILLED, KILLED]
    balance = ShardSet.open(output / "shards" / "train").manifest.balance
    assert balance["documents"]["in"] == 31
    assert balance["documents"]["dropped"] == {"quarantined": 3}
    assert balance["documents"]["out"] == 28
    characters = balance["characters"]
    assert characters["in"] == characters["out"] + sum(characters["dropped"].values())
    assert not [left for left in output.iterdir() if left.suffix in (".work", ".scratch")]
    other = tmp_path / "other"
    other.mkdir()
    path = recipe(other, poisoned)
    result = prep("shards", "--config", path, "allow_quarantined=9", "ray.workers=1")
    assert result.returncode == 0, result.stderr
    assert tree(other / "out") == tree(output)
    result = prep(*words, "allow_quarantined=2")
    assert result.returncode == 3
    assert "was made without 3 records" in result.stderr
