"""Which templates stand inside sentences, by name, and the rule that each follows.

A dump holds calls, not what a wiki's own templates make of them. Most calls make boxes, notes and
tables, and are dropped; the names here are the ones whose loss would leave a hole in a sentence.
"""

from data_prep.wikitext import dates, languages
from data_prep.wikitext import template_rules as rules
from data_prep.wikitext.arguments import Rule
from data_prep.wikitext.coordinates import coordinates, declination, right_ascension
from data_prep.wikitext.tables import word_list

_SHIP_PREFIXES = word_list(
    "uss hms ss rms hmas hmcs hmnzs usns usat uscgc ins sms css hnlms hdms hswms mv ms jds hdms "
    "rfa usav ussr rv rrs hmy mt mts"
)

_NAMED_RULES: list[tuple[str, Rule]] = [
    # The words as they are, with another look.
    (("nowrap, nobr, nobreak, nobold, small, smaller, big, large, larger, huge, midsize, "
     "unicode, polytonic, lsj, abbr, tooltip, abbrv, math, mvar, var, em, strong, bold, italic, "
     "italics, italics correction, angbr, angle bracket, vr, angbr ipa, key press, keypress, key, "
     "kbd, code, mono, center, centre, proper name, sc, smallcaps, small caps, smcaps, "
     "allcaps, asc, hebrew, arabic, nastaliq, naskh, ipaslink, ipablink, ipa link, ipalink, "
     "api, api-, sup, sub, overline, underline, strikethrough, format price, flag, flagcountry, "
     "flagu, fb, fb-rt, cr, pad, rtl, ltr, bidi, asiantitle, cyrl, grek, visible anchor, vanchor, "
     "nq, tq, tqq, quoted, text, font, gloss, nombre, taxon italics, noitalic, no bold, nihongo2, "
     "dropinitial, drop initial, iast, iso 15919, pie, hebr, arab, chem name, zy, "
     "citation needed span, cn span, clarify span, disputed span, dubious span, 要出典範囲, "
     "esd, polytonisch, dmg, "
     "fontsize, no wrap, lien, 黑体, 僻字, "
     "補助漢字フォント, jis2004フォント, cp932フォント, 拡張漢字, 機種依存文字, jpn, "
     "highlight, plainlink, plainlinks, taste, dfn, ins"),
     rules.first),
    ("not a typo, notatypo, chem, chem2, ce, formel, gaps, linktext, mp, su", rules.joined),
    ("color, colour, font color, fontcolor, background, background color, textcolor, farbig",
     rules.second),
    ("resize, size, font size, script, hover title, colored link, link color", rules.last),
    ("lang-mul", rules.first),
    # Quotations and lists.
    (("quote, blockquote, cquote, rquote, quotation, quote box, zitat, citation bloc, bquote, "
     "cytat, cita, citazione, block quote, centered pull quote, pull quote, verse, poemquote, "
     "poem quote, blockindent, block indent, bq, quote frame, quotebox, цитата, 引用, 引言, "
     "cita textual, citação, citat, zitat-en, zitat-fr, zitat-la, zitat-it, zitat-es, poem"),
     rules.quotation),
    (("hlist, flatlist, plainlist, unbulleted list, ubl, plain list, "
     "ordered list, bulleted list"), rules.entries_in_line),
    ("columns-list, columns", rules.column_list),
    ("term", rules.definition_term),
    ("defn", rules.definition),
    ("sic", rules.as_in_source),
    # Numbers, measures and money.
    ("frac, sfrac, fraction, bruch, tfrac, brok, fracción", rules.fraction),
    ("val, value", rules.value),
    ("e, esp", rules.around("×10^")),
    ("10^, 10e", rules.power),
    ("convert, convertir, umrechnen, conv", rules.measure),
    ("cvt", rules.short_measure),
    ("unité, unité/2, unit, unidad, converter", rules.given_measure),
    ("unité2", rules.first),
    ("height, höhe", rules.height),
    ("track gauge, railgauge, rail gauge", rules.track_gauge),
    ("nts, formatnum, num, число, formatierte zahl", rules.thousands),
    ("tmath", rules.formula),
    ("sqrt, radic", rules.around("√")),
    ("abs", rules.around("∣", "∣")),
    ("ket", rules.around("∣", "⟩")),
    ("us$, usd, us dollar", rules.before_number("US$")),
    ("a$, aud", rules.before_number("A$")),
    ("ca$, c$, cad", rules.before_number("C$")),
    ("nz$, nzd", rules.before_number("NZ$")),
    ("hk$, hkd", rules.before_number("HK$")),
    ("£, gbp, pound sterling", rules.before_number("£")),
    ("€, euro, eur", rules.before_number("€")),
    ("¥, jpy, yen", rules.before_number("¥")),
    ("cn¥, cny, rmb", rules.before_number("CN¥")),
    ("₩, krw", rules.before_number("₩")),
    ("inr, indian rupee, ₹", rules.before_number("₹")),
    ("inrconvert", rules.rupees),
    ("pop density", rules.density),
    ("no., numero, n°, nº, numéro", rules.before_number("No. ")),
    # Dates.
    (("birth date, birth date and age, birth year and age, death date, death year, "
     "birth year, start date, end date, start date and age, film date, release date, dts, "
     "date of birth, dob, birth-date, birth-date and age, death-date, dtsh, geburtsdatum, "
     "生年月日と年齢, 生年月日, 没年月日, 出生日期, 出生日期及年龄, bda"), dates.date),
    ("death date and age, dda, death-date and age, 死亡年月日と没年齢, 逝世日期", dates.ages),
    ("age, age in years", dates.years_between),
    ("as of, asof", dates.as_of),
    ("circa, c., ca., ca, vers", dates.circa),
    ("reign, r., regnal", dates.reign),
    ("floruit, fl.", dates.flourished),
    ("oldstyledate, osdate, oldstyledatedy", dates.old_style),
    ("date, jour, datum, date-, fecha, data", dates.plain_date),
    ("s, siècle, s-, s2-, s2", dates.french_century),
    ("siglo", dates.spanish_century),
    ("bd, 生卒", languages.life_dates),
    # Other languages.
    ("lang, rtl-lang, ltr-lang, langue, lang2, spell, wikt-lang, 语言", languages.foreign),
    ("langx", languages.other_language),
    ("transl, transliteration, translit, tlit", rules.last),
    ("nihongo, nihongo3, nihongo krt, japonais, 日本語", languages.japanese),
    ("zh, lang-zh, zh-full, chinese", languages.chinese),
    ("korean, ko-hhrm", languages.korean),
    ("ipa, lautschrift, api", languages.phonetic),
    ("respell, pronunciation respelling", languages.respelling),
    ("ruby, ruby-ja, 読み仮名, 読み仮名 ruby不使用, ふりがな, rubi, 注音",
     languages.reading),
    ("ill, interlanguage link, illm, ill2, interlanguage link multi", languages.other_wiki),
    ("仮リンク, lien-inter", rules.first),
    ("internal link helper/en, le, nw, link-en", languages.chinese_other_wiki),
    ("tsl, translink, illm-zh", languages.translated_link),
    (("не переведено, не переведено 2, не переведено 3, не переведено 5, нп, нп2, нп3, нп5, iw"),
     languages.untranslated),
    ("citation", languages.quoted),
    ("\", guil", languages.german_quoted),
    # Law, religion, science, ships and sports.
    ("§", rules.law("§")),
    ("art.", rules.law("Art.")),
    ("bibleref, bibleref2, bibleverse, bibelstelle, bible verse", rules.verse),
    ("cite quran, qref, quran-usc, quran, cite qur'an, koran", rules.sura),
    ("coord, coordinates", coordinates),
    ("ra", right_ascension),
    ("dec", declination),
    ("music", rules.music),
    ("harvtxt, harvcoltxt, harvtxtcol, harvp", rules.author),
    ("us patent", rules.around("U.S. Patent ")),
    ("ec number", rules.around("EC ")),
    ("nuclide, simplenuclide, nuclide2, simplenuclide2", rules.nuclide),
    ("hydrogen", rules.constant("H")),
    ("carbon", rules.constant("C")),
    ("oxygen", rules.constant("O")),
    ("nitrogen", rules.constant("N")),
    ("co2", rules.constant("CO2")),
    ("solar mass", rules.constant("M☉")),
    ("solar radius", rules.constant("R☉")),
    ("solar luminosity", rules.constant("L☉")),
    ("earth mass", rules.constant("M⊕")),
    ("jupiter mass", rules.constant("MJ")),
    ("ship", rules.ship),
    ("sclass, sclass2, sclass-", rules.ship_class),
    ("sortname", rules.spaced),
    *((prefix, rules.around(f"{prefix.upper()} ")) for prefix in _SHIP_PREFIXES),
    # Signs.
    ("snd, spaced ndash, spaced en dash, spnd, sndash, snds, spndash, dash", rules.constant(" – ")),
    ("ndash, en dash, endash, –", rules.constant("–")),
    ("mdash, em dash, emdash, —", rules.constant("—")),
    ("mdashb, spaced mdash, spaced emdash, spaced em dash", rules.constant(" — ")),
    ("nbsp, space, spaces, thinsp, thin space, hsp, hair space, nnbsp",
     rules.constant(" ")),
    ("=, equals", rules.constant("=")),
    ("·, •, dot, middot, bull, bullet, ∙, interpunct", rules.constant(" · ")),
    ("' \", '\"", rules.constant("'\"")),
    ("\" ', \"'", rules.constant("\"'")),
    ("-\"", rules.constant("\"")),
    ("', -'", rules.constant("'")),
    ("'s", rules.constant("'s")),
    ("okina, hamza, ayin, ʻ", rules.constant("ʻ")),
    ("eqm", rules.constant("⇌")),
    ("pi", rules.constant("π")),
    ("tau", rules.constant("τ")),
    ("phi", rules.constant("φ")),
    ("gamma", rules.constant("γ")),
    ("infin, infinity", rules.constant("∞")),
    ("minus", rules.constant("−")),
    ("times, x, ×", rules.constant("×")),
    ("plusminus, pm, ±", rules.constant("±")),
    ("hbar", rules.constant("ħ")),
    ("half, frac12", rules.constant("1/2")),
    ("ad", rules.constant("AD")),
    ("bc, bce", rules.constant("BC")),
    ("av jc, avjc, av. j.-c.", rules.constant("av. J.-C.")),
    ("ier, 1er", rules.constant("1er")),
]  # fmt: skip


def _table() -> dict[str, Rule]:
    """Every rule by the names it answers to, written as `name, name` in lower case."""
    table: dict[str, Rule] = {}
    for names, rule in _NAMED_RULES:
        table.update(dict.fromkeys((name.strip() for name in names.split(", ")), rule))
    return table


RULES = _table()
