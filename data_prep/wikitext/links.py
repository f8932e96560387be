"""Links: `[[target|words]]` leaves its words; files, categories and other wikis leave nothing."""

import re

from data_prep.wikitext.names import LANGUAGE_CODES, Names, prefix_key

_URL = r"(?:(?:https?|ftps?|sftp|ircs?|gopher|telnet|nntp|news|git|svn|mms|xmpp|magnet):(?://)?|mailto:|//)"
# A bracket inside the words is allowed once deep; no part of the pattern runs past an opening one.
_EXTERNAL = re.compile(
    rf"\[{_URL}[^\s\[\]]*((?:[^\[\]\n]|\[[^\[\]\n]{{0,200}}\])*)\]", re.IGNORECASE
)
_BARE_URL = re.compile(
    r"(?:https?|ftp)://(?:[^\s<>\[\]|\"”]*[^\s<>\[\]|\"”.,;:!?)])?", re.IGNORECASE
)
_WEB_ADDRESS = re.compile(
    r"\bwww\.((?:[\w-]{1,63}\.){1,5}[A-Za-z]{2,24})\b"
    r"(?:/(?:[^\s\[\]|<>\"”)]{0,400}[^\s\[\]|<>\"”).,;:!?])?)?"
)
_SIMPLE_LINK = re.compile(r"\[\[([^\[\]{}|\n]*)(?:\|([^\[\]{}|\n]*))?\]\]")
_URL_START = re.compile(_URL, re.IGNORECASE)
_SAME_SITE = re.compile(r"[^:]{0,20}:")


def _prefix(target: str) -> str:
    """The namespace a link target names, as `prefix_key` writes it; empty without one."""
    prefix, colon, _ = target.partition(":")
    return prefix_key(prefix) if colon else ""


def holds_paragraphs(text: str, target_start: int, names: Names) -> bool:
    """True where a link opens a file, whose caption may go on behind an empty line."""
    return _prefix(text[target_start : target_start + 40]) in names.files


def shows_nothing(target: str, names: Names) -> bool:
    """True for a link that puts no words into the line: a file, a category, another language."""
    prefix = _prefix(target)
    return prefix in names.files or prefix in names.categories or prefix in LANGUAGE_CODES


def link_words(parts: list[str]) -> str:
    """The words of a link cut at its bars: those behind the first bar, or else the target."""
    target, *words = parts
    if words and (shown := "|".join(words).strip("|\n")):
        return shown
    if ":" in target and _URL_START.match(target):  # an external link in one bracket too many
        return target.partition(" ")[2]
    target = target.strip().removeprefix(":").replace("_", " ")
    if words:  # the pipe trick: `[[Rome (city)|]]`
        target = _SAME_SITE.sub("", target, count=1).partition(" (")[0]
    return target.partition("#")[0] or target.lstrip("#")


def without_simple_links(text: str, names: Names, hole: str) -> str:
    """The text with links in one line and without brackets inside as their words, or `hole`."""

    def words(match: re.Match[str]) -> str:
        target, shown = match.groups()
        if ":" in target and shows_nothing(target, names):
            return hole
        return shown or link_words([target] if shown is None else [target, shown])

    return _SIMPLE_LINK.sub(words, text)


def without_external_links(text: str, hole: str) -> str:
    """The text with `[http://... words]` as its words, and `hole` for an address without words."""
    if "//" not in text and "mailto:" not in text and "news:" not in text:
        return text
    text = _EXTERNAL.sub(lambda match: match[1].strip() or hole, text)
    return _BARE_URL.sub(hole, text)


def without_web_prefix(text: str) -> str:
    """The text with `www.site.org/page` as `site.org`, a name as others in a sentence."""
    return _WEB_ADDRESS.sub(r"\1", text) if "www." in text else text
