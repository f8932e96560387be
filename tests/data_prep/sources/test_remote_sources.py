"""Sources on a real server that speaks S3: the same files, splits and records as on a disk."""

import bz2
import gzip
import json
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep.config import Source
from data_prep.sources.files import find_files
from data_prep.sources.splits import plan_splits
from mlmdist.errors import ConfigError
from tests.data_prep.sources.reading import entries
from tests.s3_server import BUCKET, S3Server

LINES = "\n".join(json.dumps({"text": f"Line {n} of a corpus."}) for n in range(300)).encode()
PAGES = "".join(f"<page><revision><text>{n}</text></revision></page>\n" for n in range(200))
DUMP = f"<mediawiki>{PAGES}</mediawiki>".encode()


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with S3Server() as server:
        yield server


@pytest.fixture(scope="module")
def folder(server: S3Server, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("corpus")
    pq.write_table(pa.table({"text": [str(n) for n in range(500)]}), folder / "rows.parquet")
    contents = {
        "jsonl/plain.jsonl": LINES,
        "jsonl/inner/packed.jsonl.gz": gzip.compress(LINES),
        "jsonl/.hidden": b"x",
        "dump.xml.bz2": b"".join(bz2.compress(DUMP[n : n + 900]) for n in range(0, len(DUMP), 900)),
        "rows.parquet": (folder / "rows.parquet").read_bytes(),
    }
    for name, data in contents.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
        server.client.put_object(Bucket=BUCKET, Key=f"corpus/{name}", Body=data)
    return folder


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("jsonl", "jsonl"),
        ("jsonl/*", "jsonl"),
        ("jsonl/**/*.gz", "jsonl"),
        ("dump.xml.bz2", "mediawiki"),
        ("rows.parquet", "parquet"),
    ],
)
def test_a_store_gives_what_a_disk_gives(folder: Path, name: str, kind) -> None:
    bases = (str(folder), f"s3://{BUCKET}/corpus")
    local, remote = (
        find_files([Source(path=f"{base}/{name}", format=kind, split_bytes=3000)]) for base in bases
    )
    assert [file.name for file in local] == [file.name for file in remote]
    assert [file.num_bytes for file in local] == [file.num_bytes for file in remote]
    splits = plan_splits(remote)
    assert [split.name for split in splits] == [split.name for split in plan_splits(local)]
    found = entries(splits)
    assert found == entries(plan_splits(local))
    assert len(found) >= 200


def test_identity_is_that_of_the_content(server: S3Server) -> None:
    def identity(name: str) -> dict:
        (file,) = find_files([Source(path=f"s3://{BUCKET}/{name}", format="jsonl")])
        return file.identity

    server.client.put_object(Bucket=BUCKET, Key="other/x.jsonl", Body=b"one")
    before = identity("other/x.jsonl")
    assert identity("other/x.jsonl") == identity("other") == identity("other/*") == before
    server.client.put_object(Bucket=BUCKET, Key="other/x.jsonl", Body=b"two")
    assert identity("other/x.jsonl") != before


def test_what_is_not_there_is_named(folder: Path) -> None:
    for url in (f"s3://{BUCKET}/nowhere", f"s3://{BUCKET}/corpus/*.txt", "s3://no-such-bucket/x"):
        with pytest.raises(ConfigError, match=f"sources: {url[:20]}"):
            find_files([Source(path=url, format="jsonl")])
