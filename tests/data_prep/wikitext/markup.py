"""Pieces of wikitext that pages are put together from, whole and broken."""

PROSE = "All human beings are born free and equal in dignity and rights."

UNITS = [
    "{{a|", "{{", "[[", "[[a|", "[[File:a|", "{|\n", "\n{|", "\n|}", "<ref>", "<ref", "<!--",
    "<table>", "<math>", "<nowiki>", "<gallery>\n", "[http://a ", "[http:", "}}", "]]", "''", "'''",
    "'''''", "{{{", "[[a|{{b|", "{{nowrap|", "{{lang|fr|", "{{convert|1|", "-{", "-{H|a}-", "( ",
    "( {{a}} ", "{{a}} ,", "\n* ", " \n", "&", "|a=", "=", "\n=", "[[a\n\n", "[[File:a\n\n",
    "1<sup>2", r"<math>\frac{", ", ", " http://a", "__A", "\n;a", "\n:b", "www.a.", "{{#if:",
    "{{#switch:a|", "<ce>->", "{{coord|1|", "{{!}}", "<poem>", "{{ref|[[", "{{frac|", "<score>",
    "<syntaxhighlight>", "</div>", "}}}", "-{zh-hans:a;zh-hant:b}-",
]  # fmt: skip

NESTINGS = [
    ("{{nowrap|", "}}"), ("[[a|", "]]"), ("[[", "]]"), ("[[File:a.jpg|thumb|", "]]"),
    ("\n{|\n|", "\n|}"), ("<table><tr>", "</table>"), ("{{nowrap|[[a|", "]]}}"), ("{{a|", "}}"),
    ("{{{", "}}}"), ("{{#if:a|", "}}"), ("-{", "}-"), ("<ref>", "</ref>"), ("<div>", "</div>"),
    ("{", "}"), ("{{lang|fr|'''", "}}"),
]  # fmt: skip

MANY_CHILDREN = [
    ("{{nowrap|", "[[a]] ", "}}"), ("{{nowrap|", "{{lang|a|b}}|", "}}"),
    ("[[File:x|", "{{a}}|", "]]"), ("<math>", r"\frac{a}{", "</math>"),
    ("{{#switch:a|", "b=c|", "}}"), ("{{hlist|", "a|", "}}"), ("<ce>", "-", "</ce>"),
    ("<nowiki>", "[[", "</nowiki>"), ("-{", "zh:a;", "}-"), ("{{convert|", "1|to|", "}}"),
]  # fmt: skip
