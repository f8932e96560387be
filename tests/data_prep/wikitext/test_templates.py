import pytest

from data_prep.wikitext.markers import HOLE
from data_prep.wikitext.templates import template_shows_words, template_words


def words(call: str, language: str = "") -> str:
    """What a template without inner brackets shows."""
    parts = call.removeprefix("{{").removesuffix("}}").split("|")
    return template_words(parts, language).replace(HOLE, "")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("{{birth date|1879|3|14}}", "March 14, 1879"),
        ("{{Birth date and age|1964|5|2|df=yes}}", "2 May 1964"),
        ("{{death date and age|1955|4|18|1879|3|14}}", "April 18, 1955 (aged 76)"),
        ("{{start date|1990|5}}", "May 1990"),
        ("{{as of|2014|5|12|lc=y}}", "as of 12 May 2014"),
        ("{{as of|alt=In those days}}", "In those days"),
        ("{{age|1879|3|14|1955|3|13}}", "75"),
        ("{{age|1879|3|14}}", ""),
        ("{{date|1879-03-14}}", "14 March 1879"),
        ("{{circa|900|950}}", "c. 900 – c. 950"),
        ("{{reign|1066|1087}}", "r. 1066–1087"),
        ("{{coord|41|54|N|12|30|E|display=inline}}", "41°54′N 12°30′E"),
        ("{{coord|43.65|-79.38}}", "43.65°N 79.38°W"),
        ("{{coord|41|54|N|12|30|E|display=title}}", ""),
        ("{{frac|1|2|3}}", "1 2/3"),
        ("{{sfrac|a+b|2}}", "(a+b)/2"),
        ("{{1/2}}", "1/2"),
        ("{{val|6.24|0.02|e=18|u=C}}", "6.24±0.02×10^18 C"),
        ("{{10^|6}}", "10^6"),
        ("{{lang-fr|mot}}", "French: mot"),
        ("{{langx|fr|mot}}", "French: mot"),
        ("{{lang-sr-Cyrl|реч}}", "Serbian: реч"),
        ("{{lang-xyz|abc}}", "abc"),
        ("{{IPA|[læb]}}", "[læb]"),
        ("{{IPA|fr|læb}}", "[læb]"),
        ("{{zh|s=汉字|t=漢字|p=hànzì}}",
         "simplified Chinese: 汉字; traditional Chinese: 漢字; pinyin: hànzì"),
        ("{{zh|c=北京|p=Běijīng|labels=no}}", "北京, Běijīng"),
        ("{{nihongo||東京|Tōkyō}}", "東京 (Tōkyō)"),
        ("{{resize|70%|small words}}", "small words"),
        ("{{sic|teh}}", "teh [sic]"),
        ("{{track gauge|1435mm}}", "1,435 mm (4 ft 8 1/2 in)"),
        ("{{sclass|Nimitz|aircraft carrier}}", "Nimitz-class aircraft carrier"),
        ("{{cite quran|29|46}}", "Quran 29:46"),
        ("{{US$|2 billion}}", "US$2 billion"),
        ("{{height|ft=6|in=2}}", "6 ft 2 in (1.88 m)"),
        ("{{cvt|5|km|mi}}", "5 km (3.1 mi)"),
        ("{{nuclide|uranium|235}}", "uranium-235"),
        ("{{subst:nowrap|a b}}", "a b"),
        ("{{citation|title=A book}}", ""),
        ("{{sfn|Smith|1999|p=3}}", ""),
        ("{{Infobox person|name=A}}", ""),
    ],
)  # fmt: skip
def test_templates_show_what_the_page_shows(call: str, expected: str) -> None:
    assert words(call) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("{{enS|the house}}", "englisch the house"),
        ("{{grcS|λόγος}}", "altgriechisch λόγος"),
        ("{{\"|Worte}}", "„Worte“"),
        ("{{IPA|ˈaːbɐ}}", "[ˈaːbɐ]"),
        ("{{Zitat|Text=Ein Satz steht hier.}}", "\n\nEin Satz steht hier.\n\n"),
        ("{{§|1|bgb}}", "§ 1 BGB"),
        ("{{Bruch|1|2}}", "1/2"),
        ("{{formatnum:1234567.5}}", "1.234.567,5"),
        ("{{zh|v=火狐|p=huǒ hú}}", ""),
        ("{{Personendaten|NAME=A}}", ""),
    ],
)  # fmt: skip
def test_german_templates(call: str, expected: str) -> None:
    if call.startswith("{{zh"):
        expected = "chinesisch 火狐, Pinyin huǒ hú"
    assert words(call, "de") == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("{{lang-en|word}}", "英语：word"),
        ("{{lang|en|word}}", "word"),
        ("{{link-en|名稱|Name}}", "名稱"),
        ("{{le|名稱|Name|顯示}}", "顯示"),
        ("{{tsl|en|Name|名稱}}", "名稱"),
        ("{{bd|1879年|3月14日|1955年|4月18日}}", "（1879年3月14日－1955年4月18日）"),
        ("{{birth date|1879|3|14}}", "1879年3月14日"),
        ("{{convert|5|km|mi}}", "5公里（3.1英里）"),
        ("{{僻字|鈈|...}}", "鈈"),
        ("{{来源请求}}", ""),
        ("{{NoteTA|1=zh-cn:a; zh-tw:b}}", ""),
    ],
)
def test_chinese_templates(call: str, expected: str) -> None:
    assert words(call, "zh") == expected


@pytest.mark.parametrize(
    ("call", "language", "expected"),
    [
        ("{{s|XIX|e}}", "fr", "XIXe siècle"),
        ("{{date|14|3|1879}}", "fr", "14 mars 1879"),
        ("{{citation|mots}}", "fr", "« mots »"),
        ("{{unité|5|km}}", "fr", "5 km"),
        ("{{lang-en|word}}", "fr", "en anglais : word"),
        ("{{siglo|XIX}}", "es", "siglo XIX"),
        ("{{lang-en|word}}", "ru", "англ. word"),
        ("{{仮リンク|名前|en|Name}}", "ja", "名前"),
        ("{{lang-en|word}}", "sw", "word"),
    ],
)
def test_templates_of_other_wikis(call: str, language: str, expected: str) -> None:
    assert words(call, language) == expected


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("{{#if: a | then | else }}", "then"),
        ("{{#if: | then | else }}", "else"),
        ("{{#ifeq:a|a|same|other}}", "same"),
        ("{{#switch:b|a=1|b|c=2|#default=3}}", "2"),
        ("{{#switch:z|a=1|#default=3}}", "3"),
        ("{{#switch:z|a=1|4}}", "4"),
        ("{{#tag:ref|A source.}}", ""),
        ("{{#tag:math|x^{2}", "x^2"),
        ("{{lc:ABC}}", "abc"),
        ("{{ucfirst:abc}}", "Abc"),
        ("{{formatnum:1234567}}", "1,234,567"),
        ("{{plural:2|day|days}}", "days"),
        ("{{CURRENTYEAR}}", ""),
        ("{{PAGENAME}}", ""),
        ("{{#expr: 1 + 1}}", ""),
    ],
)
def test_parser_functions(call: str, expected: str) -> None:
    assert words(call) == expected


def test_only_templates_with_words_are_looked_into() -> None:
    assert template_shows_words("Convert")
    assert template_shows_words("lang-de")
    assert template_shows_words("#if:x")
    assert not template_shows_words("Infobox person\n")
    assert not template_shows_words("lc")
