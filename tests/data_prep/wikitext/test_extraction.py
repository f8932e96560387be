import re
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from data_prep.wikitext.extraction import extract
from data_prep.wikitext.names import Names

MAX_SECONDS = 5
"""Linear steps take tenths of a second on such pages, quadratic ones tens of seconds."""

PROSE = "All human beings are born free and equal in dignity and rights."


def only(wikitext: str) -> str:
    """The one paragraph of a page."""
    found = extract(wikitext)
    assert len(found) == 1, found
    return found[0]


@pytest.mark.parametrize(
    ("wikitext", "expected"),
    [
        ("The '''Moon''' is the ''only'' moon.", "The Moon is the only moon."),
        ("It is [[Rome|the city]] of [[hill]]s here.", "It is the city of hills here."),
        ("Said [http://a.org/x?y=1 the paper] of today.", "Said the paper of today."),
        ("Seen (at [http://a.org]) in the town of http://b.org/q, often.",
         "Seen (at) in the town of, often."),
        ("Fish &amp; chips&nbsp;&mdash; &#8220;good&#x201D; food.", "Fish & chips — “good” food."),
        ("It was so.<ref>Smith, p. 3</ref> Then<ref name=a /> it went.",
         "It was so. Then it went."),
        ("It was here <ref>A</ref>, and there.", "It was here, and there."),
        ("They saw it{{citation needed|date=May 2015}} as a sign.", "They saw it as a sign."),
        ("Rome ({{lang-it|Roma}}; {{IPA-it|ˈroːma|pron}}) is old.",
         "Rome (Italian: Roma; [ˈroːma]) is old."),
        ("Rome ({{coord|1|2}}; {{audio|x.ogg}}) is a very old city.", "Rome is a very old city."),
        ("Rome ({{coord|1|2}}; born in winter) is old.", "Rome (born in winter) is old."),
        ("It is {{convert|1300|mi|km}} long and {{convert|6|ft|2|in|m}} wide.",
         "It is 1300 mi long and 6 ft 2 in wide."),
        ("It is {{convert|5|to|10|km2|sqmi|0|abbr=on}} in all here.",
         "It is 5 to 10 km² in all here."),
        ("He wrote {{lang|grc|ἀναρχία}} and {{nowrap|[[Pope Clement IV]]}}.",
         "He wrote ἀναρχία and Pope Clement IV."),
        ("Some {{val|6.241|e=18|u=C}} and {{frac|1|2}} of {{chem|H|2|O}} are.",
         "Some 6.241×10^18 C and 1/2 of H2O are."),
        ("She sailed {{USS|Hornet|CV-12|6}} and {{ship|HMS|Victory}} there.",
         "She sailed USS Hornet and HMS Victory there."),
        ("Built {{as of|2014|lc=y}} ({{circa|900}}) by {{nihongo|Tokyo|東京|Tōkyō}} men.",
         "Built as of 2014 (c. 900) by Tokyo (東京, Tōkyō) men."),
        ("The word {{IPAc-en|ˈ|æ|l|b|ə}} is {{respell|AL|buh}} in speech.",
         "The word /ˈælbə/ is AL-buh in speech."),
        ("About 10<sup>6</sup> m<sup>2</sup>, the 19<sup>th</sup> of H<sub>2</sub>O.",
         "About 10^6 m2, the 19th of H2O."),
        (r"Where <math>\alpha_1 \leq x^{2}</math> holds for all of them.",
         "Where α_1 ≤ x^2 holds for all of them."),
        ("He says <nowiki>[[not a link]] or ''this''</nowiki> in full.",
         "He says [[not a link]] or ''this'' in full."),
        ("In ''Time'''s own view it is all the same.", "In Time's own view it is all the same."),
        ("Pour l'''amour'' et tout le reste du monde.", "Pour l'amour et tout le reste du monde."),
        ("One<br/>two<br>three and <span style='x'>four</span> more.",
         "One two three and four more."),
        ("Das ist {{enS|the house}} im alten Haus.", "Das ist englisch: the house im alten Haus."),
        ("这是-{zh-hans:计算机; zh-hant:電腦}-的历史和现在的情况。",
         "这是计算机的历史和现在的情况。"),
        ("The [[:Category:Art|art pages]] and [[wikt:go|go]] are here now.",
         "The art pages and go are here now."),
    ],
)  # fmt: skip
def test_a_sentence_keeps_its_words(wikitext: str, expected: str) -> None:
    assert only(wikitext) == expected


@pytest.mark.parametrize(
    "markup",
    [
        "{{Infobox\n| a = {{b|c}}\n| d = [[File:x.jpg|e]]\n}}",
        "{|class=x\n|-\n! head\n| cell {{a|b}}\n{|\n| inner\n|}\n|}",
        "[[File:a.jpg|thumb|300px|A ''caption'' with [[a link|link]] and {{a|b}}.]]",
        "[[Datei:a.jpg|mini|Ein langer Satz steht hier drin.]]",
        "[[Файл:a.jpg|мини|Длинная подпись стоит здесь.]]",
        "[[Category:People of the world]]\n[[Kategorie:Leute]]\n[[fr:Monde]]",
        "<!-- A comment that is a sentence with words. -->",
        "<gallery>\na.jpg|A caption that is a sentence in a gallery.\n</gallery>",
        "<table><tr><td>A cell with words in it, a sentence.<table></table></td></tr></table>",
        "<source lang=c>int main() { return 0; } /* a sentence stands here. */</source>",
        "== Heading of some words ==",
        "----\n__NOTOC__",
        ":''For other uses of the word, see [[Other (word)]].''",
        "* [[Name]]\n* Short item\n# Number",
        "== References ==\n* Smith, John wrote this long sentence about it.\n",
        "<ref>Never closed, a sentence of a source here.",
        "{{never closed|a sentence of a box here.",
        "[[File:never.jpg|a sentence of a caption here.",
    ],
)
def test_what_is_no_prose_leaves_nothing(markup: str) -> None:
    assert extract(f"{PROSE}\n\n{markup}")[:1] == [PROSE]
    assert extract(f"{PROSE}\n\n{markup}")[1:] == []
    if not markup.startswith("== R"):
        assert extract(f"{PROSE}\n{markup}\n{PROSE}") in ([PROSE, PROSE], [f"{PROSE} {PROSE}"])


@pytest.mark.parametrize(
    "broken",
    ["{{a|b", "{|\n| cell", "[[link", "[[File:x.jpg|thumb|text",
    "<ref>source", "<table>", "<math>x", "}}", "]]"],
)  # fmt: skip
def test_what_is_never_closed_hides_no_later_paragraph(broken: str) -> None:
    assert extract(f"{broken}\n\n{PROSE}\n\n{PROSE}")[-2:] == [PROSE, PROSE]


def test_a_caption_goes_on_over_an_empty_line_and_a_link_does_not() -> None:
    assert extract(f"[[Category:Rome\n\n{PROSE}\n\n{PROSE}]]") == [PROSE, PROSE]
    assert extract(f"[[File:a.jpg|thumb|{PROSE}\n\n{PROSE}]]\n\n{PROSE}") == [PROSE]


def test_sections_of_links_end_where_the_next_section_begins() -> None:
    links = f"== External links ==\n{PROSE}\n=== More ===\n{PROSE}"
    page = f"{links}\n== Life ==\nHe lived for a long time."
    assert only(page) == "He lived for a long time."


def test_lists_keep_their_sentences() -> None:
    book = "* Smith (1999). The long title of a book. ISBN 123."
    page = f"* {PROSE}\n* [[Alpha]]\n# {PROSE}\n*: {PROSE}\n{book}"
    assert extract(page) == [PROSE, PROSE, PROSE]


def test_lines_of_a_paragraph_are_joined_and_an_empty_line_parts() -> None:
    assert extract(f"{PROSE}\n{PROSE}\n\n{PROSE}") == [f"{PROSE} {PROSE}", PROSE]


def test_a_redirect_has_no_paragraph() -> None:
    assert extract("#REDIRECT [[Other page]]\nThis is a sentence behind it.") == []
    assert extract("#WEITERLEITUNG [[Andere Seite]]") == []


def test_names_of_the_dump_are_known() -> None:
    names = Names.of_wiki(files=["Vaizdinys"], categories=["Rūšis"])
    page = f"[[Vaizdinys:a.jpg|A sentence that stands in a caption.]]\n{PROSE}\n[[Rūšis:All]]"
    assert extract(page, names) == [PROSE]


UNITS = [
    "{{a|", "{{", "[[", "[[a|", "[[File:a|", "{|\n",
    "\n{|", "\n|}", "<ref>", "<ref", "<!--", "<table>",
    "<math>", "<nowiki>", "<gallery>\n", "[http://a ", "[http:",
    "}}", "]]", "''", "'''", "{{{", "[[a|{{b|",
    "{{nowrap|", "{{lang|fr|", "{{convert|1|", "-{", "( ",
    "( {{a}} ", "{{a}} ,", "\n* ", " \n", "&", "|a=",
    "=", "\n=", "[[a\n\n", "[[File:a\n\n", "1<sup>2", r"<math>\frac{", ", ", "http://", "__A",
]  # fmt: skip


@pytest.mark.parametrize("unit", UNITS)
def test_no_page_can_stall_it(unit: str) -> None:
    page = f"{PROSE} {unit * 20_000}"
    started = time.process_time()
    extract(page)
    assert time.process_time() - started < MAX_SECONDS


@pytest.mark.parametrize(
    ("opening", "closing"),
    [("{{nowrap|", "}}"), ("[[a|", "]]"), ("[[", "]]"), ("[[File:a.jpg|thumb|", "]]"),
     ("\n{|\n|", "\n|}"), ("<table><tr>", "</table>"), ("{{nowrap|[[a|", "]]}}"), ("{{a|", "}}")],
)  # fmt: skip
def test_no_nesting_can_stall_it(opening: str, closing: str) -> None:
    page = f"{PROSE} {opening * 20_000}x{closing * 20_000}"
    started = time.process_time()
    extract(page)
    assert time.process_time() - started < MAX_SECONDS


MARKUP = st.lists(
    st.sampled_from([*UNITS, "|", "a word ", "]]", "}}", "|}",
    "</ref>", "-->", "</table>", "\n\n", "."]),
    max_size=40,
).map("".join)  # fmt: skip


REMAINS = re.compile(r"\{\{|\}\}|\[\[|\]\]|<ref|<table|<!--|[\ufdd0-\ufdef]|  |^\||\bpx\b")


@given(MARKUP)
def test_no_markup_is_left_whatever_is_broken(markup: str) -> None:
    for paragraph in extract(f"{PROSE} {markup}\n\n{PROSE}"):
        assert not REMAINS.search(paragraph)
        assert paragraph == paragraph.strip()
        assert "\n" not in paragraph
