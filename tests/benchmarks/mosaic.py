"""MosaicML Streaming's side of the loader benchmark, in a process and an environment of its own.

Streaming asks for older versions of packages that training uses; `make streaming-environment` puts
it where it changes none. So this file imports nothing of the project, and both sides speak by
lines: `sum`, or a number of batches, each answered by a number.
"""

import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

BATCH, CLS, SEP = 256, 2, 3
ROOT = Path(__file__).parents[2]
WINDOWS, TOKENIZER, RECORDS = "windows.npz", "tokenizer", "mds"


class Mosaic:
    """Their side, at work in another process while a `with` block lasts."""

    def __init__(self, python: Path, folder: Path) -> None:
        """`python` is that of their environment; `folder` holds what `write` left there."""
        command = [str(python.absolute()), "-m", "tests.benchmarks.mosaic", str(folder.absolute())]
        pipe = subprocess.PIPE
        around = os.environ | {"TMPDIR": str(folder.absolute())}  # where it leaves its locks
        self.process = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT, env=around
        )

    def __enter__(self) -> "Mosaic":
        return self

    def __exit__(self, *_: object) -> None:
        assert self.process.stdin
        self.process.stdin.close()
        self.process.wait()

    def token_sum(self) -> int:
        """The sum of all tokens of an epoch, as their loop reads them."""
        return self._ask("sum")

    def rate(self, num_batches: int) -> float:
        """Rows a second over so many batches behind the first."""
        return self._ask(num_batches)

    def _ask(self, what: object) -> Any:
        assert self.process.stdin
        assert self.process.stdout
        self.process.stdin.write(f"{what}\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        assert answer, f"{self.process.args}: ended with {self.process.wait()} when asked {what}"
        return json.loads(answer)


def write(folder: Path, tokens: np.ndarray, ptr: np.ndarray, tokenizer: Any) -> None:
    """Leave windows and a tokenizer of Hugging Face for the other process."""
    folder.mkdir()
    np.savez(folder / WINDOWS, tokens=tokens, ptr=ptr)
    tokenizer.save_pretrained(folder / TOKENIZER)


def main() -> None:
    folder = Path(sys.argv[1])
    collate = collator(folder)
    records = written(folder)
    for line in sys.stdin:
        answer = token_sum(records) if line.strip() == "sum" else rate(records, collate, int(line))
        sys.stdout.write(f"{json.dumps(answer)}\n")
        sys.stdout.flush()


def collator(folder: Path) -> Callable[[list[Any]], Any]:
    from transformers import DataCollatorForLanguageModeling, PreTrainedTokenizerFast

    tokenizer = PreTrainedTokenizerFast.from_pretrained(folder / TOKENIZER)
    inner = DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    return lambda rows: inner(
        [{"input_ids": [CLS, *np.frombuffer(r["tokens"], np.uint16).tolist(), SEP]} for r in rows]
    )


def streaming() -> Any:
    """The package; it imports its image datasets, and they torchvision, which nothing here uses."""
    if "streaming" in sys.modules:
        return sys.modules["streaming"]
    for name, holds in {
        "torchvision": [],
        "torchvision.datasets": ["VisionDataset"],
        "torchvision.transforms": [],
        "torchvision.transforms.functional": ["to_tensor"],
    }.items():
        stub = sys.modules[name] = ModuleType(name)
        stub.__spec__ = ModuleSpec(name, None)
        for each in holds:
            setattr(stub, each, type(each, (), {}))
    import streaming  # pyright: ignore[reportMissingImports]

    return streaming


def written(folder: Path) -> Any:
    """The records, a window each, as their dataset: shuffled, and each once an epoch.

    Tokens are written as bytes, which reads fastest. With more canonical nodes than one, records
    would be repeated to fill the others up.
    """
    package = streaming()
    windows = np.load(folder / WINDOWS)
    tokens, ptr = windows["tokens"].astype(np.uint16), windows["ptr"].tolist()
    out = str(folder / RECORDS)
    with package.MDSWriter(out=out, columns={"tokens": "bytes"}) as sink:
        for start, stop in itertools.pairwise(ptr):
            sink.write({"tokens": tokens[start:stop].tobytes()})
    return package.StreamingDataset(
        local=out, shuffle=True, batch_size=BATCH, num_canonical_nodes=1
    )


def token_sum(records: Any) -> int:
    return sum(int(np.frombuffer(r["tokens"], np.uint16).astype(np.int64).sum()) for r in records)


def rate(records: Any, collate: Callable[[list[Any]], Any], num_batches: int) -> float:
    batches: Iterator[Any] = iter(
        streaming().StreamingDataLoader(records, batch_size=BATCH, collate_fn=collate)
    )
    next(batches)  # files are open, the epoch is laid out
    start = time.perf_counter()
    done = sum(1 for _ in itertools.islice(batches, num_batches))
    return done * BATCH / (time.perf_counter() - start)


if __name__ == "__main__":
    main()
