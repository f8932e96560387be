"""Words of other languages: their labels on wikis of several languages, and their readings."""

from data_prep.wikitext.arguments import Arguments, Rule
from data_prep.wikitext.tables import entries, word_list

_ENGLISH = entries(
    "af=Afrikaans,am=Amharic,ang=Old English,ar=Arabic,arc=Aramaic,az=Azerbaijani,"
    "be=Belarusian,ber=Berber,bg=Bulgarian,bn=Bengali,bs=Bosnian,ca=Catalan,cs=Czech,"
    "cy=Welsh,da=Danish,de=German,el=Greek,en=English,eo=Esperanto,es=Spanish,et=Estonian,"
    "eu=Basque,fa=Persian,fi=Finnish,fr=French,fy=West Frisian,ga=Irish,gd=Scottish Gaelic,"
    "gl=Galician,grc=Ancient Greek,grc-gre=Ancient Greek,gu=Gujarati,haw=Hawaiian,he=Hebrew,"
    "hi=Hindi,hr=Croatian,hu=Hungarian,hy=Armenian,id=Indonesian,is=Icelandic,it=Italian,"
    "ja=Japanese,ka=Georgian,kk=Kazakh,km=Khmer,kn=Kannada,ko=Korean,ku=Kurdish,kw=Cornish,"
    "la=Latin,lb=Luxembourgish,lt=Lithuanian,lv=Latvian,mk=Macedonian,ml=Malayalam,"
    "mn=Mongolian,mr=Marathi,ms=Malay,mt=Maltese,my=Burmese,nah=Nahuatl,ne=Nepali,nl=Dutch,"
    "nn=Norwegian,no=Norwegian,oc=Occitan,pa=Punjabi,pl=Polish,ps=Pashto,pt=Portuguese,"
    "ro=Romanian,ru=Russian,rus=Russian,sa=Sanskrit,sh=Serbo-Croatian,si=Sinhala,sk=Slovak,"
    "sl=Slovene,so=Somali,sq=Albanian,aln=Gheg Albanian,sr=Serbian,sv=Swedish,sw=Swahili,"
    "ta=Tamil,te=Telugu,tg=Tajik,th=Thai,tr=Turkish,tt=Tatar,uk=Ukrainian,ur=Urdu,uz=Uzbek,"
    "vi=Vietnamese,yi=Yiddish,zh=Chinese,akk=Akkadian,sux=Sumerian,cop=Coptic,egy=Egyptian,"
    "got=Gothic,non=Old Norse,syc=Syriac,tl=Tagalog,fil=Filipino,ceb=Cebuano,jv=Javanese,"
    "su=Sundanese,mi=Maori,sm=Samoan,bo=Tibetan,ug=Uyghur,ky=Kyrgyz,tk=Turkmen,ba=Bashkir,"
    "cv=Chuvash,gsw=Alemannic German,nds=Low German,br=Breton,co=Corsican,ast=Asturian,"
    "sc=Sardinian,scn=Sicilian,vec=Venetian,nap=Neapolitan,sco=Scots,fo=Faroese,se=Northern Sami,"
    "ti=Tigrinya,zu=Zulu,xh=Xhosa,yo=Yoruba,ig=Igbo,ha=Hausa,qu=Quechua,ay=Aymara,gn=Guarani,"
    "nv=Navajo,lo=Lao,bh=Bihari,or=Odia,as=Assamese,sd=Sindhi,pi=Pali,dv=Dhivehi,rom=Romani,"
    "peo=Old Persian,fro=Old French,enm=Middle English,goh=Old High German,gmh=Middle High German,"
    "osx=Old Saxon,xno=Anglo-Norman,ota=Ottoman Turkish,hbo=Biblical Hebrew,yue=Cantonese",
    ",",
)
_GERMAN = entries(
    "en=englisch fr=französisch la=lateinisch it=italienisch es=spanisch ru=russisch ja=japanisch "
    "pl=polnisch cs=tschechisch nl=niederländisch sv=schwedisch pt=portugiesisch tr=türkisch "
    "ar=arabisch el=griechisch hu=ungarisch da=dänisch de=deutsch fi=finnisch no=norwegisch "
    "nb=norwegisch ro=rumänisch bg=bulgarisch hr=kroatisch sr=serbisch sl=slowenisch "
    "sk=slowakisch uk=ukrainisch he=hebräisch fa=persisch zh=chinesisch ko=koreanisch "
    "hi=Hindi vi=vietnamesisch th=thailändisch lt=litauisch lv=lettisch et=estnisch "
    "is=isländisch ga=irisch eu=baskisch ca=katalanisch sq=albanisch hy=armenisch "
    "ka=georgisch mk=mazedonisch grc=altgriechisch kk=kasachisch az=aserbaidschanisch "
    "be=belarussisch bs=bosnisch lb=luxemburgisch nds=niederdeutsch cy=walisisch "
    "gl=galicisch ku=kurdisch mn=mongolisch bo=tibetisch ur=Urdu id=indonesisch"
)
_CHINESE = entries(
    "en=英语 fr=法语 de=德语 la=拉丁语 it=意大利语 es=西班牙语 ru=俄语 ja=日语 ko=韩语 "
    "pt=葡萄牙语 ar=阿拉伯语 el=希腊语 grc=古希腊语 nl=荷兰语 pl=波兰语 cs=捷克语 sv=瑞典语 "
    "da=丹麦语 no=挪威语 nb=挪威语 fi=芬兰语 hu=匈牙利语 tr=土耳其语 uk=乌克兰语 he=希伯来语 "
    "fa=波斯语 vi=越南语 th=泰语 id=印尼语 ms=马来语 hi=印地语 bo=藏语 mn=蒙古语 ug=维吾尔语 "
    "ro=罗马尼亚语 bg=保加利亚语 sr=塞尔维亚语 hr=克罗地亚语 sa=梵语 my=缅甸语 km=高棉语 "
    "zh=汉语"
)
_JAPANESE = entries(
    "en=英語 fr=フランス語 de=ドイツ語 la=ラテン語 it=イタリア語 es=スペイン語 ru=ロシア語 "
    "ko=朝鮮語 pt=ポルトガル語 ar=アラビア語 el=ギリシア語 grc=古代ギリシア語 nl=オランダ語 "
    "pl=ポーランド語 cs=チェコ語 sv=スウェーデン語 da=デンマーク語 fi=フィンランド語 "
    "hu=ハンガリー語 tr=トルコ語 uk=ウクライナ語 he=ヘブライ語 fa=ペルシア語 vi=ベトナム語 "
    "th=タイ語 zh=中国語 sa=サンスクリット"
)
_FRENCH = entries(
    "en=anglais de=allemand la=latin it=italien es=espagnol ru=russe ja=japonais pt=portugais "
    "ar=arabe el=grec grc=grec_ancien nl=néerlandais pl=polonais zh=chinois ko=coréen he=hébreu "
    "tr=turc sv=suédois da=danois cs=tchèque hu=hongrois fa=persan"
)
_SPANISH = entries(
    "en=inglés fr=francés de=alemán la=latín it=italiano ru=ruso ja=japonés pt=portugués ar=árabe "
    "el=griego grc=griego_antiguo nl=neerlandés pl=polaco zh=chino ko=coreano he=hebreo tr=turco "
    "ca=catalán eu=euskera gl=gallego"
)
_RUSSIAN = entries(
    "en=англ. fr=фр. de=нем. la=лат. it=итал. es=исп. ja=яп. pt=порт. ar=араб. el=греч. "
    "grc=др.-греч. nl=нидерл. pl=польск. zh=кит. ko=кор. he=ивр. tr=тур. uk=укр. be=белор. fa=перс."
)
_LABELS: dict[str, tuple[str, dict[str, str]]] = {
    "": ("{}: {}", _ENGLISH),
    "en": ("{}: {}", _ENGLISH),
    "simple": ("{}: {}", _ENGLISH),
    "de": ("{} {}", _GERMAN),
    "zh": ("{}：{}", _CHINESE),
    "ja": ("{}: {}", _JAPANESE),
    "fr": ("en {} : {}", _FRENCH),
    "es": ("en {}: {}", _SPANISH),
    "ru": ("{} {}", _RUSSIAN),
}
"""How a wiki of a language writes words behind their language, and its names of languages."""

_NO_SOUNDS = frozenset(
    word_list("UK US AU CA NZ IE GB uk us au ca lang pron also icon local audio or")
)


def labelled(words: str, code: str, wiki: str) -> str:
    """Words behind the name of their language, where the wiki's language has one for it."""
    layout, names = _LABELS.get(wiki, ("", {}))
    label = names.get(code) or names.get(code.partition("-")[0], "")
    return layout.format(label.replace("_", " "), words) if label and words else words


def in_language(code: str, wiki: str = "") -> Rule:
    """Words of another language behind its name, as `{{lang-fr|...}}` shows them.

    `wiki` is the language whose names are used, where the template belongs to one.
    """

    def rule(given: Arguments) -> str:
        words = given.at(0) or given.get("text")
        if romanised := given.at(1) if given.at(1)[:1].isalpha() else "":
            words = f"{words}, {romanised}" if words else romanised
        return labelled(words, code, wiki or given.language)

    return rule


def other_language(given: Arguments) -> str:
    """`{{langx|fr|mots}}`: the language's code stands before the words."""
    rest = Arguments(given.positional[1:], given.named, given.language)
    return in_language(given.at(0))(rest)


def german_label(name: str) -> Rule | None:
    """The rule of `{{enS|words}}` on the German Wikipedia, None for another name."""
    if not 3 <= len(name) <= 4 or not name.endswith("s") or name[:-1] not in _GERMAN:
        return None
    return in_language(name[:-1], wiki="de")


def foreign(given: Arguments) -> str:
    """`{{lang|fr|mots}}`: the words stand behind the language's code."""
    return given.at(1) or given.get("text")


def japanese(given: Arguments) -> str:
    """`{{nihongo|English|kanji|romaji}}` is English (kanji, romaji)."""
    first, *others = [*given.positional[:4], "", ""][:4]
    inside = [part for part in others if part]
    if not first:
        first, inside = (inside or [""])[0], inside[1:]
    return f"{first} ({', '.join(inside)})" if inside else first


def chinese(given: Arguments) -> str:
    """`{{zh|c=北京|p=Běijīng}}` is Chinese: 北京; pinyin: Běijīng."""
    names = _CHINESE_KEYS_GERMAN if given.language == "de" else _CHINESE_KEYS
    shown = {key: given.named[key] for key in names if given.named.get(key)}
    if not shown:
        return given.get("v", "kurz", "hant") or given.at(0)
    if shown.get("s") and shown.get("s") == shown.get("t"):
        shown = {"c": shown["s"], **{k: v for k, v in shown.items() if k not in "st"}}
    if given.get("labels") == "no" or given.language not in ("", "en", "simple", "de"):
        return ", ".join(dict.fromkeys(shown.values()))
    if given.language == "de":
        return ", ".join(f"{names[key]} {words}" for key, words in shown.items())
    return "; ".join(f"{names[key]}: {words}" for key, words in shown.items())


_CHINESE_KEYS = {
    "c": "Chinese", "s": "simplified Chinese", "t": "traditional Chinese", "p": "pinyin",
    "hp": "pinyin", "w": "Wade–Giles", "j": "Jyutping", "y": "Cantonese Yale",
    "poj": "Pe̍h-ōe-jī", "l": "lit.",
}  # fmt: skip
_CHINESE_KEYS_GERMAN = {
    "c": "chinesisch", "v": "chinesisch", "kurz": "chinesisch", "s": "chinesisch",
    "t": "traditionell", "p": "Pinyin", "w": "W.-G.", "j": "Jyutping",
}  # fmt: skip


def korean(given: Arguments) -> str:
    """`{{korean|hangul=서울|rr=Seoul}}`: the script, then how it is read."""
    keys = ("hangul", "hanja", "rr", "mr", "lk")
    shown = [given.named[key] for key in keys[:4] if given.named.get(key)]
    return labelled("; ".join(shown or given.positional[:3]), "ko", given.language)


def pronunciation(given: Arguments) -> str:
    """`{{IPAc-en|l|æ|b}}` is /læb/; codes of dialects and sound files are no sounds."""
    sounds = [part for part in given.positional if part not in _NO_SOUNDS and "." not in part[1:]]
    words = "".join(sounds).replace("_", " ").strip()
    return f"/{words}/" if words else ""


def bracketed(given: Arguments) -> str:
    """`{{IPA-fr|kʁisteva|lang}}` is [kʁisteva]."""
    return f"[{given.at(0).strip('[]/')}]" if given.at(0) else ""


def phonetic(given: Arguments) -> str:
    """`{{IPA|[læb]}}` as given, `{{IPA|fr|læb}}` without the code; German writes the brackets."""
    if len(given.positional) > 1 and given.at(0).isascii() and given.at(0).islower():
        return f"[{given.at(1).strip('[]/')}]" if given.at(1) else ""
    return bracketed(given) if given.language == "de" else given.at(0)


def respelling(given: Arguments) -> str:
    """`{{respell|ASS|kee}}` is ASS-kee."""
    return "-".join(filter(None, given.positional)).replace("-_-", " ")


def reading(given: Arguments) -> str:
    """Japanese and Chinese: a word with its reading in brackets."""
    return f"{given.at(0)}({given.at(1)})" if given.at(1) else given.at(0)


def quoted(given: Arguments) -> str:
    """`{{citation|mots}}` in French quotes on the French Wikipedia; a source elsewhere."""
    return f"« {given.at(0)} »" if given.language == "fr" and given.at(0) else ""


def german_quoted(given: Arguments) -> str:
    """`{{"|Worte}}` in German quotes, or `{{guil|mots}}` in French ones."""
    return quoted(given) or (f"„{given.at(0)}“" if given.at(0) else "")


def life_dates(given: Arguments) -> str:
    """`{{bd|1879年|3月14日|1955年|4月18日}}` is （1879年3月14日－1955年4月18日）."""
    born, died = given.at(0) + given.at(1), given.at(2) + given.at(3)
    return f"（{born}－{died}）" if born or died else ""


def other_wiki(given: Arguments) -> str:
    """`{{ill|text|de|target}}`, or with the code first `{{ill|de|text|target}}`."""
    is_code_first = len(given.at(0)) <= 3 and given.at(0).isascii() and given.at(0).islower()
    return given.get("lt") or given.at(1 if is_code_first else 0)


def chinese_other_wiki(given: Arguments) -> str:
    """`{{link-en|words|target}}`; a third argument is what is shown instead."""
    return given.get("d", "lt") or given.at(2) or given.at(0)


def translated_link(given: Arguments) -> str:
    """`{{tsl|en|target|words}}`; a fourth argument is what is shown instead."""
    return given.at(3) or given.at(2) or given.at(1)


def untranslated(given: Arguments) -> str:
    """`{{не переведено|target|words|en|...}}` on the Russian Wikipedia."""
    return given.at(1) or given.at(0)
