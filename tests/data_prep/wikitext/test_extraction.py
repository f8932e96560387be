import pytest

from data_prep.wikitext.extraction import extract
from data_prep.wikitext.names import Names
from tests.data_prep.wikitext.markup import PROSE


def only(wikitext: str, language: str = "") -> str:
    """The one paragraph of a page."""
    found = extract(wikitext, Names.of_wiki(language=language))
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
        ("Rome ({{anchor|1}}; {{audio|x.ogg}}) is a very old city.", "Rome is a very old city."),
        ("Rome ({{anchor|1}}; born in winter) is old.", "Rome (born in winter) is old."),
        ("It is {{convert|1300|mi|km}} long and {{convert|6|ft|2|in|m}} wide.",
         "It is 1,300 miles (2,100 km) long and 6 feet 2 inches (1.88 m) wide."),
        ("It is {{convert|5|to|10|km2|sqmi|0|abbr=on}} in all here.",
         "It is 5 to 10 km² (2 to 4 sq mi) in all here."),
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
        ("Das ist {{enS|the house}} im alten Haus.", "Das ist englisch the house im alten Haus."),
        ("这是-{zh-hans:计算机; zh-hant:電腦}-的历史和现在的情况。",
         "这是计算机的历史和现在的情况。"),
        ("The ( [[Pashto]] |word) is a [[File:a.jpg|b|c]]name of old.",
         "The (Pashto word) is a name of old."),
        ("They opened [http://www.Old-Shop.org www.Old-Shop.org/en], a shop for tea.",
         "They opened Old-Shop.org, a shop for tea."),
        ("The town ({{lang-rus|Псков|p=pskof}}; born 1945– ) is at 4 $ .",
         "The town (Russian: Псков; born 1945–) is at 4 $."),
        ("An island.{{{note|}}} Its {{{name|shore}}} is of {{{{{x}}}|of}} sand everywhere.",
         "An island. Its shore is of sand everywhere."),
        ("Some {{{nowrap|words}} are {{nowrap|there}}} now, as was said.",
         "Some words are there now, as was said."),
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


@pytest.mark.parametrize("name", ["nowiki", "math", "chem"])
def test_what_opens_again_before_its_end_was_never_closed(name: str) -> None:
    page = f"{PROSE} <{name}>[[Rome|The]] [[word]] is <{name}>x</{name}> here."
    assert only(page) == f"{PROSE} The word is x here."


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


def test_a_term_stands_before_its_definition() -> None:
    page = "; Moor : a wide land without trees, where heather grows.\n; Fen\n: a low and wet land."
    assert extract(f"; Bog\n{PROSE}\n: {PROSE}") == [PROSE, PROSE]
    assert extract(f"{page} It is rich in plants of many kinds.") == [
        "Moor: a wide land without trees, where heather grows.",
        "Fen: a low and wet land. It is rich in plants of many kinds.",
    ]


def test_a_long_item_without_an_end_is_kept_and_a_list_of_names_is_not() -> None:
    words = "the ability of a person to walk for many hours without any rest"
    names = "John Smith, Mary Brown, Peter Jones, Kate White and Paul Black of York"
    assert extract(f"* {words}\n* {names}") == [words]


def test_a_list_of_works_is_left_out_and_the_prose_about_them_is_not() -> None:
    page = f"== Filmography ==\n{PROSE}\n* {PROSE}\n== References ==\n{PROSE}\n"
    assert extract(page) == [PROSE]


def test_code_behind_a_space_is_left_out() -> None:
    assert extract(f"{PROSE}\n\n total = price + tax for each of them.\n\n{PROSE}") == [PROSE] * 2


def test_a_block_quotation_is_a_paragraph_of_its_own() -> None:
    for page in (
        f"He said:<blockquote>{PROSE}</blockquote>",
        f"He said:{{{{quote|text={PROSE}|author=A. B.}}}}",
        f"He said:\n<div>\n{PROSE}\n</div>",
    ):
        assert extract(page) == [PROSE]


def test_entries_that_are_sentences_are_items() -> None:
    page = f"{{{{ordered list|start=2|{PROSE} It is so, they say.|{PROSE}}}}}"
    assert extract(page) == [f"{PROSE} It is so, they say.", PROSE]


def test_tags_that_were_escaped_once_too_often_are_tags() -> None:
    page = f"{PROSE}&lt;ref name=&quot;a&quot;&gt;A source.&lt;/ref&gt; It is so."
    assert only(page) == f"{PROSE} It is so."


def test_what_no_line_can_show_leaves_a_sentence_in_shape() -> None:
    formula = "+".join(f"x_{{{i}}}" for i in range(100))
    assert only(f"The sum <math>{formula}</math> grows with every new term.") == (
        "The sum … grows with every new term."
    )


@pytest.mark.parametrize(
    "characters", ["\ud800", "\x00", "\ufdd0", "\u202e", "אבג ", "ไทย ", "\U0001f469\u200d"]
)
def test_odd_characters_pass(characters: str) -> None:
    page = f"{characters}{PROSE}{characters} ''{characters}'' {PROSE}"
    assert only(page).count(PROSE) == 2


GERMAN = """{{Infobox Fluss|NAME=Elme|LÄNGE={{Anzeiger|12}}}}
Die '''Elme''' ({{enS|Elm River}}; {{IPA|ˈɛlmə}}) ist ein {{Höhe|420}} hoch entspringender
Fluss in [[Datei:Elme.jpg|mini|Ein Satz steht hier.]][[Hessen]].<ref>{{Literatur|Titel=A}}</ref>
Er ist {{"|ruhig}} und 12&nbsp;km lang{{Belege fehlen}}, sagt {{nowrap|A. Bach}}.

== Einzelnachweise ==
<references />
{{Normdaten|TYP=g}}
[[Kategorie:Fluss in Hessen]]"""

CHINESE = """{{NoteTA|1=zh-cn:信息;zh-tw:資訊}}{{Infobox person|name=甲}}
'''王小明'''{{bd|1950年|3月14日|2001年|4月18日}}（{{lang-en|Wang Xiaoming}}），[[中國|中国]]作家，
身高{{convert|180|cm|ftin}}，住在{{link-en|河邊村|Riverside}}{{来源请求}}。[[File:a.jpg|thumb|图说。]]
他写过-{zh-hans:计算机;zh-hant:電腦}-的历史<ref>书。</ref>，也写{{tsl|en|Poem|诗}}。

== 参考文献 ==
{{Reflist}}
[[分类:作家]]
__无目录__"""


def test_a_german_page_has_no_holes() -> None:
    assert only(GERMAN, "de") == (
        "Die Elme (englisch Elm River; [ˈɛlmə]) ist ein 420 m hoch entspringender Fluss in Hessen. "
        "Er ist „ruhig“ und 12 km lang, sagt A. Bach."
    )


def test_a_chinese_page_has_no_holes() -> None:
    assert only(CHINESE, "zh").replace(" ", "") == (
        "王小明（1950年3月14日－2001年4月18日）（英语：WangXiaoming），中国作家，"
        "身高180厘米（5ft11in），住在河邊村。他写过计算机的历史，也写诗。"
    )
