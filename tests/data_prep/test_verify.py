"""`verify` finds each fault that is put into a whole set."""

import dataclasses
import json
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from data_prep.config import Ray, TokenizerTraining, Windows
from data_prep.documents import Document
from data_prep.encoding import encode_documents
from data_prep.parts import seal_keys
from data_prep.sealing import count_tokens, write_set
from data_prep.tokenizer_training import train_tokenizer
from data_prep.verify import verify
from mlmdist.blocks import ROWS_PER_BLOCK, Block, take
from mlmdist.errors import DataError
from mlmdist.files import write_json
from mlmdist.shards import ShardEntry, ShardSet, table_line, write_shard

WORDS = [
    "the",
    "old",
    "river",
    "ran",
    "past",
    "a",
    "mill",
    "where",
    "two",
    "men",
    "and",
    "their",
    "dogs",
    "had",
    "slept",
    "in",
    "spring",
]


def documents(first: int, count: int) -> list[Document]:
    """Documents of a few paragraphs, each with its own words."""
    made = []
    for number in range(first, first + count):
        draw = np.random.default_rng(number)
        sentences = [" ".join(draw.choice(WORDS, 9)).capitalize() + "." for _ in range(60)]
        paragraphs = tuple(" ".join(sentences[start : start + 6]) for start in range(0, 60, 6))
        made.append(Document(number, str(number), "", paragraphs))
    return made


@pytest.fixture(scope="module")
def blocks(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Block]:
    folder = tmp_path_factory.mktemp("tokenizer")
    config = TokenizerTraining(vocab_size=60)
    tokenizer = train_tokenizer(documents(0, 40), 100_000, config, folder)
    windows = Windows(max_seq_len=48, overlap=12)
    sides = {"train": documents(0, 70), "held_out": documents(900, 5)}
    return {side: encode_documents(chosen, tokenizer, windows)[0] for side, chosen in sides.items()}


def write(folder: Path, block: Block, *, sort: bool = True) -> None:
    """Write windows as a set of shards of one block, as the pipeline does after sealing."""
    folder.mkdir(parents=True)
    if sort:
        block = take(
            block, np.lexsort((block.window_number, block.document_id, seal_keys(block, 0)))
        )
    described = {
        "tokenizer_hash": "ab" * 32,
        "vocab_size": 60,
        "max_seq_len": 48,
        "blocks_per_shard": 1,
        "balance": {"tokens": _balance(block)},
        "provenance": {"config": {"shards": {"seed": 0}}},
    }
    reports: list[Path] = []
    numbers = range(0, block.num_rows, ROWS_PER_BLOCK)
    for number, first in enumerate(numbers):
        rows = take(block, np.arange(first, min(first + ROWS_PER_BLOCK, block.num_rows)))
        entry = write_shard(folder / f"{number:06d}.tar", [(f"{number:06d}", rows)])
        report = {
            "entry": dataclasses.asdict(entry),
            "repeated": int(rows.repeated.sum()),
            "unigram": count_tokens(rows, 60).tolist(),
        }
        reports.append(folder.with_name(f"{folder.name}-{number}.json"))
        write_json(reports[-1], report)
    documents = len(np.unique(block.document_id))
    write_set(folder, reports, documents=documents, described=described)


def _balance(block: Block) -> dict[str, object]:
    repeated = int(block.repeated.sum())
    total = len(block.tokens)
    return {"in": total - repeated, "repeated": repeated, "out": total, "dropped": {}}


@pytest.fixture
def whole(blocks: dict[str, Block], tmp_path: Path) -> Path:
    for side, block in blocks.items():
        write(tmp_path / side, block)
    assert ShardSet.open(tmp_path / "train").manifest.num_shards == 2
    return tmp_path


def test_a_whole_set_is_whole(whole: Path) -> None:
    assert verify(whole, Ray()) == []
    assert verify(whole / "train", Ray()) == []


FIELDS = [field.name for field in dataclasses.fields(Block) if field.name != "tag"]


@pytest.mark.parametrize("name", FIELDS)
def test_s2_one_flipped_byte_in_each_field(name: str, whole: Path) -> None:
    path = whole / "train" / "000001.tar"
    data = bytearray(path.read_bytes())
    data[data.index(f"000001.{name}.npy".encode()) + 512 + 128] ^= 1
    path.write_bytes(data)
    assert any(f"field {name}" in line for line in verify(whole, Ray()))


def _missing_shard(folder: Path) -> None:
    (folder / "000001.tar").unlink()


def _truncated_tail(folder: Path) -> None:
    path = folder / "000001.tar"
    path.write_bytes(path.read_bytes()[:-700])


def _another_tokenizer(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace("ab" * 32, "cd" * 32))


def _shard_of_another_set(folder: Path) -> None:
    shutil.copy(folder.parent / "held_out" / "000000.tar", folder / "000000.tar")


def _lost_table_line(folder: Path) -> None:
    path = folder / "shards.jsonl"
    path.write_bytes(path.read_bytes()[:256])


def _wrong_unigram(folder: Path) -> None:
    counts = np.load(folder / "unigram.npy")
    counts[10] += 1
    np.save(folder / "unigram.npy", counts)


def _no_unigram(folder: Path) -> None:
    (folder / "unigram.npy").unlink()


def _cut_unigram(folder: Path) -> None:
    path = folder / "unigram.npy"
    path.write_bytes(path.read_bytes()[:-9])


def _change_manifest(folder: Path, **values: object) -> None:
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values))


def _no_provenance(folder: Path) -> None:
    _change_manifest(folder, provenance={})


def _no_balance(folder: Path) -> None:
    _change_manifest(folder, balance={"tokens": {"in": "x", "out": 1, "dropped": {}}})


def _wrong_balance(folder: Path) -> None:
    path = folder / "manifest.json"
    manifest = json.loads(path.read_text())
    manifest["balance"]["tokens"]["in"] += 1
    path.write_text(json.dumps(manifest))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_missing_shard, "cannot be opened"),
        (_truncated_tail, "the set's table says"),
        (_another_tokenizer, "do not give the fingerprint"),
        (_shard_of_another_set, "the set's table says"),
        (_lost_table_line, "a line for each of 2 shards"),
        (_wrong_unigram, "does not count the tokens"),
        (_wrong_balance, "law W2"),
        (_no_unigram, "unigram.npy: cannot be read"),
        (_cut_unigram, "unigram.npy: cannot be read"),
        (_no_provenance, "lacks provenance or balance"),
        (_no_balance, "'x' is no count"),
    ],
)
def test_a_damaged_set_is_found(damage: Callable[[Path], None], reason: str, whole: Path) -> None:
    damage(whole / "train")
    found = verify(whole, Ray())
    assert any(reason in line for line in found), found


def test_a_manifest_of_wrong_types_is_refused_by_name(whole: Path) -> None:
    for values in ({"num_shards": "x"}, {"balance": []}, {"vocab_size": -1}):
        _change_manifest(whole / "train", **values)
        with pytest.raises(DataError, match=next(iter(values))):
            verify(whole, Ray())


def _rewrite(folder: Path, block: Block, *, sort: bool = True) -> list[str]:
    shutil.rmtree(folder)
    write(folder, block, sort=sort)
    return verify(folder, Ray())


def _without(block: Block, row: int) -> Block:
    return take(block, np.delete(np.arange(block.num_rows), row))


def _middle(block: Block) -> int:
    """A window that is neither the first nor the last of its document."""
    same = block.document_id[1:-1] == block.document_id[2:]
    return 1 + int(np.flatnonzero(same & (block.window_number[1:-1] > 0))[0])


def test_w1_a_lost_window_is_found(blocks: dict[str, Block], whole: Path) -> None:
    block = blocks["train"]
    found = _rewrite(whole / "train", _without(block, _middle(block)))
    assert any("do not join" in line for line in found), found


def test_w1_a_doubled_window_is_found(blocks: dict[str, Block], whole: Path) -> None:
    block = blocks["train"]
    rows = np.append(np.arange(block.num_rows), _middle(block))
    assert any("is there twice" in line for line in _rewrite(whole / "train", take(block, rows)))


def test_w1_a_token_lost_between_two_windows_is_found(
    blocks: dict[str, Block], whole: Path
) -> None:
    block = blocks["train"]
    offsets = block.token_offset.copy()
    offsets[_middle(block)] += 1
    found = _rewrite(whole / "train", replace(block, token_offset=offsets))
    assert any("do not join" in line for line in found), found


def test_s1_windows_out_of_order_are_found(blocks: dict[str, Block], whole: Path) -> None:
    found = _rewrite(whole / "train", blocks["train"], sort=False)
    assert any("out of order" in line for line in found), found


def test_w3_a_special_token_in_text_is_found(blocks: dict[str, Block], whole: Path) -> None:
    tokens = blocks["train"].tokens.copy()
    tokens[77] = 4
    found = _rewrite(whole / "train", replace(blocks["train"], tokens=tokens))
    assert any("id 4 cannot come from text" in line for line in found), found


def test_e1_a_held_out_document_in_train_is_found(blocks: dict[str, Block], whole: Path) -> None:
    held_out = blocks["held_out"]
    document = held_out.document_id[0]
    shutil.rmtree(whole / "held_out")
    write(whole / "held_out", held_out)
    ids = blocks["train"].document_id.copy()
    ids[ids == ids[0]] = document
    shutil.rmtree(whole / "train")
    write(whole / "train", replace(blocks["train"], document_id=ids))
    assert any(f"document {document} is held out too" in line for line in verify(whole, Ray()))


def test_a_broken_window_is_found(blocks: dict[str, Block], whole: Path) -> None:
    block = blocks["train"]
    repeated = block.repeated.copy()
    repeated[0] = 400
    found = _rewrite(whole / "train", replace(block, repeated=repeated))
    assert any("leaves nothing new" in line for line in found), found


def test_table_and_reports_agree(whole: Path) -> None:
    opened = ShardSet.open(whole / "train")
    lines: Iterator[bytes] = iter(
        (whole / "train" / "shards.jsonl").read_bytes().splitlines(keepends=True)
    )
    entries: list[ShardEntry] = [opened.entry(number) for number in range(2)]
    assert [table_line(entry) for entry in entries] == list(lines)
