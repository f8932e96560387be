"""Whatever is broken, the extraction ends, and leaves no markup."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from data_prep.wikitext.extraction import extract
from data_prep.wikitext.names import Names
from tests.data_prep.wikitext.markup import NESTINGS, PROSE, UNITS

WHOLE = [
    "{{convert|5|km|mi}}", "{{lang-fr|mot}}", "{{zh|c=字|p=zì}}", "{{nihongo|A|字|ji}}",
    "{{val|1|e=3}}",
    "{{IPAc-en|l|æ|b}}", "{{birth date|1879|3|14}}", "{{cite book|title=A}}", "{{sfn|A|1999|p=1}}",
    "{{quote|A word.}}", "[[File:a.jpg|thumb|A [[b]] c.]]", "[[Kategorie:A]]", "[[fr:A]]", "<br/>",
    "<ref name=a />", "<ref>A [[b]].</ref>", "<math>x^{2}</math>", "&nbsp;", "[http://a.org b]",
    "{|\n| a || b\n|}\n", "\n== A ==\n", "<gallery>\na.jpg|A b.\n</gallery>", "{{{1|a}}}",
    "-{zh-hans:计; zh-hant:計}-", "{{#if:a|b|c}}", "{{lc:A}}", "__TOC__", "<nowiki>x</nowiki>",
]  # fmt: skip
PIECES = [
    *(unit for unit in UNITS if "frac{" not in unit), *WHOLE,
    *(end for _, end in NESTINGS if end not in "{}"), "|", "a word ", "\n\n", ".",
    "|}", "-->", "</ref>", "\ud800", "\x00", "\u202e", "字。", "ab ",
]  # fmt: skip
MARKUP = st.lists(st.sampled_from(PIECES), max_size=40).map("".join)
REMAINS = re.compile(
    r"\{\{|\}\}|\{\||\|\}|-\{|\}-|\[\[|\]\]|</?(?:ref|table|div|nowiki)\b|<!--|[\ufdd0-\ufdef]|  |\A\||https?://|"
    r"\bthumb\b|(?i:\bFile:|Kategorie:)"
)
LANGUAGES = st.sampled_from(["", "en", "de", "fr", "zh", "ja", "ru", "sw"])


@settings(max_examples=100)
@given(MARKUP, LANGUAGES)
def test_no_markup_is_left_whatever_is_broken(markup: str, language: str) -> None:
    for paragraph in extract(f"{PROSE} {markup}\n\n{PROSE}", Names.of_wiki(language=language)):
        assert not REMAINS.search(paragraph), paragraph
        assert paragraph == " ".join(paragraph.split())


@given(st.text(alphabet="{}[]|<>='-&;:*#!/ \nab1.", max_size=200))
def test_any_text_ends(text: str) -> None:
    for paragraph in extract(text):
        assert paragraph.strip() == paragraph != ""


@given(MARKUP)
def test_what_stands_before_broken_markup_stays(markup: str) -> None:
    assert extract(f"{PROSE}\n\n{markup}")[0].startswith(PROSE)
