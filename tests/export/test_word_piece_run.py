"""A WordPiece vocabulary all the way: text, shards, two steps, a Hugging Face directory, blanks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from transformers import AutoTokenizer, pipeline

from data_prep.config import Ray
from data_prep.verify import verify
from mlmdist.cli import main
from mlmdist.scoring.summary import summary
from mlmdist.shards import ShardSet
from mlmdist.tokenizer import WordPieceTokenizer, load_tokenizer
from tests.data_prep.corpus import documents
from tests.data_prep.inline import make_all
from tests.tokenizer.models import real_vocabulary
from tests.train.corpus import recipe, write_recipe

pytestmark = [pytest.mark.dist, pytest.mark.slow]

TEXTS = [
    "The mill [MASK] a dog.",
    "[MASK] ran past, [MASK]!",
    "[MASK]",
    "Hyperparathyroidism [MASK]",
]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a finished run of two steps; prep's output is beside it."""
    from tests.train.jobs import exit_codes
    from tests.train.jobs import run as run_job

    home = tmp_path_factory.mktemp("home")
    lines = [
        {"text": " ".join(document.paragraphs) + " Hyperparathyroidism and [MASK] are words."}
        for document in documents(0, 60)
    ]
    (home / "text.jsonl").write_text("\n".join(map(json.dumps, lines)))
    tokenizer = {"kind": "wordpiece", "path": str(real_vocabulary()), "domain_words": 1}
    cleaning = {"near_duplicates": False}
    make_all(home / "prep", home / "text.jsonl", tokenizer=tokenizer, cleaning=cleaning)
    data: dict[str, Any] = {"tokenizer": home / "prep" / "tokenizer"}
    data |= {"mask": {"unit": "word"}}
    data |= {side: home / "prep" / "shards" / side for side in ("train", "held_out")}
    (home / "job").mkdir()
    job = recipe(
        home, home / "job" / "run",
        data=data,
        model={"max_positions": 48, "initializer_range": 0.3},
        train={"steps": 2},
        every={"log": 1},
    )  # fmt: skip
    done = run_job(1, write_recipe(job))
    assert exit_codes(done) == [0], done.output()
    return home / "job" / "run"


def test_the_shards_are_whole_and_know_the_special_ids(run: Path) -> None:
    shards = run.parent.parent / "prep" / "shards"
    assert verify(shards, Ray(workers=1)) == []
    manifest = ShardSet.open(shards / "train").manifest
    assert manifest.special_ids["[MASK]"] == 103
    block = ShardSet.open(shards / "train").read_block(0)
    assert 1 in block.tokens, "the domain word stands on the first unused row"
    assert not np.isin(block.tokens, [0, 101, 102, 103]).any()
    report = json.loads((run.parent.parent / "prep/tokenizer/report.json").read_bytes())
    assert report["pieces"]["count"] == 30522


def test_export_and_fill_are_those_of_transformers(
    run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["export", str(run), str(tmp_path / "hf")]) == 0
    theirs: Any = AutoTokenizer.from_pretrained(tmp_path / "hf", local_files_only=True)
    assert theirs("Hyperparathyroidism")["input_ids"] == [101, 1, 102]
    expected: Any = pipeline("fill-mask", str(tmp_path / "hf"), device="cpu")
    for text in TEXTS:
        wanted = expected(text, top_k=3)
        rows = wanted if isinstance(wanted[0], list) else [wanted]
        sequences = [answer["sequence"] for row in rows for answer in row]
        scores = [answer["score"] for row in rows for answer in row]
        for source in (run, tmp_path / "hf"):
            capsys.readouterr()
            assert main(["fill", str(source), text, "--top-k", "3"]) == 0
            lines = [line for line in capsys.readouterr().out.splitlines() if "  " in line]
            ends = [f"  {each}" for each in sequences]
            assert all(map(str.endswith, lines, ends)), lines
            assert len(lines) == len(ends)
            ours = [float(line.split()[0]) for line in lines]
            assert ours == pytest.approx(scores, abs=1e-4)


def test_new_rows_go_with_the_export_and_the_summary_reads_words(run: Path, tmp_path: Path) -> None:
    assert main(["export", str(run), str(tmp_path / "hf")]) == 0
    tokenizer = load_tokenizer(run.parent.parent / "prep" / "tokenizer")
    assert isinstance(tokenizer, WordPieceTokenizer)
    rows = json.loads((tmp_path / "hf" / "new_rows.json").read_bytes())
    assert rows == {"1": tokenizer.new_rows[1]}
    assert (tmp_path / "hf" / "vocab.txt").read_text().splitlines() == tokenizer.pieces
    assert "vocabulary 30,522" in summary(run)
