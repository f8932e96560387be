"""Reading one source file: its documents, cleaned, in files of about equal size, and a report."""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from data_prep.cleaning import filters, normalised, verdict
from data_prep.config import Cleaning
from data_prep.documents import Document, to_line
from data_prep.sources import jsonl, mediawiki
from data_prep.sources.files import SourceFile
from mlmdist.files import atomic_writer, write_json


@dataclass
class Balance:
    """Documents and characters that came in, and those that left by cause (law W2).

    Characters are those of the normal form; a record that is no document, such as a redirect, has
    none.
    """

    documents: int = 0
    characters: int = 0
    dropped_documents: Counter[str] = field(default_factory=Counter)
    dropped_characters: Counter[str] = field(default_factory=Counter)

    def drop(self, reason: str, characters: int) -> None:
        """Count a document that leaves."""
        self.dropped_documents[reason] += 1
        self.dropped_characters[reason] += characters

    def report(self) -> dict[str, Any]:
        """The balance as JSON values."""
        return {
            "documents": {"in": self.documents, "dropped": dict(self.dropped_documents)},
            "characters": {"in": self.characters, "dropped": dict(self.dropped_characters)},
        }


def read_source(file: SourceFile, config: Cleaning, target: Path) -> dict[str, Any]:
    """Write the cleaned documents of a file as `target`-NNNN.jsonl and, last, `target`.json.

    The report, which comes back too, names the files and says what was dropped and why. Where a
    file of documents ends depends on the text alone.
    """
    balance = Balance()
    parts: list[dict[str, Any]] = []
    documents = _kept(file, config, balance)
    following = next(documents, None)
    while following is not None:
        path = target.with_name(f"{target.name}-{len(parts):04d}.jsonl")
        part: dict[str, Any] = {"name": path.name, "documents": 0, "chars": 0}
        with atomic_writer(path) as output:
            while following is not None and part["chars"] < config.part_chars:
                output.write(to_line(following))
                part["documents"] += 1
                part["chars"] += following.num_characters
                following = next(documents, None)
        parts.append(part)
    report = {"parts": parts, **balance.report()}
    write_json(target.with_name(f"{target.name}.json"), report)
    return report


def _kept(file: SourceFile, config: Cleaning, balance: Balance) -> Iterator[Document]:
    tests = filters(config)
    for record, reason in _records(file):
        balance.documents += 1
        if record is None:
            balance.drop(reason, 0)
            continue
        document = normalised(record)
        balance.characters += document.num_characters
        drop, reason = verdict(document, tests)
        if drop:
            balance.drop(reason, document.num_characters)
        else:
            yield document


def _records(file: SourceFile) -> Iterator[tuple[Document | None, str]]:
    """(document, "") or (None, why it is none) for every record of the file."""
    with file.path.open("rb") as stream:
        if file.source.format == "jsonl":
            for record in jsonl.read_records(stream, str(file.path), file.index, file.source):
                yield record, ""
            return
        for page in mediawiki.read_pages(stream, str(file.path)):
            if reason := mediawiki.skip_reason(page):
                yield None, reason
            else:
                yield mediawiki.page_document(page, file.index), ""
