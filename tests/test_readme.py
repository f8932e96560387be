"""Both READMEs have the same commands, tables and links; `test_main_job` runs the commands."""

import re
from pathlib import Path

ROOT = Path(__file__).parent.parent


def commands(readme: str) -> list[str]:
    """The lines of the console blocks, without the remarks behind them."""
    blocks = re.findall(r"```console\n(.*?)```", (ROOT / readme).read_text(), re.DOTALL)
    lines = [line for block in blocks for line in block.splitlines()]
    return [re.sub(r"\s+#.*", "", line) for line in lines]


def test_both_languages_have_the_same_commands() -> None:
    assert commands("README.md") == commands("README.zh-CN.md")


def test_both_languages_name_the_same_things() -> None:
    english, chinese = ((ROOT / f"README{kind}.md").read_text() for kind in ("", ".zh-CN"))
    for pattern in (r"^\| `", r"^## ", r"```", r"^\| \d+ \|", r"\]\((\S+)\)"):
        counts = [len(re.findall(pattern, text, re.MULTILINE)) for text in (english, chinese)]
        assert counts[0] == counts[1] > 0, pattern


def test_files_that_the_readme_links_are_there() -> None:
    for readme in ("README.md", "README.zh-CN.md", "CONTRIBUTING.md"):
        for target in re.findall(r"\]\(([^)#:]+)\)", (ROOT / readme).read_text()):
            assert (ROOT / target).exists(), f"{readme} links {target}"
