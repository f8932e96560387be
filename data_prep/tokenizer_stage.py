"""The middle stage: cleaned documents to a tokenizer folder."""

import logging
from collections.abc import Iterator, Sequence

from data_prep.cluster import Cluster
from data_prep.config import Prep
from data_prep.document_stage import read_documents_manifest
from data_prep.documents import Document, held_out_side, read_documents
from data_prep.domain_words import add_domain_words
from data_prep.existing_tokenizer import take_tokenizer
from data_prep.progress import StageProgress, tell
from data_prep.stages import finish_stage, open_stage, stamp
from data_prep.tokenizer_report import choose_parts, report
from data_prep.tokenizer_training import train_tokenizer
from mlmdist.files import AnyPath, write_json
from mlmdist.tokenizer import Tokenizer, save_tokenizer

log = logging.getLogger(__name__)


def make_tokenizer(config: Prep, cluster: Cluster, *, overwrite: bool) -> None:
    """Write OUTPUT/tokenizer, trained on the training side alone, or taken; and its report."""
    manifest = read_documents_manifest(config.output / "documents")
    settings = {
        "tokenizer": config.tokenizer.model_dump(mode="json", exclude={"path"}),
        "held_out": config.held_out.model_dump(mode="json"),
    }
    inputs = {"documents": manifest["fingerprint"]}
    if config.tokenizer.path is not None:
        inputs["tokenizer"] = take_tokenizer(config.tokenizer).hash
    wanted = stamp(settings, inputs)
    work = open_stage(config.output / "tokenizer", wanted, overwrite=overwrite)
    if work is None:
        return
    parts = [config.output / "documents" / part["name"] for part in manifest["parts"]]
    kind = f"SentencePiece ({config.tokenizer.kind}, {config.tokenizer.vocab_size:,} pieces)"
    at_the_end = f"{kind} has the text and chooses its pieces"
    if config.tokenizer.path is not None:
        kind, at_the_end = config.tokenizer.path, "what the tokenizer does to the text is counted"
    with StageProgress(
        "tokenizer",
        [manifest["chars"]],
        [kind],
        unit="chars",
        measured_by="chars",
        at_the_end=at_the_end,
    ) as shown:
        # In a worker: SentencePiece stays in C++ for minutes, deaf to Ctrl-C.
        task = (parts, manifest["chars"], config, work.result)
        for _, (made, num_pieces) in cluster.run(train, [task], shown):
            log.info("tokenizer %s: %d pieces", made[:12], num_pieces)
    finish_stage(work)


def train(parts: Sequence[AnyPath], chars: int, config: Prep, folder: AnyPath) -> tuple[str, int]:
    """Make a tokenizer for files of documents, and its report; its hash and number of pieces."""
    tokenizer = _make(parts, chars, config, folder)
    sampled = choose_parts(len(parts))
    documents = _documents(config, [parts[number] for number in sampled])
    made = report(tokenizer, documents, chars * len(sampled) // max(len(parts), 1))
    write_json(folder / "report.json", made)
    return tokenizer.hash, len(tokenizer.pieces)


def _make(parts: Sequence[AnyPath], chars: int, config: Prep, folder: AnyPath) -> Tokenizer:
    settings = config.tokenizer
    if settings.path is None:
        return train_tokenizer(_documents(config, parts), chars, settings, folder)
    tokenizer = take_tokenizer(settings)
    if settings.domain_words:
        documents = _documents(config, parts)
        tokenizer = add_domain_words(tokenizer, documents, chars, settings)
    save_tokenizer(tokenizer, folder)
    return tokenizer


def _documents(config: Prep, parts: Sequence[AnyPath]) -> Iterator[Document]:
    """The documents of the training side."""
    for part in parts:
        for document in read_documents(part):
            tell(chars=document.num_characters)
            if not held_out_side(document.group, config.held_out.share, config.held_out.seed):
                yield document
