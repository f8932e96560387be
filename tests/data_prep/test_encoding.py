"""Documents become the block that a reader would write by hand."""

from pathlib import Path

import numpy as np
import pytest

from data_prep import encoding
from data_prep.config import Tags, TokenizerTraining, Windows, Words
from data_prep.documents import Document
from data_prep.encoding import Encoder, find_sentence_starts
from data_prep.sentences import ends
from data_prep.tokenizer_training import train_tokenizer
from mlmdist.blocks import ENDS_ON_SENTENCE, LAST_OF_DOCUMENT, STARTS_ON_SENTENCE, Block
from mlmdist.tokenizer import Tokenizer
from tests.data_prep.test_verify import documents

CORPUS = [
    *documents(0, 12),
    Document(500, "", "", ("A mill. Two dogs slept! Did the men? [MASK] ☃☃ ran.", "Spring", "☃")),
    Document(501, "", "", ("One",)),
]
LINES = Document(502, "", "", ("Two dogs slept! Did the men?", "a mill", "They ran."), True)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    folder = tmp_path_factory.mktemp("tokenizer")
    return train_tokenizer(CORPUS, 100_000, TokenizerTraining(vocab_size=70), folder)


def encoder(tokenizer: Tokenizer, **windows: object) -> Encoder:
    config = Windows.model_validate({"max_seq_len": 48} | windows)
    return Encoder(tokenizer, Words(), Tags(), config)


def block_of(tokenizer: Tokenizer, chosen: list[Document], **windows: object) -> Block:
    made = encoder(tokenizer, **windows)
    return made.windows_of(made.tokens(chosen), 48)[0]


def rows_of(block: Block, identity: int) -> list[int]:
    rows = np.flatnonzero(block.document_id == identity)
    assert block.window_number[rows].tolist() == list(range(len(rows)))
    return rows.tolist()


def sentence_starts(tokenizer: Tokenizer, texts: list[str], *, whole: bool = False) -> list[int]:
    encoded = tokenizer.encode_with_ends(texts)
    return find_sentence_starts(texts, encoded, np.full(len(texts), whole)).tolist()


def starts_by_hand(tokenizer: Tokenizer, texts: list[str], *, whole: bool = False) -> set[int]:
    """Sentence starts found text by text and end by end."""
    found, base = set(), 0
    for text in texts:
        encoded = tokenizer.encode_with_ends([text])
        edges = [0, *([] if whole else ends(text)[:-1])]
        token_begins = {int(end): token + 1 for token, end in enumerate(encoded.char_end)} | {0: 0}
        found |= {base + token_begins[edge] for edge in edges if edge in token_begins}
        base += len(encoded.tokens)
    return found - {base}


@pytest.mark.parametrize("overlap", [0, 12])
def test_w1_offsets_and_sentences_are_those_of_the_documents_tokens(
    tokenizer: Tokenizer, overlap: int
) -> None:
    made = encoder(tokenizer, overlap=overlap)
    corpus = [*CORPUS, LINES]
    encoded = made.tokens(corpus)
    block, left_out = made.windows_of(encoded, 48)
    assert left_out == 0
    assert len(encoded.tokens) == len(block.tokens) - int(block.repeated.sum())
    assert (block.tag, block.gap) == (None, None)
    for document in corpus:
        texts = list(document.paragraphs)
        tokens = [t for row in tokenizer.encode(texts) for t in row]
        starts = starts_by_hand(tokenizer, texts, whole=document.sentences_given)
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
    begins = np.append(0, encoded.char_end)[:-1]
    joined = text + "Spring"
    found = sentence_starts(tokenizer, [text, "Spring"])
    assert [joined[int(begins[s]) :].lstrip()[:3] for s in found] == [
        "A m", "Two", "Did", "The", "Spr",
    ]  # fmt: skip


def test_where_sentences_are_given_no_other_is_looked_for(tokenizer: Tokenizer) -> None:
    block = block_of(tokenizer, [CORPUS[12], LINES, CORPUS[13]])
    row = rows_of(block, LINES.id)[0]
    held = slice(int(block.sentence_ptr[row]), int(block.sentence_ptr[row + 1]))
    sizes = [len(ids) for ids in tokenizer.encode(list(LINES.paragraphs))]
    assert block.sentence_start[held].tolist() == [0, sizes[0], sizes[0] + sizes[1]]


@pytest.mark.parametrize("long_text", ["sliding", "random_crop", "key_sentences", "first"])
def test_documents_are_encoded_alike_alone_and_together(
    tokenizer: Tokenizer, long_text: str
) -> None:
    together = block_of(tokenizer, CORPUS, long_text=long_text, overlap=12, crops=2)
    for document in CORPUS:
        alone = block_of(tokenizer, [document], long_text=long_text, overlap=12, crops=2)
        rows = rows_of(together, document.id)
        assert alone.num_rows == len(rows)
        assert (alone.gap is None) == (long_text == "sliding")
        first, last = int(together.window_ptr[rows[0]]), int(together.window_ptr[rows[-1] + 1])
        assert alone.tokens.tolist() == together.tokens[first:last].tolist()
        assert alone.word_start.tolist() == together.word_start[first:last].tolist()
        assert alone.token_offset.tolist() == together.token_offset[rows].tolist()


def test_what_is_encoded_at_once_changes_nothing(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = encoder(tokenizer).tokens(CORPUS)
    monkeypatch.setattr(encoding, "RUN_CHARACTERS", 150)
    runs = encoder(tokenizer).tokens(CORPUS)
    assert runs.tokens.tolist() == whole.tokens.tolist()
    assert runs.text.bounds.tolist() == whole.text.bounds.tolist()
    assert runs.text.sentence_starts.tolist() == whole.text.sentence_starts.tolist()
    assert runs.text.word_starts.tolist() == whole.text.word_starts.tolist()


def test_text_without_tokens_gives_no_windows(tokenizer: Tokenizer) -> None:
    blank = Document(1, "", "", ("  ", ""))
    made = encoder(tokenizer)
    encoded = made.tokens([blank, CORPUS[13], blank])
    assert np.diff(encoded.text.bounds).astype(bool).tolist() == [False, True, False]
    assert made.windows_of(encoded, 48)[0].document_id.tolist() == [501]
    nothing = made.tokens([blank])
    assert made.windows_of(nothing, 48)[0].num_rows == 0


def test_tags_go_with_their_tokens(tokenizer: Tokenizer, tmp_path: Path) -> None:
    path = tmp_path / "words.tsv"
    path.write_text("dogs\t7\nmill\t200\n")
    made = Encoder(tokenizer, Words(), Tags(word_list=path), Windows(max_seq_len=48))
    encoded = made.tokens(CORPUS)
    block = made.windows_of(encoded, 48)[0]
    assert block.tag is not None
    text = "".join(chr(0x100 + t) for t in block.tokens.tolist())
    assert set(np.unique(block.tag).tolist()) == {0, 7, 200}
    row = rows_of(block, 500)[0]
    window = slice(int(block.window_ptr[row]), int(block.window_ptr[row + 1]))
    tagged = [
        tokenizer.pieces[t]
        for t, tag in zip(block.tokens[window], block.tag[window], strict=True)
        if tag == 200
    ]
    assert "".join(tagged).strip("▁.") == "mill"
    assert len(text) == len(block.tag)
