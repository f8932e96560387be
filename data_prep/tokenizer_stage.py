"""The middle stage: cleaned documents to a tokenizer folder."""

import logging
from collections.abc import Iterator

from data_prep.config import Prep
from data_prep.document_stage import read_documents_manifest
from data_prep.documents import Document, held_out_side, read_documents
from data_prep.stages import finish_stage, open_stage, stamp
from data_prep.tokenizer_training import train_tokenizer

log = logging.getLogger(__name__)


def make_tokenizer(config: Prep, *, overwrite: bool) -> None:
    """Write OUTPUT/tokenizer, trained on the training side alone."""
    manifest = read_documents_manifest(config.output / "documents")
    settings = {
        "tokenizer": config.tokenizer.model_dump(mode="json"),
        "held_out": config.held_out.model_dump(mode="json"),
    }
    wanted = stamp(settings, {"documents": manifest["fingerprint"]})
    work = open_stage(config.output / "tokenizer", wanted, overwrite=overwrite)
    if work is None:
        return
    chars = manifest["chars"]
    log.info(
        "training a tokenizer of %d pieces on %d characters", config.tokenizer.vocab_size, chars
    )
    tokenizer = train_tokenizer(
        _documents(config, manifest["parts"]), chars, config.tokenizer, work.result
    )
    finish_stage(work)
    log.info("tokenizer %s: %d pieces", tokenizer.hash[:12], len(tokenizer.pieces))


def _documents(config: Prep, parts: list[dict[str, object]]) -> Iterator[Document]:
    for part in parts:
        for document in read_documents(config.output / "documents" / str(part["name"])):
            if not held_out_side(document.group, config.held_out.share, config.held_out.seed):
                yield document
