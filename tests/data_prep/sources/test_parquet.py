from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from data_prep.documents import Document
from data_prep.sources.splits import plan_splits
from mlmdist.errors import ConfigError
from tests.data_prep.sources.reading import documents, entries, pieces, read, source_file, whole


def parquet(tmp_path: Path, columns: dict, **options) -> bytes:
    path = tmp_path / "made"
    pq.write_table(pa.table(columns), path, **options)
    return path.read_bytes()


TEXTS = [f"Row {n}, of {n * n} words.\n\nNext." for n in range(500)]


def test_a_row_is_a_document_with_its_number_as_place(tmp_path: Path) -> None:
    columns = {"body": TEXTS, "id": list(range(500)), "site": ["a", None] * 250, "more": TEXTS}
    data = parquet(tmp_path, columns, row_group_size=64)
    found = documents(
        tmp_path / "x", data, format="parquet", text_field="body", id_field="id", group_field="site"
    )
    assert [d.id for d in found] == list(range(500))
    assert found[7].paragraphs == ("Row 7, of 49 words.", "Next.")
    assert [(d.title, d.group) for d in found[6:8]] == [("6", "a"), ("7", "7")]


@pytest.mark.parametrize("split_bytes", [1_000, 64_000, 64_000_000])
def test_rows_are_the_same_wherever_the_file_is_cut(tmp_path: Path, split_bytes: int) -> None:
    data = parquet(tmp_path, {"text": TEXTS}, row_group_size=10, use_dictionary=False)
    file = source_file(tmp_path / "x", data, format="parquet", split_bytes=split_bytes)
    splits = plan_splits([file])
    assert (len(splits) > 1) == (split_bytes < len(data))
    found = entries(splits)
    assert found == entries([whole(file)])
    assert [number for number, _ in found] == list(range(500))


@pytest.mark.parametrize(
    "kind",
    [
        pa.string(),
        pa.large_string(),
        pa.binary(),
        pa.large_binary(),
        pa.dictionary(pa.int32(), pa.string()),
    ],
)
@pytest.mark.parametrize("compression", ["none", "snappy", "gzip", "zstd", "brotli", "lz4"])
def test_text_of_every_type_and_compression(tmp_path: Path, kind: pa.DataType, compression) -> None:
    data = parquet(tmp_path, {"text": pa.array(["中文", "b"] * 50, kind)}, compression=compression)
    found = documents(tmp_path / "x", data, format="parquet")
    assert [d.paragraphs for d in found] == [("中文",), ("b",)] * 50


def test_null_text_is_a_problem_and_the_next_row_goes_on(tmp_path: Path) -> None:
    data = parquet(tmp_path, {"text": ["a", None, "c"]})
    first, bad, last = read(tmp_path / "x", data, format="parquet")
    assert isinstance(first[1], Document)
    assert isinstance(last[1], Document)
    assert bad == (1, "field 'text' holds None, must be a string")
    data = parquet(tmp_path, {"text": pa.nulls(2)})
    assert len(read(tmp_path / "x", data, format="parquet")) == 2


def test_invalid_utf8_loses_no_row(tmp_path: Path) -> None:
    strings = pa.array([b"a", b"b\xff", b"c"], pa.binary()).view(pa.string())  # not looked at
    data = parquet(tmp_path, {"text": strings})
    found = documents(tmp_path / "x", data, format="parquet")
    assert [d.paragraphs for d in found] == [("a",), ("b\ufffd",), ("c",)]


def test_a_missing_column_names_those_there_are(tmp_path: Path) -> None:
    data = parquet(tmp_path, {"body": ["a"], "url": ["b"]})
    with pytest.raises(ConfigError, match="text_field=text: x has no such column; it has body"):
        read(tmp_path / "x", data, format="parquet")
    with pytest.raises(ConfigError, match="group_field=site: x has no such column"):
        read(tmp_path / "x", data, format="parquet", text_field="body", group_field="site")
    data = parquet(tmp_path, {"text": [1, 2]})
    with pytest.raises(ConfigError, match="the column holds int64 in x; name one that holds str"):
        read(tmp_path / "x", data, format="parquet")


def test_a_row_that_is_too_large_is_passed_over(tmp_path: Path) -> None:
    data = parquet(tmp_path, {"text": ["a", "b" * 1001, "c"]})
    found = read(tmp_path / "x", data, format="parquet", max_record_bytes=1000)
    assert [isinstance(entry, Document) for _, entry in found] == [True, False, True]


@pytest.mark.parametrize("cut", [lambda n: n - 4, lambda n: n * 6 // 10, lambda n: 0])
def test_a_file_that_is_cut_short_is_one_problem(tmp_path: Path, cut) -> None:
    data = parquet(tmp_path, {"text": TEXTS}, row_group_size=10)
    file = source_file(tmp_path / "x", data[: cut(len(data))], format="parquet")
    for size in (500, 1 << 30):
        ((number, problem),) = entries(pieces(file, size))
        assert number is None
        assert "damaged Parquet" in str(problem)


def test_another_format_is_one_problem(tmp_path: Path) -> None:
    ((_, problem),) = read(tmp_path / "x", b"some text " * 100, format="parquet")
    assert "damaged Parquet" in str(problem)


def test_a_damaged_row_group_loses_itself_alone(tmp_path: Path) -> None:
    options = {"row_group_size": 50, "write_page_checksum": True, "use_dictionary": False}
    data = bytearray(parquet(tmp_path, {"text": TEXTS}, **options))
    (tmp_path / "whole").write_bytes(data)
    column = pq.ParquetFile(tmp_path / "whole").metadata.row_group(3).column(0)
    data[column.data_page_offset + column.total_compressed_size // 2] ^= 1
    file = source_file(tmp_path / "x", bytes(data), format="parquet")
    found = entries([whole(file)])
    numbers = [number for number, entry in found if isinstance(entry, Document)]
    assert numbers == [n for n in range(500) if not 150 <= n < 200]
    (problem,) = [entry for _, entry in found if isinstance(entry, str)]
    assert problem.startswith("row group 3: damaged Parquet")
    assert entries(pieces(file, 900)) == found


def test_an_empty_table_holds_nothing(tmp_path: Path) -> None:
    data = parquet(tmp_path, {"text": pa.array([], pa.string())})
    assert read(tmp_path / "x", data, format="parquet") == []
