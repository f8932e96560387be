"""`verify` finds each fault that is put into a whole set."""

import dataclasses
import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from data_prep.block_proof import _fits_together
from data_prep.config import Ray, Tags, TokenizerTraining, Windows, Words
from data_prep.documents import Document
from data_prep.encoding import Encoder
from data_prep.parts import seal_keys
from data_prep.sealing import count_tokens, write_set
from data_prep.tokenizer_training import train_tokenizer
from data_prep.verify import verify
from mlmdist.blocks import (
    BEFORE_GAP,
    ENDS_ON_SENTENCE,
    LAST_OF_DOCUMENT,
    ROWS_PER_BLOCK,
    Block,
    take,
)
from mlmdist.errors import DataError
from mlmdist.files import write_json
from mlmdist.manifest import manifest_checksum
from mlmdist.shard import ShardEntry, write_shard
from mlmdist.shards import ShardSet, table_line

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


@dataclasses.dataclass(frozen=True)
class Made:
    """Windows of one recipe, and what `write_set` must be told of them."""

    block: Block
    max_seq_len: int
    left_out: int = 0


@pytest.fixture(scope="module")
def sets(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Made]:
    """Windows by name: both sides, another length, and crops with tags."""
    folder = tmp_path_factory.mktemp("tokenizer")
    config = TokenizerTraining(vocab_size=60)
    tokenizer = train_tokenizer(documents(0, 40), 100_000, config, folder)
    (folder / "words").write_text("mill\t7\n")

    def made(chosen: list[Document], **settings: Any) -> Made:
        tags = settings.pop("tags", Tags())
        windows = Windows.model_validate(settings)
        encoder = Encoder(tokenizer, Words(), tags, windows)
        block, left_out = encoder.windows_of(encoder.tokens(chosen), windows.lengths[0])
        return Made(block, windows.lengths[0], left_out)

    train, held_out = documents(0, 70), documents(900, 5)
    return {
        "train": made(train, max_seq_len=48, overlap=12),
        "held_out": made(held_out, max_seq_len=48, overlap=12),
        "train 96": made(train, max_seq_len=96, overlap=12),
        "held_out 96": made(held_out, max_seq_len=96, overlap=12),
        "crops": made(
            documents(0, 120),
            tags=Tags(word_list=folder / "words"),
            max_seq_len=48,
            long_text="random_crop",
            crops=9,
        ),
    }


def write(folder: Path, made: Made, *, sort: bool = True, **described: Any) -> None:
    """Write windows as a set of shards of one block, as the pipeline does after sealing."""
    folder.mkdir(parents=True)
    block = made.block
    if sort:
        block = take(
            block, np.lexsort((block.window_number, block.document_id, seal_keys(block, 0)))
        )
    described = {
        "tokenizer_hash": "ab" * 32,
        "vocab_size": 60,
        "max_seq_len": made.max_seq_len,
        "blocks_per_shard": 1,
        "balance": {"tokens": _balance(block, made.left_out)},
        "provenance": {"config": {"shards": {"seed": 0}}},
    } | described
    reports: list[Path] = []
    scratch = folder.with_name(f".{folder.name}")
    numbers = range(0, block.num_rows, ROWS_PER_BLOCK)
    for number, first in enumerate(numbers):
        rows = take(block, np.arange(first, min(first + ROWS_PER_BLOCK, block.num_rows)))
        if number and described.get("cut_field"):
            rows = replace(rows, **{described["cut_field"]: None})
        entry = write_shard(folder / f"{number:06d}.tar", [(f"{number:06d}", rows)])
        report = {
            "entry": dataclasses.asdict(entry),
            "repeated": int(rows.repeated.sum()),
            "unigram": count_tokens(rows, described["vocab_size"]).tolist(),
        }
        reports.append(scratch / f"{number}.json")
        write_json(reports[-1], report)
    described.pop("cut_field", None)
    documents = len(np.unique(block.document_id))
    write_set(folder, reports, documents=documents, described=described)
    shutil.rmtree(scratch)


def _balance(block: Block, left_out: int) -> dict[str, object]:
    repeated, total = int(block.repeated.sum()), len(block.tokens)
    dropped = {"long_text": left_out} if left_out else {}
    came = total - repeated + left_out
    return {"in": came, "repeated": repeated, "out": total, "dropped": dropped}


@pytest.fixture(scope="module")
def kept(sets: dict[str, Made], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sets")
    for side in ("train", "held_out"):
        write(folder / side, sets[side])
    assert ShardSet.open(folder / "train").manifest.num_shards == 2
    return folder


@pytest.fixture
def whole(kept: Path, tmp_path: Path) -> Path:
    """A copy of whole sets of both sides, to be damaged."""
    shutil.copytree(kept, tmp_path / "sets")
    return tmp_path / "sets"


def test_a_whole_set_is_whole(whole: Path) -> None:
    assert verify(whole, Ray()) == []
    assert verify(whole / "train", Ray()) == []


def test_a_set_with_gaps_and_tags_is_whole(sets: dict[str, Made], tmp_path: Path) -> None:
    block = sets["crops"].block
    assert block.gap is not None
    assert block.tag is not None
    assert sets["crops"].left_out > int(block.gap.sum()) > 0, "gaps, and tails left out"
    write(tmp_path / "set", sets["crops"])
    assert verify(tmp_path / "set", Ray()) == []


FIELDS = [field.name for field in dataclasses.fields(Block)]


@pytest.mark.parametrize("name", FIELDS)
def test_s2_one_flipped_byte_in_each_field(
    name: str, sets: dict[str, Made], tmp_path: Path
) -> None:
    write(tmp_path / "set", sets["crops"])
    path = tmp_path / "set" / "000001.tar"
    data = bytearray(path.read_bytes())
    data[data.index(f"000001.{name}.npy".encode()) + 512 + 128] ^= 1
    path.write_bytes(data)
    assert any(f"field {name}" in line for line in verify(tmp_path / "set", Ray()))


def test_s2_one_flipped_byte_anywhere_in_any_file(whole: Path) -> None:
    """A byte in every stretch of every file: fields, headers, JSON, index, trailer, table, ..."""
    for path in sorted((whole / "held_out").iterdir()):
        data = path.read_bytes()
        step = max(1, len(data) // 40)
        for place in range(step // 2, len(data), step):
            path.write_bytes(data[:place] + bytes([data[place] ^ 4]) + data[place + 1 :])
            try:
                found = verify(whole / "held_out", Ray())
            except DataError:  # a manifest that is none
                continue
            assert found, f"{path.name}, byte {place}"
        path.write_bytes(data)
    assert verify(whole / "held_out", Ray()) == []


def test_s2_one_flipped_byte_in_each_special_place_of_a_shard(whole: Path) -> None:
    path = whole / "held_out" / "000000.tar"
    data = path.read_bytes()
    entry = ShardSet.open(whole / "held_out").entry(0)
    places = {
        "tar header": 20,
        "tar padding": 511,
        "json member": data.index(b'"rows"') + 1,
        "index header": entry.index_offset - 300,
        "index": entry.index_offset + 5,
        "index padding": entry.index_offset + entry.index_bytes,
        "trailer": len(data) - 1000,
        "last byte": len(data) - 1,
    }
    for name, place in places.items():
        path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
        assert verify(whole / "held_out", Ray()), name


def _missing_shard(folder: Path) -> None:
    (folder / "000001.tar").unlink()


def _extra_shard(folder: Path) -> None:
    shutil.copy(folder / "000001.tar", folder / "000002.tar")


def _doubled_shard(folder: Path) -> None:
    """The second shard again, with a line of its own in the table and a manifest to match."""
    shutil.copy(folder / "000000.tar", folder / "000001.tar")
    _rewrite_table(folder, [0, 0])


def _swapped_shards(folder: Path) -> None:
    for old, new in (("000000", "x"), ("000001", "000000"), ("x", "000001")):
        (folder / f"{old}.tar").rename(folder / f"{new}.tar")


def _truncated_tail(folder: Path) -> None:
    path = folder / "000001.tar"
    path.write_bytes(path.read_bytes()[:-700])


def _another_tokenizer(folder: Path) -> None:
    _change_manifest(folder, tokenizer_hash="cd" * 32)


def _shard_of_another_set(folder: Path) -> None:
    shutil.copy(folder.parent / "held_out" / "000000.tar", folder / "000000.tar")


def _lost_table_line(folder: Path) -> None:
    path = folder / "shards.jsonl"
    path.write_bytes(path.read_bytes()[:256])


def _wrong_count_in_the_table(folder: Path) -> None:
    entries = [ShardSet.open(folder).entry(number) for number in (0, 1)]
    wrong = replace(entries[1], tokens=entries[1].tokens + 1)
    (folder / "shards.jsonl").write_bytes(table_line(entries[0]) + table_line(wrong))


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
    """Change the manifest and make its checksum right again."""
    path = folder / "manifest.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | values | {"checksum": ""}))
    manifest = ShardSet.open(folder).manifest
    write_json(path, dataclasses.asdict(replace(manifest, checksum=manifest_checksum(manifest))))


def _change_balance(folder: Path, unit: str, **values: object) -> None:
    balance = ShardSet.open(folder).manifest.balance
    row = balance.get(unit, {"in": 0, "out": 0, "dropped": {}})
    _change_manifest(folder, balance=balance | {unit: row | values})


def _rewrite_table(folder: Path, order: list[int]) -> None:
    """A table and manifest, right by themselves, in which the shards stand in another order."""
    opened = ShardSet.open(folder)
    entries = [replace(opened.entry(old), name=f"{new:06d}.tar") for new, old in enumerate(order)]
    scratch = folder.with_name("reports")
    for number, entry in enumerate(entries):
        report = {"entry": dataclasses.asdict(entry), "repeated": 0, "unigram": [0] * 60}
        write_json(scratch / f"{number}.json", report)
    described = {
        name: getattr(opened.manifest, name)
        for name in (
            *("tokenizer_hash", "vocab_size", "max_seq_len"),
            *("blocks_per_shard", "balance", "provenance"),
        )
    }
    reports = [scratch / f"{number}.json" for number in range(len(order))]
    write_set(folder, reports, documents=opened.manifest.num_documents, described=described)


def _edited_manifest(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_text(path.read_text().replace('"max_seq_len": 48', '"max_seq_len": 49'))


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (_missing_shard, "000001.tar: cannot be opened"),
        (_extra_shard, "000002.tar: is no file of the set"),
        (_doubled_shard, "must be block 1"),
        (_swapped_shards, "the set's table says"),
        (_truncated_tail, "the set's table says"),
        (_another_tokenizer, "do not give the fingerprint"),
        (_shard_of_another_set, "the set's table says"),
        (_lost_table_line, "a line for each of 2 shards"),
        (_wrong_count_in_the_table, "holds other counts than the table"),
        (_wrong_unigram, "does not count the tokens"),
        (lambda f: _change_balance(f, "tokens", out=7), "law W2"),
        (lambda f: _change_balance(f, "characters", out=7), "characters: in is not out + dropped"),
        (_no_unigram, "unigram.npy: cannot be opened"),
        (_cut_unigram, "unigram.npy: does not count"),
        (lambda f: _change_manifest(f, provenance={}), "lacks provenance or balance"),
        (lambda f: _change_balance(f, "documents", out="x"), "'x' is no count"),
        (_edited_manifest, "manifest.json: does not match its checksum"),
        (lambda f: _change_manifest(f, vocab_size=40), "cannot come from text"),
        (lambda f: _change_manifest(f, special_ids={"[SEP]": 20}), "id 20 cannot come from text"),
        (lambda f: _change_manifest(f, max_seq_len=40), "empty or too long"),
    ],
)
def test_a_damaged_set_is_found(damage: Callable[[Path], None], reason: str, whole: Path) -> None:
    damage(whole / "train")
    found = verify(whole, Ray())
    assert any(reason in line for line in found), found


def test_a_manifest_of_wrong_types_is_refused_by_name(whole: Path) -> None:
    path = whole / "train" / "manifest.json"
    before = path.read_text()
    for values in ({"num_shards": "x"}, {"balance": []}, {"vocab_size": -1}):
        path.write_text(json.dumps(json.loads(before) | values))
        with pytest.raises(DataError, match=next(iter(values))):
            verify(whole, Ray())


def test_a_folder_without_a_set_is_refused(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no manifest\.json"):
        verify(tmp_path, Ray())


def _rewrite(folder: Path, made: Made, *, sort: bool = True, **described: Any) -> list[str]:
    shutil.rmtree(folder)
    write(folder, made, sort=sort, **described)
    return verify(folder, Ray())


def _changed(made: Made, **fields: Any) -> Made:
    return replace(made, block=replace(made.block, **fields))


def _taken(made: Made, rows: np.ndarray) -> Made:
    return replace(made, block=take(made.block, rows))


def _middle(block: Block) -> int:
    """A window that is neither the first nor the last of its document."""
    same = block.document_id[1:-1] == block.document_id[2:]
    return 1 + int(np.flatnonzero(same & (block.window_number[1:-1] > 0))[0])


def test_w1_a_lost_window_is_found(sets: dict[str, Made], whole: Path) -> None:
    made = sets["train"]
    rows = np.delete(np.arange(made.block.num_rows), _middle(made.block))
    found = _rewrite(whole / "train", _taken(made, rows))
    assert any("do not join" in line for line in found), found


@pytest.mark.parametrize("which", ["same block", "across shards"])
def test_w1_a_doubled_window_is_found(which: str, sets: dict[str, Made], whole: Path) -> None:
    made = sets["train"]
    order = np.lexsort((made.block.document_id, seal_keys(made.block, 0)))
    row = order[ROWS_PER_BLOCK - 1 if which == "across shards" else 77]
    rows = np.append(np.arange(made.block.num_rows), row)
    found = _rewrite(whole / "train", _taken(made, rows))
    assert any("is there twice" in line for line in found), found


def test_w1_a_token_lost_between_two_windows_is_found(sets: dict[str, Made], whole: Path) -> None:
    made = sets["train"]
    offsets = made.block.token_offset.copy()
    offsets[_middle(made.block)] += 1
    found = _rewrite(whole / "train", _changed(made, token_offset=offsets))
    assert any("do not join" in line for line in found), found


def test_w1_a_gap_that_is_not_told_or_too_long_is_found(
    sets: dict[str, Made], tmp_path: Path
) -> None:
    made = sets["crops"]
    assert made.block.gap is not None
    row = int(np.flatnonzero((made.block.gap > 0) & (made.block.window_number > 0))[0])
    for change in (-int(made.block.gap[row]), 1):
        gap = made.block.gap.astype(np.int64)
        gap[row] += change
        write(tmp_path / f"set{change}", _changed(made, gap=gap.astype(np.uint32)))
        found = verify(tmp_path / f"set{change}", Ray())
        assert any("do not join" in line for line in found), found


def test_w1_crops_that_overlap_are_found(sets: dict[str, Made], tmp_path: Path) -> None:
    made = sets["crops"]
    block, row = made.block, _middle(made.block)
    offsets = block.token_offset.copy()
    offsets[row] = offsets[row - 1]
    write(tmp_path / "set", _changed(made, token_offset=offsets))
    found = verify(tmp_path / "set", Ray())
    assert any("do not join" in line for line in found), found


def test_w2_tokens_left_out_but_not_counted_are_found(
    sets: dict[str, Made], tmp_path: Path
) -> None:
    made = sets["crops"]
    assert made.block.gap is not None
    write(tmp_path / "set", replace(made, left_out=int(made.block.gap.sum()) - 1))
    assert any("its gaps say" in line for line in verify(tmp_path / "set", Ray()))
    flags = made.block.flags & ~np.uint8(BEFORE_GAP)
    last = (flags & LAST_OF_DOCUMENT) > 0
    flags = np.where(last, flags | ENDS_ON_SENTENCE, made.block.flags).astype(np.uint8)
    write(tmp_path / "tails", _changed(made, flags=flags))
    assert any("its gaps say" in line for line in verify(tmp_path / "tails", Ray()))


@pytest.mark.parametrize("name", ["tag", "gap"])
def test_a_field_that_some_blocks_lack_is_found(
    name: str, sets: dict[str, Made], tmp_path: Path
) -> None:
    made = sets["crops"]
    if name == "gap":  # such that nothing else is wrong with a block without it
        nothing = np.zeros(sets["train"].block.num_rows, dtype=np.uint32)
        made = _changed(sets["train"], gap=nothing)
    write(tmp_path / "set", made, cut_field=name)
    found = verify(tmp_path / "set", Ray())
    assert any(f"blocks have {name}s; all must or none" in line for line in found), found


def test_s1_windows_out_of_order_are_found(sets: dict[str, Made], whole: Path) -> None:
    found = _rewrite(whole / "train", sets["train"], sort=False)
    assert any("out of order" in line for line in found), found


def test_s1_blocks_in_another_order_are_found(sets: dict[str, Made], whole: Path) -> None:
    block = sets["train"].block
    order = np.lexsort((block.window_number, block.document_id, seal_keys(block, 0)))
    swapped = np.concatenate([order[-ROWS_PER_BLOCK:], order[:-ROWS_PER_BLOCK]])
    found = _rewrite(whole / "train", _taken(sets["train"], swapped), sort=False)
    assert any("first block: window" in line and "out of order" in line for line in found), found


def test_w3_a_special_token_in_text_is_found(sets: dict[str, Made], whole: Path) -> None:
    tokens = sets["train"].block.tokens.copy()
    tokens[77] = 4
    found = _rewrite(whole / "train", _changed(sets["train"], tokens=tokens))
    assert any("id 4 cannot come from text" in line for line in found), found


@pytest.mark.parametrize("number", [0, 3, 4])
def test_e1_a_held_out_document_in_train_is_found(
    number: int, sets: dict[str, Made], whole: Path
) -> None:
    document = np.unique(sets["held_out"].block.document_id)[number]
    ids = sets["train"].block.document_id.copy()
    ids[ids == ids[0]] = document
    shutil.rmtree(whole / "train")
    write(whole / "train", _changed(sets["train"], document_id=ids))
    assert any(f"document {document} is held out too" in line for line in verify(whole, Ray()))


def test_e1_sets_of_another_seal_order_are_refused(sets: dict[str, Made], whole: Path) -> None:
    _change_manifest(whole / "held_out", provenance={"config": {"shards": {"seed": 1}}})
    assert any("another shards.seed" in line for line in verify(whole, Ray()))


def test_a_broken_window_is_found(sets: dict[str, Made], whole: Path) -> None:
    repeated = sets["train"].block.repeated.copy()
    repeated[0] = 400
    found = _rewrite(whole / "train", _changed(sets["train"], repeated=repeated))
    assert any("leaves nothing new" in line for line in found), found


def test_fields_of_other_lengths_are_found(sets: dict[str, Made]) -> None:
    for name in FIELDS:
        block = take(sets["crops"].block, np.arange(9))
        assert _fits_together(block)
        if name != "sentence_start":  # its own check finds that
            object.__setattr__(block, name, np.append(getattr(block, name), 0))
            assert not _fits_together(block), name


def output_of(folder: Path, sets: dict[str, Made]) -> Path:
    """An output with sets of two lengths, documents and a tokenizer."""
    characters = {"in": 9, "out": 8, "dropped": {"short": 1}}
    for name, made in sets.items():
        side, _, length = name.partition(" ")
        if side == "crops":
            continue
        balance = {
            "tokens": _balance(made.block, 0),
            "characters": characters,
            "documents": {"in": 76, "out": 75, "dropped": {"short": 1}},
        }
        write(folder / "shards" / (length or "48") / side, made, balance=balance)
    (folder / "documents").mkdir()
    kept = {"characters": characters, "documents": {"in": 76}}
    write_json(folder / "documents" / "manifest.json", {"balance": kept})
    write_json(folder / "tokenizer" / "meta.json", {"hash": "ab" * 32})
    return folder


def test_an_output_of_several_lengths_is_proved_at_every_level(
    sets: dict[str, Made], tmp_path: Path
) -> None:
    output = output_of(tmp_path, sets)
    for folder in (output, output / "shards", output / "shards" / "96"):
        assert verify(folder, Ray()) == []


@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ("tokenizer", "another tokenizer than"),
        ("length", "other documents or another tokenizer"),
        ("side", "is not there for all lengths"),
        ("documents", "other characters came in"),
        ("count", "75 documents on both sides, 74 kept"),
        ("seq", "another tokenizer_hash than"),
    ],
)
def test_what_sets_must_agree_on(
    fault: str, reason: str, sets: dict[str, Made], tmp_path: Path
) -> None:
    output = output_of(tmp_path, sets)
    shards = output / "shards"
    match fault:
        case "tokenizer":
            write_json(output / "tokenizer" / "meta.json", {"hash": "cd" * 32})
        case "length":
            shutil.rmtree(shards / "96" / "held_out")
            made = sets["held_out 96"]
            ids = made.block.document_id + np.uint64(7)
            write(shards / "96" / "held_out", _changed(made, document_id=ids))
        case "side":
            shutil.rmtree(shards / "96" / "held_out")
        case "documents":
            path = output / "documents" / "manifest.json"
            write_json(path, {"balance": {"characters": {"in": 10}}})
        case "count":
            _change_balance(shards / "48" / "train", "documents", out=74, dropped={"short": 2})
        case "seq":
            shutil.rmtree(shards / "48" / "train")
            write(shards / "48" / "train", sets["train"], tokenizer_hash="cd" * 32)
    found = verify(output, Ray())
    assert any(reason in line for line in found), found


def test_table_and_reports_agree(whole: Path) -> None:
    opened = ShardSet.open(whole / "train")
    lines = (whole / "train" / "shards.jsonl").read_bytes().splitlines(keepends=True)
    entries: list[ShardEntry] = [opened.entry(number) for number in range(2)]
    assert [table_line(entry) for entry in entries] == lines
