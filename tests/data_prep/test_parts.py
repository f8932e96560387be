"""A file of documents becomes parts, parts become shards; what is left out is named and counted."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_prep import encoding, parts, progress, sealing
from data_prep.config import Prep
from data_prep.documents import Document, to_line
from data_prep.parts import SIDES, part_entry, read_report, side_of, side_path, write_part
from data_prep.sealing import plan_shards, seal_shard
from data_prep.shard_stage import _num_buckets
from data_prep.tokenizer_training import train_tokenizer
from mlmdist.blocks import Block, concatenate
from mlmdist.errors import ConfigError
from mlmdist.shard import Shard, ShardEntry
from tests.data_prep.test_verify import documents

BLANK = Document(950, "950", "", ("  ",))
CORPUS = [*documents(0, 40), BLANK, *documents(60, 2)]
BUCKETS = 4


def recipe(folder: Path, **windows: object) -> Prep:
    return Prep.model_validate(
        {
            "output": str(folder),
            "sources": [{"path": "x", "format": "text"}],
            "tokenizer": {"vocab_size": 60},
            "held_out": {"share": 0.2},
            "windows": {"max_seq_len": 48, "overlap": 12} | windows,
        }
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file of documents and a tokenizer."""
    folder = tmp_path_factory.mktemp("place")
    (folder / "000000.jsonl").write_bytes(b"".join(map(to_line, CORPUS)))
    (folder / "tokenizer").mkdir()
    train_tokenizer(CORPUS, 100_000, recipe(folder).tokenizer, folder / "tokenizer")
    return folder


def made(place: Path, target: Path, config: Prep, **guard: Any) -> Any:
    source = place / "000000.jsonl"
    return write_part(source, place / "tokenizer", config, BUCKETS, target / "part", **guard)


def block_of(target: Path, length: int, side: str) -> Block:
    """All windows of a part's side, by document and number."""
    entry = part_entry(read_report(target / "part"), length, side)
    assert entry is not None
    shard = Shard(side_path(target / "part", length, side), entry)
    block = concatenate([shard.read_block(number) for number in range(len(shard.index))])
    shard.close()
    return block


def tokens_by_document(block: Block) -> dict[int, list[int]]:
    order = np.lexsort((block.window_number, block.document_id))
    found: dict[int, list[int]] = {}
    for row in order.tolist():
        first = int(block.window_ptr[row]) + int(block.repeated[row])
        tokens = block.tokens[first : block.window_ptr[row + 1]].tolist()
        found.setdefault(int(block.document_id[row]), []).extend(tokens)
    return found


def test_several_lengths_hold_the_same_tokens_of_one_tokenisation(
    place: Path, tmp_path: Path
) -> None:
    report = made(place, tmp_path, recipe(tmp_path, max_seq_len=[48, 200]))
    for side in SIDES:
        short, long = (tokens_by_document(block_of(tmp_path, n, side)) for n in (48, 200))
        assert short == long
        assert len(short) == report["sides"][side]["documents"]
        assert {side_of(d, recipe(tmp_path)) for d in CORPUS if d.id in short} == {side}
    alone = tmp_path / "alone"
    for length in (48, 200):
        made(place, alone, recipe(tmp_path, max_seq_len=length))
        for side in SIDES:
            name = f"part.{length}.{side}.tar"
            assert (alone / name).read_bytes() == (tmp_path / name).read_bytes()


def test_w2_the_report_accounts_for_every_document_and_token(place: Path, tmp_path: Path) -> None:
    config = recipe(tmp_path, long_text="key_sentences", crops=3)
    report = made(place, tmp_path, config)
    assert report == json.loads(json.dumps(read_report(tmp_path / "part")))
    assert report["dropped"]["documents"] == {"no token": 1}
    assert report["dropped"]["characters"] == {"no token": 2}
    for unit, total in (
        ("documents", len(CORPUS)),
        ("characters", sum(document.num_characters for document in CORPUS)),
    ):
        kept = sum(report["sides"][side][unit] for side in SIDES)
        assert kept + sum(report["dropped"][unit].values()) == total
    for side in SIDES:
        counts = report["lengths"]["48"][side]
        came = report["sides"][side]["tokens_in"]
        assert came + counts["repeated"] == counts["tokens"] + counts["left_out"]
        assert counts["left_out"] > 0


def test_s1_what_is_encoded_at_once_changes_no_byte(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = recipe(tmp_path)
    made(place, tmp_path / "one", config)
    monkeypatch.setattr(parts, "BATCH_CHARS", 5000)
    monkeypatch.setattr(encoding, "RUN_CHARACTERS", 700)
    made(place, tmp_path / "other", config)
    files = {path.name: path.read_bytes() for path in (tmp_path / "one").iterdir()}
    assert files == {path.name: path.read_bytes() for path in (tmp_path / "other").iterdir()}


def test_the_parts_of_a_corpus_are_sealed_in_one_order(place: Path, tmp_path: Path) -> None:
    config = recipe(tmp_path)
    made(place, tmp_path, config)
    halves = []
    for number, some in enumerate((CORPUS[:9], CORPUS[9:])):
        folder = tmp_path / f"half{number}"
        folder.mkdir()
        (folder / "000000.jsonl").write_bytes(b"".join(map(to_line, some)))
        write_part(folder / "000000.jsonl", place / "tokenizer", config, BUCKETS, folder / "part")
        halves.append(folder / "part")
    results = []
    for chosen in ([tmp_path / "part"], halves, halves[::-1]):
        sizes: Counter[str] = Counter()
        for part in chosen:
            sizes.update(read_report(part)["lengths"]["48"]["train"]["buckets"])
        (plan,) = plan_shards(dict(sorted(sizes.items())), 64)
        target = tmp_path / f"{len(results)}" / "000000.tar"
        seal_shard(chosen, 48, "train", plan, 0, 0, 60, target, target.with_name("report"))
        entry = json.loads(target.with_name("report").read_bytes())["entry"]
        assert Shard(target, ShardEntry(**entry)).read_block(0).num_rows > 500
        results.append(target.read_bytes())
    assert results[0] == results[1] == results[2]


@pytest.mark.parametrize(
    ("chars", "number"),
    [(0, 1), (3_999_999, 1), (4_000_000, 2), (148_000_000, 16), (1 << 30, 32), (1 << 40, 32768)],
)
def test_buckets_are_as_many_as_the_text_asks_and_some_of_a_small_one(
    chars: int, number: int
) -> None:
    assert _num_buckets(chars, 64_000_000) == number


def test_windows_of_one_seal_key_are_in_the_order_of_their_documents(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """64-bit keys are hardly ever equal, so here they are made so: of 4 bits."""
    real = parts.seal_keys
    for module in (parts, sealing):
        monkeypatch.setattr(module, "seal_keys", lambda *given: real(*given) & np.uint64(0xF << 60))
    report = made(place, tmp_path, recipe(tmp_path))
    (plan,) = plan_shards(report["lengths"]["48"]["train"]["buckets"], 64)
    target = tmp_path / "000000.tar"
    seal_shard([tmp_path / "part"], 48, "train", plan, 0, 0, 60, target, tmp_path / "report")
    entry = json.loads((tmp_path / "report").read_bytes())["entry"]
    block = Shard(target, ShardEntry(**entry)).read_block(0)
    rows = zip(parts.seal_keys(block, 0), block.document_id, block.window_number, strict=True)
    found = [tuple(map(int, row)) for row in rows]
    assert len({key for key, _, _ in found}) == 16 < len(found)
    assert found == sorted(found)


def test_a_probe_writes_nothing_and_counts_the_records_it_saw(place: Path, tmp_path: Path) -> None:
    config = recipe(tmp_path)
    for only, seen in ((range(3, 9), 6), (range(40, 99), 3), (range(900, 901), 0)):
        assert made(place, tmp_path, config, only=only) == seen
    assert list(tmp_path.iterdir()) == []


def test_records_to_skip_are_left_out_and_counted(place: Path, tmp_path: Path) -> None:
    report = made(place, tmp_path, recipe(tmp_path), skip=frozenset({0, 7}))
    assert report["dropped"]["documents"]["quarantined"] == 2
    characters = CORPUS[0].num_characters + CORPUS[7].num_characters
    assert report["dropped"]["characters"]["quarantined"] == characters
    assert report["quarantined"] == [], "whoever said so knows the reason"
    found = {d for side in SIDES for d in tokens_by_document(block_of(tmp_path, 48, side))}
    assert found == {d.id for d in CORPUS} - {CORPUS[0].id, CORPUS[7].id, BLANK.id}


def _fail_at(monkeypatch: pytest.MonkeyPatch, error: Exception, *culprits: Document) -> None:
    """Make the encoding of any text of these documents raise."""
    bad = {culprit.paragraphs[0] for culprit in culprits}
    real = encoding.tags_of

    def failing(texts: Any, *others: Any) -> Any:
        if bad & set(texts):
            raise error
        return real(texts, *others)

    monkeypatch.setattr(encoding, "tags_of", failing)


def test_a_document_that_raises_is_quarantined_and_no_other(
    place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[Any] = []
    progress.listen(told.append)
    _fail_at(monkeypatch, ValueError("no\nsuch word"), CORPUS[5], CORPUS[41])
    report = made(place, tmp_path, recipe(tmp_path))
    progress.listen(None)
    assert [(line["record"], line["id"], line["place"]) for line in report["quarantined"]] == [
        (5, 5, 5), (41, 60, 60),
    ]  # fmt: skip
    line = report["quarantined"][0]
    assert line["reason"] == "ValueError: no such word"
    assert (line["stage"], line["source"]) == ("encode", "000000.jsonl")
    assert report["dropped"]["documents"] == {"no token": 1, "quarantined": 2}
    found = {d for side in SIDES for d in tokens_by_document(block_of(tmp_path, 48, side))}
    assert found == {d.id for d in CORPUS} - {5, 60, BLANK.id}
    assert sum(counts.get("documents", 0) for counts in told) == len(CORPUS) - 2


@pytest.mark.parametrize("error", [ConfigError("no tagger"), OSError("full"), MemoryError()])
def test_what_no_document_is_to_blame_for_ends_the_task(
    error: Exception, place: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _fail_at(monkeypatch, error, CORPUS[5])
    with pytest.raises(type(error)):
        made(place, tmp_path, recipe(tmp_path))
    assert list(tmp_path.iterdir()) == []
