"""Documents become the block that a reader would write by hand."""

import numpy as np
import pytest

from data_prep.config import TokenizerTraining, Windows
from data_prep.documents import Document
from data_prep.encoding import encode_documents, find_sentence_starts
from data_prep.tokenizer_training import train_tokenizer
from mlmdist.blocks import ENDS_ON_SENTENCE, LAST_OF_DOCUMENT, STARTS_ON_SENTENCE, Block
from mlmdist.tokenizer import Tokenizer
from tests.data_prep.test_verify import documents

CORPUS = [
    *documents(0, 12),
    Document(500, "", "", ("A mill. Two dogs slept! Did the men? [MASK] ☃☃ ran.", "Spring", "☃")),
    Document(501, "", "", ("One",)),
]


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    return train_tokenizer(CORPUS, 100_000, TokenizerTraining(vocab_size=70), folder)


def rows_of(block: Block, identity: int) -> list[int]:
    rows = np.flatnonzero(block.document_id == identity)
    assert block.window_number[rows].tolist() == list(range(len(rows)))
    return rows.tolist()


@pytest.mark.parametrize("overlap", [0, 12])
def test_w1_offsets_and_sentences_are_those_of_the_documents_tokens(
    tokenizer: Tokenizer, overlap: int
) -> None:
    config = Windows(max_seq_len=48, overlap=overlap)
    block, tokens_in = encode_documents(CORPUS, tokenizer, config)
    assert tokens_in == len(block.tokens) - int(block.repeated.sum())
    for document in CORPUS:
        tokens = [t for row in tokenizer.encode(list(document.paragraphs)) for t in row]
        encoded = tokenizer.encode_with_ends(document.paragraphs)
        starts = set(find_sentence_starts(document.paragraphs, encoded).tolist())
        rows = rows_of(block, document.id)
        place = 0
        for row in rows:
            window = slice(int(block.window_ptr[row]), int(block.window_ptr[row + 1]))
            first, length = int(block.token_offset[row]), window.stop - window.start
            assert block.tokens[window].tolist() == tokens[first : first + length]
            assert first + block.repeated[row] == place
            place = first + length
            held = slice(int(block.sentence_ptr[row]), int(block.sentence_ptr[row + 1]))
            inside = {0} | {s - first for s in starts if first < s < place}
            assert block.sentence_start[held].tolist() == sorted(inside)
            assert bool(block.flags[row] & STARTS_ON_SENTENCE) == (first in starts)
            assert bool(block.flags[row] & ENDS_ON_SENTENCE) == (place in starts | {len(tokens)})
            assert bool(block.flags[row] & LAST_OF_DOCUMENT) == (row == rows[-1])
        assert place == len(tokens)


def test_sentences_start_where_a_reader_sees_them(tokenizer: Tokenizer) -> None:
    text = "A mill. Two dogs slept! Did the men? They ran."
    encoded = tokenizer.encode_with_ends([text, "Spring"])
    starts = find_sentence_starts([text, "Spring"], encoded)
    begins = np.append(0, encoded.char_end)[:-1]
    joined = text + "Spring"
    assert [joined[int(begins[s]) :].lstrip()[:3] for s in starts] == [
        "A m", "Two", "Did", "The", "Spr",
    ]  # fmt: skip


def test_documents_are_encoded_alike_alone_and_together(tokenizer: Tokenizer) -> None:
    config = Windows(max_seq_len=48, overlap=12)
    together, _ = encode_documents(CORPUS, tokenizer, config)
    for document in CORPUS:
        alone, _ = encode_documents([document], tokenizer, config)
        rows = rows_of(together, document.id)
        assert alone.num_rows == len(rows)
        first, last = int(together.window_ptr[rows[0]]), int(together.window_ptr[rows[-1] + 1])
        assert alone.tokens.tolist() == together.tokens[first:last].tolist()
        assert alone.word_start.tolist() == together.word_start[first:last].tolist()
