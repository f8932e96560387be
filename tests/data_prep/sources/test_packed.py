import bz2
import contextlib
import gzip
import lzma
import struct
import tracemalloc
from collections.abc import Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from backports import zstd
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.sources import packed
from data_prep.sources.packed import Damage, find_stream, frames, unpacked
from tests.data_prep.sources.reading import PACKERS

TEXT = "".join(f"Line {n} of a text that is packed, {n * n}.\n" for n in range(1500)).encode()
KINDS = sorted(PACKERS)


def blocks(data: bytes, size: int) -> Iterator[bytes]:
    return (data[start : start + size] for start in range(0, len(data), size))


@cache
def packed_member(kind: str, size: int) -> bytes:
    return PACKERS[kind](TEXT[:size])


def plain(data: bytes, size: int = 1000) -> bytes:
    return b"".join(unpacked(blocks(data, size)))


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=20)
@given(cuts=st.lists(st.integers(0, 5000), max_size=4), size=st.sampled_from([1, 7, 1 << 20]))
def test_members_are_joined_however_the_bytes_come(kind: str, cuts: list[int], size: int) -> None:
    edges = sorted({0, *cuts, 5000})
    parts = [TEXT[a:b] for a, b in pairwise(edges)]
    assert plain(b"".join(map(PACKERS[kind], [b"", *parts])), size) == TEXT[:5000]


@pytest.mark.parametrize("kind", KINDS)
def test_frames_tell_where_their_member_starts(kind: str) -> None:
    members = [PACKERS[kind](TEXT[n : n + 700]) for n in range(0, 7000, 700)]
    starts = [sum(map(len, members[:n])) for n in range(len(members))]
    found: dict[int, bytes] = {}
    for start, block in frames(blocks(b"".join(members), 100), kind, 0):
        found[start] = found.get(start, b"") + block
    assert list(found) == starts
    assert list(found.values()) == [TEXT[n : n + 700] for n in range(0, 7000, 700)]


@pytest.mark.parametrize("members", [1, 3])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "lost", ["4 bytes", "40 %", "1 byte", "all but 2 bytes of the last member"]
)
def test_a_file_that_is_cut_short_raises(kind: str, members: int, lost: str) -> None:
    last = PACKERS[kind](TEXT)
    data = PACKERS[kind](TEXT) * (members - 1) + last
    kept = {
        "4 bytes": len(data) - 4,
        "40 %": len(data) * 6 // 10,
        "1 byte": len(data) - 1,
        "all but 2 bytes of the last member": len(data) - len(last) + 2,
    }[lost]
    if kept == 2:  # no magic is left of the only member: what there is is plain
        return
    with pytest.raises(Damage, match="allow_quarantined"):
        plain(data[:kept])


@pytest.mark.parametrize("kind", KINDS)
def test_what_stands_before_the_damage_is_given(kind: str) -> None:
    data = PACKERS[kind](TEXT) * 2
    found, given = b"", unpacked(blocks(data[:-4], 1000))
    with contextlib.suppress(Damage):
        while True:
            found += next(given)
    assert found[: len(TEXT)] == TEXT
    assert (TEXT * 2).startswith(found)


@pytest.mark.parametrize("kind", KINDS)
def test_every_flipped_bit_raises_or_changes_no_text(kind: str) -> None:
    text = TEXT[:300]
    data = PACKERS[kind](text)
    magic = len(packed.MAGIC[kind])
    silent = 0
    for bit in range(8 * magic, 8 * len(data)):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        try:
            assert plain(bytes(flipped)) == text
            silent += 1
        except Damage:
            pass
    assert silent <= {"gzip": 56, "bzip2": 8, "xz": 0, "zstd": 8}[kind]  # of notes in the head


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=40)
@given(bit=st.integers(0, 1 << 30))
def test_a_flipped_bit_of_a_later_member_raises(kind: str, bit: int) -> None:
    first, second = packed_member(kind, 20_000), packed_member(kind, 2000)
    data = bytearray(first + second)
    bit = 8 * len(first) + bit % (8 * len(second))
    data[bit // 8] ^= 1 << bit % 8
    try:  # noqa: SIM105 (this reads better)
        assert plain(bytes(data), 1 << 20) == TEXT[:20_000] + TEXT[:2000]
    except Damage:
        pass


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_behind_the_end_raise(kind: str) -> None:
    for garbage in (
        b"x",
        b"garbage that is long enough",
        PACKERS["gzip" if kind != "gzip" else "xz"](TEXT),
    ):
        with pytest.raises(Damage, match="bytes follow"):
            plain(PACKERS[kind](TEXT) + garbage)


def test_padding_that_a_format_allows_is_passed_over() -> None:
    assert plain(gzip.compress(TEXT) + bytes(512) + gzip.compress(TEXT) + bytes(512)) == TEXT * 2
    assert plain(lzma.compress(TEXT) + bytes(8) + lzma.compress(TEXT) + bytes(4)) == TEXT * 2
    with pytest.raises(Damage):
        plain(bz2.compress(TEXT) + bytes(512))


def test_zstd_frames_to_skip_are_skipped() -> None:
    skip = b"\x5a\x2a\x4d\x18" + struct.pack("<I", 5) + b"notes"
    frame = zstd.compress(TEXT)
    assert plain(skip + frame + skip + frame + skip) == TEXT * 2


@pytest.mark.parametrize("kind", sorted(packed.OTHER_ARCHIVES))
def test_other_archives_are_named(kind: str) -> None:
    with pytest.raises(Damage, match=f"is a {kind} archive, which is not read; unpack it"):
        plain(packed.OTHER_ARCHIVES[kind] + b"rest")


@pytest.mark.parametrize("kind", KINDS)
def test_memory_is_bounded_whatever_the_ratio(kind: str) -> None:
    data = PACKERS[kind](bytes(20_000_000))
    assert len(data) < 60_000
    tracemalloc.start()
    assert sum(map(len, unpacked(blocks(data, 1 << 20)))) == 20_000_000
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 10_000_000


def test_xz_that_needs_too_much_memory_is_named() -> None:
    filters = [
        {
            "id": lzma.FILTER_LZMA2,
            "dict_size": 1 << 30,
            "preset": 0,
            "mode": lzma.MODE_FAST,
            "mf": lzma.MF_HC3,
        }
    ]
    try:
        data = lzma.compress(TEXT, filters=filters)
    except MemoryError:
        pytest.skip("no memory to pack it")
    with pytest.raises(Damage, match=r"[Mm]emory"):
        plain(data)


@settings(max_examples=40)
@given(st.lists(st.integers(1, 3000), min_size=1, max_size=6), st.integers(0, 9000))
def test_bzip2_streams_are_found_by_their_heads(
    tmp_path_factory, sizes: list[int], start: int
) -> None:
    path: Path = tmp_path_factory.getbasetemp() / "streams.bz2"
    streams = [bz2.compress(TEXT[:size], 1 + size % 9) for size in sizes] + [bz2.compress(b"")]
    path.write_bytes(b"".join(streams))
    starts = [sum(map(len, streams[:n])) for n in range(len(streams))]
    behind = [place for place in starts if place >= start]
    assert find_stream(path, start, 1 << 40) == (behind[0] if behind else None)
    if behind:
        assert find_stream(path, start, behind[0]) is None
        assert find_stream(path, start, behind[0] + 1) == behind[0]


def test_a_stream_head_across_two_reads_is_found(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setattr(packed, "READ_BYTES", 16)
    path = tmp_path / "streams.bz2"
    for before in range(40):
        path.write_bytes(bytes(before) + bz2.compress(TEXT))
        assert find_stream(path, 0, 1 << 40) == before
