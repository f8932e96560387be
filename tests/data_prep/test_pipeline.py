"""From a dump to shards through a real Ray, as the command line does it."""

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path

import numpy as np
import pytest

from data_prep.documents import read_documents
from data_prep.lock import locked
from mlmdist.shards import ShardSet
from mlmdist.tokenizer import load_tokenizer, normalize
from tests.data_prep.corpus import command, prep, tree, write_recipe, write_slice

LONG = pytest.mark.long
CLEAN = ("clean", "--config", "RECIPE")

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("dump") / "pages.xml.bz2"
    assert write_slice(path, 25_000) > 120
    return path


@pytest.fixture(scope="module")
def made(dump: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """(recipe, output) of a run that nothing disturbed."""
    folder = tmp_path_factory.mktemp("made")
    recipe = write_recipe(folder, dump)
    result = prep("shards", "--config", recipe)
    assert result.returncode == 0, result.stderr
    return recipe, folder / "out"


def test_w1_windows_of_every_document_join_to_the_tokens_of_its_paragraphs(
    made: tuple[Path, Path],
) -> None:
    _, output = made
    tokenizer = load_tokenizer(output / "tokenizer")
    joined: dict[int, dict[int, list[int]]] = {}
    for side in ("train", "held_out"):
        shards = ShardSet.open(output / "shards" / side)
        for number in range(shards.manifest.num_blocks):
            block = shards.read_block(number)
            for row in range(block.num_rows):
                first = block.window_ptr[row] + block.repeated[row]
                tokens = block.tokens[first : block.window_ptr[row + 1]].tolist()
                windows = joined.setdefault(int(block.document_id[row]), {})
                assert windows.setdefault(int(block.window_number[row]), tokens) is tokens
    documents = [
        d for path in sorted((output / "documents").glob("*.jsonl")) for d in read_documents(path)
    ]
    assert len(documents) == len(joined) > 20
    for document in documents:
        windows = joined[document.id]
        text = [token for number in sorted(windows) for token in windows[number]]
        rows = tokenizer.encode([normalize(paragraph) for paragraph in document.paragraphs])
        assert text == [token for row in rows for token in row]


def test_s1_verify_proves_what_the_pipeline_wrote(made: tuple[Path, Path]) -> None:
    result = prep("verify", made[1] / "shards")
    assert (result.returncode, result.stdout) == (0, ""), result.stdout
    assert result.stderr.count(": whole") == 2


def test_w2_everything_that_came_in_is_accounted_for(made: tuple[Path, Path]) -> None:
    _, output = made
    for side in ("train", "held_out"):
        manifest = ShardSet.open(output / "shards" / side).manifest
        assert set(manifest.balance) == {"documents", "characters", "tokens"}
        for row in manifest.balance.values():
            assert row["in"] + row.get("repeated", 0) == row["out"] + sum(row["dropped"].values())
            assert row["out"] > 0
    documents = json.loads((output / "documents" / "manifest.json").read_bytes())
    assert documents["balance"]["documents"]["in"] > 120
    assert documents["balance"]["documents"]["dropped"]["redirect"] > 0


def test_e1_no_document_is_on_both_sides(made: tuple[Path, Path]) -> None:
    _, output = made
    ids = []
    for side in ("train", "held_out"):
        shards = ShardSet.open(output / "shards" / side)
        blocks = [shards.read_block(n) for n in range(shards.manifest.num_blocks)]
        ids.append(set(np.concatenate([block.document_id for block in blocks]).tolist()))
    assert ids[0]
    assert ids[1]
    assert not ids[0] & ids[1]


@pytest.mark.parametrize("workers", [1, pytest.param(4, marks=LONG)])
def test_s1_any_number_of_workers_writes_the_same_bytes(
    workers: int, dump: Path, made: tuple[Path, Path], tmp_path: Path
) -> None:
    recipe = write_recipe(tmp_path, dump)
    result = prep("shards", "--config", recipe, f"ray.workers={workers}")
    assert result.returncode == 0, result.stderr
    assert tree(tmp_path / "out") == tree(made[1])


@pytest.mark.long
def test_s1_kills_at_any_moment_leave_the_same_bytes(
    dump: Path, made: tuple[Path, Path], tmp_path: Path
) -> None:
    recipe = write_recipe(tmp_path, dump)
    draw = random.Random(5)
    kills = 0
    while kills < 5:
        process = subprocess.Popen(
            command("shards", "--config", recipe),
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            process.wait(timeout=draw.uniform(2, 14))
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        kills += 1
    time.sleep(1)  # what Ray started sees its driver gone
    result = prep("shards", "--config", recipe)
    assert result.returncode == 0, result.stderr
    assert tree(tmp_path / "out") == tree(made[1])


def test_a_second_run_skips_what_is_there(made: tuple[Path, Path]) -> None:
    recipe, output = made
    before = {path: path.stat().st_mtime_ns for path in output.rglob("*") if path.is_file()}
    result = prep("shards", "--config", recipe)
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("skipped") == 3
    after = {path: path.stat().st_mtime_ns for path in output.rglob("*") if path.is_file()}
    assert {path: t for path, t in after.items() if path.name != ".lock"} == {
        path: t for path, t in before.items() if path.name != ".lock"
    }


def test_another_recipe_does_not_overwrite_a_result_unasked(made: tuple[Path, Path]) -> None:
    recipe, output = made
    before = tree(output)
    result = prep("shards", "--config", recipe, "windows.overlap=0")
    assert result.returncode == 3
    assert "settings.windows.overlap: 16 there, 0 here" in result.stderr
    assert "--overwrite" in result.stderr
    assert result.stderr.count("\n") == 3, "two skipped stages and one line of error"
    assert tree(output) == before


def test_two_programs_do_not_share_a_folder(dump: Path, tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path, dump)
    with locked(tmp_path / "out"):
        second = prep("clean", "--config", recipe)
    assert second.returncode == 2
    assert "another program works in it" in second.stderr
    assert not (tmp_path / "out" / "documents.work").exists()


@pytest.mark.parametrize(
    ("words", "code", "reason"),
    [
        (["clean"], 2, "--config FILE must be given"),
        (["clean", "--config", "nowhere.yaml"], 2, "nowhere.yaml: no such file"),
        ([*CLEAN, "windws.overlap=1"], 2, "windws: unknown key (did you mean 'windows'?)"),
        ([*CLEAN, "sources.0.path=nowhere.bz2"], 2, "nowhere.bz2: no such file"),
        ([*CLEAN, "windows.overlap=40"], 2, "at most half a window"),
        ([*CLEAN, "sources.0.path=package:nonesuch/x"], 2, "'nonesuch' is not installed"),
        (["verify", "nowhere"], 3, "no manifest.json, so no finished shard set"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], code: int, reason: str, dump: Path, tmp_path: Path
) -> None:
    recipe = str(write_recipe(tmp_path, dump))
    result = prep(*(recipe if word == "RECIPE" else word for word in words))
    assert result.returncode == code
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "out" / "documents").exists()


def test_an_empty_corpus_is_named(tmp_path: Path) -> None:
    source = tmp_path / "empty.jsonl"
    source.write_text('{"text": ""}\n')
    recipe = write_recipe(tmp_path, source, "jsonl")
    result = prep("shards", "--config", recipe)
    assert result.returncode == 3
    assert "no document is left to train on (1 empty)" in result.stderr
    assert not (tmp_path / "out" / "documents").exists()
