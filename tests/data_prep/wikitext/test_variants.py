import pytest

from data_prep.wikitext.variants import with_one_variant


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("这是-{zh-hans:计算机; zh-hant:電腦}-。", "这是计算机。"),
        ("這是-{zh-hant:電腦; zh-hans:计算机}-。", "這是计算机。"),
        ("在-{zh-tw:臺灣; zh-hk:台灣}-。", "在臺灣。"),
        ("-{著名}-的", "著名的"),
        ("-{zh;zh-hans;zh-hant|文字}-", "文字"),
        ("-{A|zh-cn:信息;zh-tw:資訊}-", "信息"),
        ("-{H|zh-cn:信息;zh-tw:資訊}-无", "无"),
        ("-{T|标题}-无", "无"),
        ("-{zh-hans:-{zh-cn:甲;zh-tw:乙}-; zh-hant:丙}-", "甲"),
        ("a -{ b", "a -{ b"),
    ],
)
def test_one_variant_is_kept(text: str, expected: str) -> None:
    assert with_one_variant(text) == expected
