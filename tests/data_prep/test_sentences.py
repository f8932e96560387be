import time
from itertools import accumulate, pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.sentences import PIECE_CHARACTERS, ends, inner_ends


def sentences(paragraph: str) -> list[str]:
    places = [0, *ends(paragraph)]
    return [paragraph[a:b] for a, b in pairwise(places)]


def stripped(paragraph: str) -> list[str]:
    return [sentence.strip() for sentence in sentences(paragraph)]


def test_no_sentence_starts_with_a_small_letter_where_there_are_capitals() -> None:
    assert len(ends("On l'a vu. étonnant, non ? ça alors.")) == 1
    assert len(ends("on l'a vu. étonnant, non ? ça alors.")) == 3


def test_an_opening_quote_is_no_sentence() -> None:
    assert stripped('" Only see that! How odd!" he cried.') == [
        '" Only see that! How odd!" he cried.'
    ]
    assert stripped("»'s ist arg«, sagte sie.") == ["»'s ist arg«, sagte sie."]


awkward = st.text(alphabet="aBcД. \"'”“«»„。?!()[]ก漢1\n।؟…", max_size=80)


@given(awkward | st.text(max_size=60))
def test_nothing_is_lost_and_ends_rise(paragraph: str) -> None:
    found = ends(paragraph)
    assert "".join(sentences(paragraph)) == paragraph
    assert found == sorted(set(found))
    assert found[-1:] == ([len(paragraph)] if paragraph else [])
    assert not any(paragraph[end - 1].isspace() for end in found[:-1])
    assert all(stripped(paragraph)) or not paragraph.strip()


@pytest.mark.parametrize(
    "expected",
    [
        ["Dr. Smith went to Washington, D.C. on Jan. 5.", "He met J. F. Kennedy!", "It rained."],
        ['"Why?" he asked.', "It cost $3.5 million.", "The U.S. is big."],
        ["See vol. 3, no. 4, pp. 5–6, e.g. here.", "Lt. Col. Jones left.", "The end."],
        ["(This is a sentence in brackets.)", "Here is another."],
        ["1. The first point is this.", "2. The second is that."],
        ["Am 5. Mai kam Prof. Dr. Müller z. B. im 19. Jahrhundert an.", "Dann ging er."],
        ["Il est né en 1802.", "Qui l'aurait cru ?", "« Personne ! »"],
        ["А. С. Пушкин родился в г. Москве.", "Он был поэтом.", "Правда?"],
        ["我喜欢读书。", "你呢？", "“当然！”", "他说。"],
        ["これは本ですか？", "はい！", "そうです。"],
        ["「吾輩は猫である。名前はまだ無い。」", "と彼は言った。"],
        ["सभी मनुष्य जन्म से स्वतन्त्र हैं।", "उन्हें बुद्धि मिली है।"],
        ["يولد جميع الناس أحرارا.", "هل تفهم؟", "نعم."],
        ["یہ ایک جملہ ہے۔", "کیا آپ سمجھے؟"],
        ["모든 인간은 자유롭다.", "그들은 평등하다."],
        ["Όλοι γεννιούνται ελεύθεροι.", "Είναι προικισμένοι."],
        ["Բոլոր մարդիկ ծնվում են ազատ։", "Նրանք ունեն բանականություն։"],
        ["មនុស្សទាំងអស់កើតមកមានសេរីភាព។", "មនុស្សមានវិចារណញ្ញាណ។"],
        ["የሰው ልጅ ሁሉ ሲወለድ ነጻና እኩል ነው።", "ሕሊና አለው።"],
        ["እያንዳንዱ፡ሰው፡መብት፡አለው።፡", "ትምህርት፡በነጻ፡ይገባል።"],
        ["လူတိုင်းသည် လွတ်လပ်သည်။", "လူတိုင်းတွင် တရားမျှတမှု၊ ဉာဏ်ရှိသည်။"],
        ["'Maybe you haven't got a fiddle?'", "He looked at her."],
        ['"\'Tis true," she said.', "They left."],
    ],
)
def test_sentences_of_many_scripts(expected: list[str]) -> None:
    gap = "" if any(mark in expected[0] for mark in "。？」") else " "
    assert stripped(gap.join(expected)) == expected


def test_thai_ends_at_spaces_that_are_far_enough_apart() -> None:
    text = "ภาษาไทยเป็นภาษาที่มีระดับเสียงของคำแน่นอน เรียกว่าวรรณยุกต์ เช่นเดียวกับภาษาจีน และออกเสียงแยกคำต่อคำ"
    parts = stripped(text)
    assert len(parts) == 2
    assert parts[0] == "ภาษาไทยเป็นภาษาที่มีระดับเสียงของคำแน่นอน"


def test_text_without_capitals_has_sentences() -> None:
    assert len(ends("he left . she came . it was over .")) == 3


@pytest.mark.parametrize("quote", ['"', "“", "„", "«", "「", "(", "["])
def test_an_unclosed_quote_swallows_no_end(quote: str) -> None:
    opened = f"He said {quote}I am lost. "
    plain = "We went on. It was late. The rain fell. "
    assert len(ends(opened + plain + f"He met {quote}Bob there. Then we slept.")) >= 6
    assert len(ends(opened + plain * 100)) > 290


def test_an_odd_quote_before_whole_ones_swallows_no_end() -> None:
    text = 'He said "I am lost. We go. He met "Bob" there. Then he left. It was "good" so.'
    assert len(ends(text)) == 5


def test_a_quotation_of_many_sentences_is_no_sentence() -> None:
    assert len(ends('"' + "The king went out to the hills. " * 30 + '" They left.')) > 25


@pytest.mark.parametrize(
    "unit",
    [
        "The fox ran away. ",
        "我喜欢读书。",
        '"I am. ',
        "“Abc def. ",
        "abc",
        ". ",
        " ",
        "ก ",
        "(a.",
        "a\n",
    ],
)
def test_time_grows_with_the_length_only(unit: str) -> None:
    text = unit * (200_000 // len(unit))
    started = time.process_time()
    found = ends(text)
    assert (
        time.process_time() - started < 4
    )  # sentencex alone takes over ten seconds on some of these
    assert found[-1] == len(text)


def test_pieces_change_no_end() -> None:
    sentence = "The quick brown fox jumps over the lazy dog number {}."
    expected = [sentence.format(i) for i in range(3 * PIECE_CHARACTERS // len(sentence))]
    assert stripped(" ".join(expected)) == expected


@pytest.mark.parametrize("shift", range(0, 24, 2))
def test_a_cut_between_pieces_makes_no_end(shift: int) -> None:
    first, sentence = "A" * shift + "fter that.", "He met Dr. Smith there."
    expected = [first, *[sentence] * (3 * PIECE_CHARACTERS // len(sentence))]
    assert stripped(" ".join(expected)) == expected


def test_a_sentence_longer_than_a_piece_is_whole() -> None:
    long = "Word " * PIECE_CHARACTERS + "end."
    assert stripped(f"It begins. {long} Then it ends.")[-1] == "Then it ends."
    assert len(ends(f"It begins. {long} Then it ends.")) == 3


mixed = st.lists(
    st.sampled_from(
        ["He left. ", "Он ушёл. ", "我走了。", '"Why?" ', "ไป ", "(So it is.) ", "vol. 3", "Lt. "]
    )
    | awkward,
    max_size=12,
).map("".join)


def one_by_one(paragraphs: list[str]) -> list[int]:
    """The inner ends of paragraphs, each asked for alone."""
    inner = {paragraph: ends(paragraph)[:-1] for paragraph in set(paragraphs)}
    bases = accumulate(map(len, paragraphs), initial=0)
    return [
        base + end for base, text in zip(bases, paragraphs, strict=False) for end in inner[text]
    ]


@settings(max_examples=30)
@given(st.lists(mixed, max_size=8))
def test_an_end_depends_on_its_paragraph_alone(paragraphs: list[str]) -> None:
    assert inner_ends(paragraphs).tolist() == one_by_one(paragraphs)


def test_batches_and_pieces_change_no_end() -> None:
    short = ['He said "no." Then he left.', "Он ушёл. Она тоже.", "Вот г. Москва.", "x"]
    long = ["The quick fox (it was red) jumped over no. 5. " * 400, "我喜欢读书。" * 3000]
    paragraphs = [*short * 50, *long, *short * 2500]
    assert inner_ends(paragraphs).tolist() == one_by_one(paragraphs)
    assert inner_ends([]).tolist() == inner_ends(["", ""]).tolist() == []
