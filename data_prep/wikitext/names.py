"""Local names: what link prefixes, section titles and codes mean on wikis of any language."""

from collections.abc import Iterable
from dataclasses import dataclass

from data_prep.wikitext.tables import word_list

FILE_PREFIXES = word_list(
    "file image media datei bild fichier archivo imagen файл файлы изображение картинка файл "
    "immagine bestand afbeelding plik grafika ficheiro imagem arquivo ファイル 画像 メディア 文件 "
    "档案 檔案 圖像 图像 파일 그림 dosya resim ملف صورة پرونده تصویر चित्र ไฟล์ ภาพ tập_tin hình "
    "berkas gambar soubor súbor fájl kép tiedosto kuva fil billede fitxer imatge fișier imagine "
    "зображення датотека слика slika datoteka αρχείο εικόνα קובץ תמונה lêer beeld attēls vaizdas "
    "pilt fails चित्र છબી படிமம் চিত্র ചിത്രം"
)
CATEGORY_PREFIXES = word_list(
    "category kategorie catégorie categoría категория категорія categoria categorie kategoria "
    "カテゴリ 分类 分類 분류 kategori kategória kategorija تصنيف رده زمرہ श्रेणी หมวดหมู่ thể_loại "
    "luokka categorìa κατηγορία קטגוריה категорија categoria kategoriya kateguorija বিষয়শ্রেণী"
)

# Other wikis of the same project: [[de:Berlin]] stands at a page's edge, not in its text.
LANGUAGE_CODES = frozenset(
    word_list(
        "aa ab ace af als am an ang ar arc arz as ast av ay az ba bar be bg bh bi bjn bm bn bo "
        "bpy br bs bug bxr ca cdo ce ceb ch chr chy ckb co cr crh cs csb cu cv cy da de diq "
        "dsb dv dz ee el eml en eo es et eu ext fa ff fi fj fo fr frp frr fur fy ga gag gan gd "
        "gl glk gn got gu gv ha hak haw he hi hif hr hsb ht hu hy ia id ie ig ik ilo io is it "
        "iu ja jbo jv ka kaa kab kbd kg ki kk kl km kn ko koi krc ks ksh ku kv kw ky la lad lb "
        "lbe lez lg li lij lmo ln lo lt ltg lv mai map-bms mdf mg mhr mi min mk ml mn mr mrj "
        "ms mt mwl my myv mzn na nah nap nds nds-nl ne new nl nn no nov nrm nso nv ny oc om or "
        "os pa pag pam pap pcd pdc pfl pi pih pl pms pnb pnt ps pt qu rm rmy rn ro roa-rup "
        "roa-tara ru rue rw sa sah sc scn sco sd se sg sh si simple sk sl sm sn so sq sr srn "
        "ss st stq su sv sw szl ta te tet tg th ti tk tl tn to tpi tr ts tt tum tw ty tyv udm "
        "ug uk ur uz ve vec vep vi vls vo wa war wo wuu xal xh xmf yi yo za zea zh "
        "zh-classical zh-min-nan zh-yue zu"
    )
)

# Sections without prose: sources, links, lists of works. Compared without case and spaces around.
LINK_SECTIONS = frozenset(
    word_list(
        "references|external links|see also|further reading|notes|bibliography|sources|"
        "footnotes|notes and references|references and notes|works cited|citations|"
        "gallery|endnotes|explanatory notes|"
        "general references|references and further reading|external links and references|"
        "einzelnachweise|weblinks|literatur|siehe auch|quellen|anmerkungen|"
        "belege|einzelbelege|fußnoten|galerie|weblink|"
        "références|notes et références|liens externes|voir aussi|bibliographie|annexes|"
        "articles connexes|lien externe|referencias|enlaces externos|"
        "véase también|bibliografía|notas|referencias y notas|note|collegamenti esterni|"
        "voci correlate|altri progetti|bibliografia|referências|ligações externas|ver também|"
        "notas e referências|примечания|ссылки|литература|см. также|источники|библиография|"
        "сноски|бележки|външни препратки|източници|вижте също|використана література|джерела|"
        "примітки|referenties|externe links|externe link|zie ook|literatuur|bronnen|"
        "bronnen, noten en/of referenties|verwysings|eksterne skakels|sien ook|przypisy|"
        "linki zewnętrzne|zobacz też|uwagi|externí odkazy|související články|literatura|källor|"
        "referenser|externa länkar|se även|kilder|eksterne lenker|referanser|se også|fotnoter|"
        "kjelder|bakgrunnsstoff|lähteet|aiheesta muualla|katso myös|viitteet|"
        "参考文献|脚注|出典|関連項目|"
        "外部リンク|注釈|参照|参考资料|參考資料|参考|外部链接|外部連結|外部鏈接|"
        "参见|參見|注释|註釋|参考来源|相关条目|腳註|文獻|각주|같이 보기|외부 링크|"
        "참고 문헌|مراجع|وصلات خارجية|انظر أيضا|المراجع|مصادر|منابع|پیوند به بیرون|جستارهای وابسته|"
        "حوالہ جات|सन्दर्भ|संदर्भ|बाहरी कड़ियाँ|इन्हें भी देखें|อ้างอิง|แหล่งข้อมูลอื่น|"
        "ดูเพิ่ม|kaynakça|dış bağlantılar|ayrıca bakınız|tham khảo|liên kết ngoài|xem thêm|"
        "atsaucis|uorejuos saitys|verwijzingen|referințe|legături externe|vezi și|jegyzetek|"
        "további információk|források|παραπομπές|εξωτερικοί σύνδεσμοι|δείτε επίσης",
        "|",
    )
)

# Sections whose lists are left out, and whose paragraphs are prose.
WORK_SECTIONS = frozenset(
    word_list(
        "discography|filmography|selected bibliography|published works|selected works|werke|"
        "diskografie|filmografie|schriften|discographie|filmographie|discografía|filmografía|"
        "дискография|фильмография|作品|作品リスト|ディスコグラフィ|著作",
        "|",
    )
)


@dataclass(frozen=True)
class Names:
    """The link prefixes (lower case, spaces as underscores) that put something else than words."""

    files: frozenset[str]
    categories: frozenset[str]
    language: str = ""
    """The code of the wiki's language, which some templates follow; empty where not known."""

    @classmethod
    def of_wiki(
        cls, files: Iterable[str] = (), categories: Iterable[str] = (), language: str = ""
    ) -> "Names":
        """The prefixes of a wiki: its own names beside those known everywhere."""
        return cls(
            frozenset(FILE_PREFIXES) | {prefix_key(name) for name in files if name},
            frozenset(CATEGORY_PREFIXES) | {prefix_key(name) for name in categories if name},
            language.lower(),
        )


def prefix_key(prefix: str) -> str:
    """A namespace as it is compared: without case, with underscores for spaces."""
    return prefix.strip().lower().replace(" ", "_")


ANY_WIKI = Names.of_wiki()
