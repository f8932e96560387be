"""The templates that stand inside sentences, by name, and the words each of them shows.

A dump holds calls, not what a wiki's own templates make of them. Most calls make boxes, notes and
tables, and are dropped; the names here are the ones whose loss would leave a hole in a sentence.
"""

from collections.abc import Callable

from data_prep.wikitext.arguments import Arguments
from data_prep.wikitext.measures import measure_words, unit_words
from data_prep.wikitext.tables import word_list

Rule = Callable[[Arguments], str]


def _constant(words: str) -> Rule:
    return lambda _: words


def first(given: Arguments) -> str:
    """The first argument."""
    return given.at(0) or given.named.get("text", "")


def _second(given: Arguments) -> str:
    return given.at(1) or given.named.get("text", "")


def _last(given: Arguments) -> str:
    return given.positional[-1] if given.positional else ""


def _spaced(given: Arguments) -> str:
    return " ".join(filter(None, given.positional))


def _joined(given: Arguments) -> str:
    return "".join(given.positional)


def _around(before: str, after: str = "") -> Rule:
    """The first argument between two constants."""
    return lambda given: f"{before}{given.at(0)}{after}" if given.at(0) else ""


def in_language(label: str) -> Rule:
    """Words of another language behind its name, as `{{lang-fr|...}}` shows them."""

    def rule(given: Arguments) -> str:
        words = first(given)
        if romanised := given.at(1) if given.at(1)[:1].isalpha() else "":
            words = f"{words}, {romanised}"
        return f"{label}: {words}" if label and words else words

    return rule


def _foreign(given: Arguments) -> str:
    """`{{lang|fr|mots}}`: the words stand behind the language's code."""
    return given.at(1) or given.named.get("text", "")


def _quotation(given: Arguments) -> str:
    """A block quotation: a paragraph of its own."""
    words = given.named.get("text") or given.named.get("quote") or given.at(0)
    return f"\n\n{words}\n\n" if words else ""


def _fraction(given: Arguments) -> str:
    """`{{frac|1|2|3}}` is 1 2/3, `{{frac|2|3}}` is 2/3 and `{{frac|3}}` is 1/3."""
    whole, over, under = (
        ([""] * 3 + ["1"] + given.positional)[-3:] if given.positional else [""] * 3
    )
    if len(given.positional) < 3:
        whole = ""
    return f"{whole} {over}/{under}".strip() if under else ""


def _value(given: Arguments) -> str:
    """`{{val|6.241|e=18|u=C}}` is 6.241×10^18 C."""
    number = given.at(0)
    if error := given.at(1):
        number = f"{number}±{error}"
    if exponent := given.named.get("e", ""):
        number = f"{number}×10^{exponent}"
    unit = given.named.get("u") or given.named.get("ul") or given.named.get("up") or ""
    return f"{number} {unit}".strip()


def _as_of(given: Arguments) -> str:
    words = given.named.get("alt") or " ".join(filter(None, ["As of", *reversed(given.positional)]))
    return words[:1].lower() + words[1:] if given.named.get("lc") else words


def _circa(given: Arguments) -> str:
    return "c. " + " – ".join(filter(None, given.positional))


def _japanese(given: Arguments) -> str:
    """`{{nihongo|English|kanji|romaji}}`."""
    english, *others = [*given.positional[:4], "", ""][:4]
    inside = ", ".join(filter(None, others))
    return f"{english} ({inside})" if english and inside else english or inside


def _pronunciation(given: Arguments) -> str:
    """`{{IPAc-en|l|æ|b}}` is /læb/; codes of dialects and sound files are no sounds."""
    sounds = [part for part in given.positional if part not in _NO_SOUNDS and "." not in part[1:]]
    words = "".join(sounds).replace("_", " ").strip()
    return f"/{words}/" if words else ""


def _respelling(given: Arguments) -> str:
    """`{{respell|ASS|kee}}` is ASS-kee."""
    return "-".join(filter(None, given.positional)).replace("-_-", " ")


def _spaced_pair(given: Arguments) -> str:
    """`{{ship|HMS|Victory}}` and `{{sclass|Nimitz|aircraft carrier}}`."""
    return f"{given.at(0)} {given.at(1)}".strip()


def _measure(given: Arguments) -> str:
    return measure_words(given.positional)


def _money(sign: str) -> Rule:
    return lambda given: f"{sign}{given.at(0)}" if given.at(0) else sign


def _old_style(given: Arguments) -> str:
    """`{{OldStyleDate|February 2|1905|January 20}}`."""
    old = f" (O.S. {given.at(2)})" if given.at(2) else ""
    return f"{given.at(0)} {given.at(1)}".strip() + old


def _verse(given: Arguments) -> str:
    """`{{bibleverse||Mark|3:25|KJV}}` is Mark 3:25."""
    return " ".join([part for part in given.positional if part][:2])


def _list(given: Arguments) -> str:
    """Entries in a line; entries that are a list of their own stay one."""
    if any(part.startswith("*") for part in given.positional):
        return "\n" + "\n".join(given.positional) + "\n"
    return ", ".join(filter(None, given.positional))


def _century(given: Arguments) -> str:
    return f"{given.at(0)}{given.at(1) or 'e'} siècle" if given.at(0) else ""


def _reading(given: Arguments) -> str:
    """Japanese and Chinese: a word with its reading in brackets."""
    return f"{given.at(0)}({given.at(1)})" if given.at(1) else given.at(0)


def _other_wiki(given: Arguments) -> str:
    """`{{ill|text|de|target}}`, or with the code first `{{ill|de|text|target}}`."""
    codefirst = len(given.at(0)) <= 3 and given.at(0).islower()
    return given.named.get("lt") or given.at(1 if codefirst else 0)


def _music(given: Arguments) -> str:
    """`B{{music|flat}}` is B♭; other signs stay as they were named."""
    signs = {"flat": "♭", "sharp": "♯", "natural": "♮", "b": "♭", "#": "♯"}
    return signs.get(given.at(0), given.at(0))


def _density(given: Arguments) -> str:
    """`{{pop density|3645257|640081.87|km2}}` is 5.7/km²."""
    try:
        people, area = (float(given.at(index).replace(",", "")) for index in (0, 1))
        return f"{people / area:.1f}/{unit_words(given.at(2))}"
    except (ValueError, ZeroDivisionError):
        return ""


def _author(given: Arguments) -> str:
    """`{{harvtxt|Boolos|Jeffrey|1974}}` is Boolos & Jeffrey (1974)."""
    *authors, year = given.positional or [""]
    return f"{' & '.join(authors)} ({year})" if authors else ""


_SHIP_PREFIXES = word_list(
    "uss hms ss rms hmas hmcs hmnzs usns usat uscgc ins sms css hnlms hdms hswms mv"
)
_NO_SOUNDS = frozenset(
    word_list("UK US AU CA NZ IE GB uk us au ca lang pron also icon local audio or")
)


def bracketed(given: Arguments) -> str:
    """`{{IPA-fr|kʁisteva|lang}}` is [kʁisteva]."""
    return f"[{given.at(0).strip('[]/')}]" if given.at(0) else ""


def _chinese(given: Arguments) -> str:
    """`{{zh|c=北京|p=Běijīng}}`: characters, then how they are read."""
    keys = ("v", "c", "s", "t", "p")
    shown = [given.named[key] for key in keys if given.named.get(key)]
    return ", ".join(dict.fromkeys(shown)) or given.at(0)


def _table() -> dict[str, Rule]:
    """Every rule by the names it answers to, written as `name, name` in lower case."""
    rules: dict[str, Rule] = {}
    for names, rule in _NAMED_RULES:
        rules.update(dict.fromkeys((name.strip() for name in names.split(",")), rule))
    return rules


_NAMED_RULES: list[tuple[str, Rule]] = [
    (("nowrap, nobr, nobreak, nobold, small, smaller, big, large, larger, huge, midsize, resize, "
     "unicode, polytonic, linktext, lsj, abbr, tooltip, abbrv, math, mvar, var, em, strong, bold, "
     "italic, italics, angbr, angle bracket, vr, angbr ipa, key press, keypress, key, kbd, code, "
     "mono, center, centre, not a typo, notatypo, proper name, sc, smallcaps, small caps, smcaps, "
     "hebrew, arabic, nastaliq, naskh, ipa, ipaslink, ipablink, ipa link, api, sup, sub, su, "
     "overline, underline, strikethrough, format price, formatnum, railgauge, track gauge, flag, "
     "flagcountry, flagu, fb, pad, rtl, ltr, bidi, asiantitle, cyrl, grek, visible anchor, "
     "vanchor, lc, uc, lcfirst, ucfirst, nq, quoted, text, gloss, nombre, unité2, 黑体, 仮リンク, "
     "link-en, internal link helper/en, le, zy, nw, us patent, taxon italics, noitalic, "
     "no bold, nihongo2, jpn, sic, lang-mul, dropinitial, drop initial, script"), first),
    ("lang, rtl-lang, ltr-lang, langue, lang2, spell, wikt-lang, tsl, 语言", _foreign),
    ("transl, transliteration, translit, tlit", _last),
    ("color, colour, font color, fontcolor, background, hs", _second),
    (("quote, blockquote, cquote, rquote, quotation, quote box, zitat, citation bloc, bquote, "
     "cytat, cita, citazione, block quote, centered pull quote, pull quote, verse, poemquote, "
     "poem quote"), _quotation),
    ("frac, sfrac, fraction, bruch, tfrac", _fraction),
    ("val, value", _value),
    ("e, esp", _around("×10^")),
    ("as of, asof", _as_of),
    ("circa, c., ca., ca", _circa),
    ("nihongo, nihongo3, nihongo krt", _japanese),
    ("zh", _chinese),
    ("music", _music),
    ("pop density", _density),
    ("harvtxt, harvcoltxt, harvtxtcol", _author),
    ("ec number", _around("EC ")),
    ("ipac-en, ipac-pl, ipac-cmn, ipac-fr, ipac-ga", _pronunciation),
    ("respell, pronunciation respelling", _respelling),
    ("convert, cvt, converter, unité, unit", _measure),
    ("chem, chem2, ce, formel", _joined),
    ("us$, usd, us dollar", _money("US$")),
    ("a$, aud", _money("A$")),
    ("ca$, c$, cad", _money("C$")),
    ("£, gbp, pound sterling", _money("£")),
    ("€, euro, eur", _money("€")),
    ("¥, jpy, yen", _money("¥")),
    ("inr, indian rupee, ₹", _money("₹")),
    ("oldstyledate, osdate", _old_style),
    ("bibleref, bibleref2, bibleverse, bibelstelle", _verse),
    (("hlist, flatlist, plainlist, unbulleted list, ubl, plain list, columns-list, "
     "ordered list"), _list),
    ("s, siècle", _century),
    ("ruby, ruby-ja, 読み仮名, 読み仮名 ruby不使用, ふりがな, rubi", _reading),
    ("ill, interlanguage link, illm, ill2, interlanguage link multi", _other_wiki),
    ("date, jour, datum", _spaced),
    ("snd, spaced ndash, spaced en dash, spnd, sndash, snds, spndash, dash", _constant(" – ")),
    ("ndash, en dash, endash, –", _constant("–")),
    ("mdash, em dash, emdash, —", _constant("—")),
    ("mdashb, spaced mdash, spaced emdash, spaced em dash", _constant(" — ")),
    ("nbsp, space, spaces, thinsp, thin space, hsp, hair space, nnbsp", _constant(" ")),
    ("=, equals", _constant("=")),
    ("·, •, dot, middot, bull, bullet, ∙, interpunct", _constant(" · ")),
    ("' \", '\"", _constant("'\"")),
    ("\" ', \"'", _constant("\"'")),
    ("-\"", _constant("\"")),
    ("', -'", _constant("'")),
    ("'s", _constant("'s")),
    ("okina, hamza, ayin, ʻ", _constant("ʻ")),
    ("eqm", _constant("⇌")),
    ("ad", _constant("AD")),
    ("bc, bce", _constant("BC")),
    ("hydrogen", _constant("H")),
    ("carbon", _constant("C")),
    ("oxygen", _constant("O")),
    ("co2", _constant("CO2")),
    ("ship, sclass, sclass2, sclass-", _spaced_pair),
    *((prefix, _around(f"{prefix.upper()} ")) for prefix in _SHIP_PREFIXES),
]  # fmt: skip
RULES = _table()
