"""Tables that are written as text, so that many short words stay readable in the source."""


def word_list(text: str, separator: str | None = None) -> list[str]:
    """The words of a text, between spaces or another separator."""
    return text.split(separator)


def entries(text: str, separator: str | None = None) -> dict[str, str]:
    """The `key=value` entries of a text, between spaces or another separator."""
    return dict(entry.split("=", 1) for entry in text.split(separator))
