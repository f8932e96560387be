"""Preprocessing against the best public ways to do the same, on the same text with equal ids.

    python -m tests.benchmarks.prep [--quick] [--corpus PATH] [--only CASE ...]

PATH is a folder or glob of JSON Lines, packed or not; default: the sample that gensim ships. The
cases: `encode` (against SentencePiece line by line, tokenizers and datatrove), `shards` (cleaned
text to finished shards against encoding alone, each on one core), `workers` (two against one).
"""

import argparse
import json
import math
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

os.environ["TOKENIZERS_PARALLELISM"] = "false"  # a core each

from data_prep.cluster import Cluster
from data_prep.config import Prep, TokenizerTraining
from data_prep.document_stage import clean_documents, read_documents_manifest
from data_prep.documents import Document, read_documents
from data_prep.shard_stage import make_shards
from data_prep.tokenizer_training import train_tokenizer
from mlmdist import logs
from mlmdist.config.loading import load
from mlmdist.export.tokenizer_json import tokenizer_json
from mlmdist.tokenizer import SentencePieceTokenizer, load_tokenizer
from tests.benchmarks.duel import Board, seconds

SAMPLE = "configs/prep/quickstart.yaml"
BATCH_LINES = 4096
VOCABULARY = 32_000
SAMPLE_VOCABULARY = 8_000
TRAINING_CHARS = 20_000_000
KINDS = ("unigram", "bpe")
QUIET = 0.1  # seconds of work in a second
MOST_SECONDS_TO_QUIET = 30
PART_CHARS = 12_400_000  # a second of work; 148 MB are twelve, so no worker waits for the last


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.prep", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one round, at most 5 MB")
    parser.add_argument("--corpus", help="folder or glob of JSON Lines; default: gensim's sample")
    parser.add_argument("--only", nargs="*", choices=["encode", "shards", "workers"])
    parser.add_argument("--shards-of", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--workers", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    logs.set_up(level=30)
    if arguments.shards_of:
        _make_shards_once(arguments.shards_of, arguments.workers)
        return
    with tempfile.TemporaryDirectory() as folder:
        Benchmark(Path(folder), arguments.corpus, quick=arguments.quick).run(arguments.only)


class Benchmark:
    """The cleaned text, tokenizers trained on it, and the board of results."""

    def __init__(self, folder: Path, corpus: str | None, *, quick: bool) -> None:
        self.folder, self.rounds, self.board = folder, 1 if quick else 2, Board()
        self.config = _config(folder, corpus)
        with Cluster(self.config.ray) as cluster:
            clean_documents(self.config, cluster, overwrite=False)
        self.documents = list(_documents(self.config))
        self.training_chars = sum(document.num_characters for document in self.documents)
        most = 5_000_000 if quick else self.training_chars
        self.lines = list(_first_chars(self.documents, most))
        self.megabytes = sum(len(line.encode()) for line in self.lines) / 1e6
        self.board.say(f"{self.megabytes:.1f} MB in {len(self.lines):,} lines; {cpu()}")

    def run(self, only: list[str] | None) -> None:
        """All cases, or those named."""
        cases: dict[str, Callable[[str], None]] = {
            "encode": self.encode, "shards": self.shards, "workers": self.workers
        }  # fmt: skip
        for kind in KINDS:
            self._train(kind)
            for name, case in cases.items():
                if not only or name in only:
                    case(kind)
        self.board.end()

    def _train(self, kind: str) -> None:
        large = self.training_chars > TRAINING_CHARS
        training = TokenizerTraining.model_validate(
            {
                "kind": kind,
                "vocab_size": VOCABULARY if large else SAMPLE_VOCABULARY,
                "sample_chars": TRAINING_CHARS,
            }
        )
        path = self.folder / kind / "tokenizer"
        path.mkdir(parents=True)
        train_tokenizer(self.documents, self.training_chars, training, path)
        (self.folder / kind / "documents").symlink_to(self.folder / "documents")

    def _tokenizer(self, kind: str) -> SentencePieceTokenizer:
        tokenizer = load_tokenizer(self.folder / kind / "tokenizer")
        assert isinstance(tokenizer, SentencePieceTokenizer)
        return tokenizer

    def encode(self, kind: str) -> None:
        """Lines to ids: ours, SentencePiece line by line, tokenizers in batches, datatrove."""
        tokenizer, board = self._tokenizer(kind), self.board
        processor = tokenizer.processor

        def ours() -> None:
            for batch in self._batches():
                tokenizer.encode_with_ends(batch)

        def line_by_line() -> None:
            for line in self.lines:
                processor.encode(line)

        self._check_ids(tokenizer)  # and the memo is warm
        work = {"rounds": self.rounds, "work": self.megabytes}
        board.duel(f"encode_{kind}_vs_sentencepiece", ours, line_by_line, **work)
        board.say(f"{'':8}cold memo: {self.megabytes / self._cold(kind):.2f} MB/s")
        public = _public_tokenizer(tokenizer)
        differing = self._differing(tokenizer, public)

        def batches_of_tokenizers() -> None:
            for batch in self._batches():
                public.encode_batch_fast(batch, add_special_tokens=False)

        board.duel(f"encode_{kind}_vs_tokenizers", ours, batches_of_tokenizers, **work)
        board.say(f"{'':8}{differing} of {len(self.lines):,} lines differ (exact score ties)")
        self._datatrove(kind, tokenizer, ours)

    def _batches(self) -> Iterator[list[str]]:
        yield from _batched(self.lines, BATCH_LINES)

    def _check_ids(self, tokenizer: SentencePieceTokenizer) -> None:
        """Ours are SentencePiece's own ids, on every line."""
        for batch in self._batches():
            found = tokenizer.encode_with_ends(batch)
            for number, line in enumerate(batch):
                ids = found.tokens[found.ptr[number] : found.ptr[number + 1]].tolist()
                assert ids == tokenizer.processor.encode(line), f"other ids: {line[:80]!r}"

    def _forgetful(self, kind: str) -> SentencePieceTokenizer:
        """The tokenizer, which is the same object each time, with an empty memo."""
        tokenizer = self._tokenizer(kind)
        tokenizer.memo.clear()
        return tokenizer

    def _cold(self, kind: str) -> float:
        tokenizer = self._forgetful(kind)
        return seconds(lambda: [tokenizer.encode_with_ends(batch) for batch in self._batches()])

    def _differing(self, tokenizer: SentencePieceTokenizer, public: Any) -> int:
        count = 0
        for batch in self._batches():
            theirs = public.encode_batch_fast(batch, add_special_tokens=False)
            ours = tokenizer.encode(batch)
            count += sum(a != b.ids for a, b in zip(ours, theirs, strict=True))
        return count

    def _datatrove(
        self, kind: str, tokenizer: SentencePieceTokenizer, ours: Callable[[], None]
    ) -> None:
        """datatrove's tokenization step, which writes token files, on one worker."""
        try:
            from datatrove.data import Document as TheirDocument  # pyright: ignore[reportMissingImports]
            from datatrove.pipeline.tokens import DocumentTokenizer  # pyright: ignore[reportMissingImports]
        except ImportError:
            self.board.say(f"{'':8}datatrove is not installed (extra bench): left out")
            return
        definition = self.folder / kind / "tokenizer.json"
        definition.write_text(json.dumps(tokenizer_json(tokenizer)))
        documents = [
            TheirDocument(text=line, id=str(number)) for number, line in enumerate(self.lines)
        ]

        def theirs() -> None:
            with tempfile.TemporaryDirectory() as output:
                step = DocumentTokenizer(
                    output,
                    tokenizer_name_or_path=str(definition),
                    eos_token=None,
                    shuffle_documents=False,
                )
                step.run(iter(documents), rank=0, world_size=1)

        self.board.duel(f"encode_{kind}_vs_datatrove", ours, theirs, rounds=1, work=self.megabytes)

    def shards(self, kind: str) -> None:
        """Cleaned text to finished shards, on one worker, against encoding alone.

        Both begin as a new program does, with an empty memo of words; then against encoding with
        every word known, and against SentencePiece line by line.
        """
        tokenizer = self._tokenizer(kind)
        texts = [tokenizer.normalize(p) for d in self.documents for p in d.paragraphs]
        megabytes = sum(len(text.encode()) for text in texts) / 1e6

        def alone(tokenizer: SentencePieceTokenizer) -> None:
            for batch in _batched(texts, BATCH_LINES):
                tokenizer.encode_with_ends(batch)

        def line_by_line() -> None:
            for text in texts:
                tokenizer.processor.encode(text)

        whole = [self._measure_shards(kind, 1) for _ in range(self.rounds + 1)]
        for name, encoding in (
            ("encoding", lambda: alone(self._forgetful(kind))),
            ("warm_encoding", lambda: alone(tokenizer)),
            ("sentencepiece", line_by_line),
        ):
            fast = min(seconds(encoding) for _ in range(self.rounds + 1))
            self.board.note(
                f"shards_{kind}_vs_{name}_alone",
                fast / min(whole),
                f"{megabytes / min(whole):.2f} of {megabytes / fast:.2f} MB/s",
            )

    def workers(self, kind: str) -> None:
        """Two workers against one, Ray already there; the shards must be equal."""
        if kind != KINDS[0]:
            return
        one = self._measure_shards(kind, 1), self._fingerprint(kind)
        two = self._measure_shards(kind, 2), self._fingerprint(kind)
        assert one[1] == two[1], "one and two workers give other shards"
        pairs = [(one[0], two[0])]
        for _ in range(self.rounds):
            second = self._measure_shards(kind, 2)
            pairs.append((self._measure_shards(kind, 1), second))
        slow, fast = (min(times) for times in zip(*pairs, strict=True))
        self.board.note("two_workers_vs_one", slow / fast, f"{slow:.1f} s against {fast:.1f} s")

    def _measure_shards(self, kind: str, workers: int) -> float:
        """Seconds of the last stage, in a process of its own; Ray's start is not counted."""
        words = ["--shards-of", str(self.folder / kind), "--workers", str(workers)]
        done = subprocess.run(
            [sys.executable, "-m", "tests.benchmarks.prep", *words],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return float(done.stdout.split()[-1])

    def _fingerprint(self, kind: str) -> bytes:
        return (self.folder / kind / "shards" / "train" / "manifest.json").read_bytes()


def _make_shards_once(output: Path, workers: int) -> None:
    """Print how long the last stage takes with Ray already there and a task already run.

    What it made before goes first, or it would say that all is done. Ray's own processes go on
    starting for seconds behind its first task, so the machine must be quiet first.
    """
    shutil.rmtree(output / "shards", ignore_errors=True)
    config = load(
        Prep, Path(SAMPLE), [f"output={output}", "held_out.share=0", f"ray.workers={workers}"]
    )
    with Cluster(config.ray) as cluster:
        tasks = [(number,) for number in range(4 * workers)]
        for _ in cluster.run(_warm, tasks):
            pass
        _wait_until_quiet()
        sys.stdout.write(f"{seconds(lambda: make_shards(config, cluster, overwrite=True))}\n")


def _wait_until_quiet() -> None:
    """Wait until all processes of the machine together work less than QUIET."""
    end = time.monotonic() + MOST_SECONDS_TO_QUIET
    busy = math.inf
    while busy > QUIET and time.monotonic() < end:
        before = _busy_seconds()
        time.sleep(1)
        busy = _busy_seconds() - before


def _busy_seconds() -> float:
    """Seconds that the machine's cores have worked, all together."""
    user, nice, system = map(int, Path("/proc/stat").read_text().split()[1:4])
    return (user + nice + system) / os.sysconf("SC_CLK_TCK")


def _warm(number: int) -> int:
    """Imports what a task needs."""
    import data_prep.parts  # noqa: F401

    return number


def _config(folder: Path, corpus: str | None) -> Prep:
    words = [f"output={folder}", "held_out.share=0", f"cleaning.part_chars={PART_CHARS}"]
    config = load(Prep, Path(SAMPLE), words)
    if corpus is None:
        return config
    path = Path(corpus)
    named = str(path / "*.jsonl*") if path.is_dir() else corpus
    source = config.sources[0].model_copy(update={"path": named, "format": "jsonl"})
    return config.model_copy(update={"sources": [source]})


def _documents(config: Prep) -> Iterator[Document]:
    folder = config.output / "documents"
    for part in read_documents_manifest(folder)["parts"]:
        yield from read_documents(folder / part["name"])


def _first_chars(documents: list[Document], most: int) -> Iterator[str]:
    for document in documents:
        yield from document.paragraphs
        most -= document.num_characters
        if most <= 0:
            return


def _batched(lines: list[str], size: int) -> Iterator[list[str]]:
    for first in range(0, len(lines), size):
        yield lines[first : first + size]


def _public_tokenizer(tokenizer: SentencePieceTokenizer) -> Any:
    from tokenizers import Tokenizer as Public

    return Public.from_str(json.dumps(tokenizer_json(tokenizer)))


def cpu() -> str:
    """The processor's name, for people who compare tables."""
    with Path("/proc/cpuinfo").open() as file:
        return next((line.partition(":")[2].strip() for line in file if "model name" in line), "")


if __name__ == "__main__":
    main()
