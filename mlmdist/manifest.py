"""What a shard set says of itself: manifest.json, and the fingerprint of its content."""

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from typing import Any, get_origin

LAYOUT_VERSION = 1
SENTENCE_PIECE_IDS = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
"""Of sets whose manifest names none."""


@dataclass(frozen=True)
class Manifest:
    """What a shard set is. Only `content_fingerprint` feeds order and resume checks."""

    content_fingerprint: str
    tokenizer_hash: str
    vocab_size: int
    max_seq_len: int
    """Longest row a window makes, with its three special tokens."""

    num_documents: int
    num_windows: int
    num_blocks: int
    num_shards: int
    num_tokens: int
    """Tokens in the windows, repeated ones included."""

    num_repeated: int
    blocks_per_shard: int
    layout_version: int = LAYOUT_VERSION
    special_ids: dict[str, int] = field(default_factory=lambda: dict(SENTENCE_PIECE_IDS))
    """The tokenizer's special tokens by name; of these, text gives [UNK] alone."""

    balance: dict[str, Any] = field(default_factory=dict)
    """Documents, characters and tokens: in = out + dropped by cause (law W2)."""

    provenance: dict[str, Any] = field(default_factory=dict)
    """Library versions, Unicode tables, sources and the resolved config."""

    checksum: str = ""
    """SHA-256 of the manifest's JSON without this: nothing else covers balance and provenance."""


def manifest_checksum(manifest: Manifest) -> str:
    """What `checksum` must be."""
    plain = asdict(manifest) | {"checksum": ""}
    return hashlib.sha256(json.dumps(plain, sort_keys=True).encode()).hexdigest()


def check_types(manifest: Manifest) -> None:
    """Raise TypeError for a field that does not hold what it must."""
    for each in fields(Manifest):
        value = getattr(manifest, each.name)
        wanted = get_origin(each.type) or each.type
        if type(value) is not wanted or (wanted is int and value < 0):
            raise TypeError(f"{each.name} is {value!r}")


def fingerprint(tokenizer_hash: str, counts: dict[str, int], checksums: Iterable[str]) -> str:
    """The content fingerprint: a hash of layout version, tokenizer, counts and shard checksums."""
    digest = hashlib.sha256()
    head = {"layout_version": LAYOUT_VERSION, "tokenizer_hash": tokenizer_hash, "counts": counts}
    digest.update(json.dumps(head, sort_keys=True).encode())
    for checksum in checksums:
        digest.update(bytes.fromhex(checksum))
    return digest.hexdigest()
