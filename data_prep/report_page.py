"""The parts of the report's page: one HTML file without a resource from elsewhere.

Everything that is not made here comes from a corpus and is escaped.
"""

from collections.abc import Iterable, Sequence
from html import escape

from mlmdist.logs import quantity

CHART_WIDTH, CHART_HEIGHT = 260, 150
LEFT, BOTTOM, TOP = 8, 24, 18
MAX_TICKS = 5

STYLE = """
:root { color-scheme: light dark; --ground: #fbfbf9; --card: #fff; --ink: #1c1e21; --soft: #666b73;
  --line: #e3e4e0; --bar: #3b6fb6; --bar-soft: #c9d8ec; --warm: #b4541a; --warm-soft: #f6e2d3;
  --good-soft: #dcecd8; --mark: #fff1b8 }
@media (prefers-color-scheme: dark) { :root { --ground: #15171a; --card: #1d2024; --ink: #e6e7e9;
  --soft: #9aa1ab; --line: #31353b; --bar: #7aa7e0; --bar-soft: #2c415c; --warm: #e29a63;
  --warm-soft: #4a3122; --good-soft: #26402a; --mark: #4d441c } }
* { box-sizing: border-box }
body { margin: 0 auto; padding: 28px 20px 60px; max-width: 1080px; background: var(--ground);
  color: var(--ink); font: 15px/1.55 system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans",
  sans-serif; -webkit-text-size-adjust: 100% }
h1 { font-size: 26px; line-height: 1.2; margin: 0 0 4px; overflow-wrap: anywhere }
h2 { font-size: 18px; margin: 40px 0 10px; padding-top: 18px; border-top: 1px solid var(--line) }
h3 { font-size: 14px; margin: 0 0 8px }
p { margin: 6px 0 12px; max-width: 72ch }
.soft { color: var(--soft) }
small { color: var(--soft); font-size: 13px }
.tiles { display: grid; grid-template-columns: repeat(auto-fit, minmax(140px, 1fr)); gap: 10px;
  margin: 20px 0 }
.tile, .card { background: var(--card); border: 1px solid var(--line); border-radius: 8px;
  padding: 12px 14px; min-width: 0 }
.tile b { display: block; font-size: 22px; font-weight: 600; line-height: 1.25;
  font-variant-numeric: tabular-nums }
.tile span { color: var(--soft); font-size: 13px }
.charts { display: grid; grid-template-columns: repeat(auto-fit, minmax(min(290px, 100%), 1fr));
  gap: 12px; align-items: start }
.charts.four { grid-template-columns: repeat(auto-fit, minmax(min(235px, 100%), 1fr)) }
.card { margin: 0 }
svg { display: block; width: 100%; height: auto; font: 11px system-ui, sans-serif }
svg rect { fill: var(--bar) } svg rect:hover { fill: var(--warm) }
svg text { fill: var(--soft) } svg line { stroke: var(--line) }
.wide { overflow-x: auto }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; width: 100% }
th, td { text-align: left; padding: 5px 12px 5px 0; border-bottom: 1px solid var(--line);
  vertical-align: top }
th { font-weight: 500; color: var(--soft); font-size: 13px; white-space: nowrap }
td:first-child { white-space: nowrap }
.n { text-align: right }
td code { overflow-wrap: anywhere }
code, pre, .piece { font: 13px/1.45 ui-monospace, "DejaVu Sans Mono", Menlo, monospace }
pre { overflow-x: auto; margin: 0 }
.bars { display: grid; grid-template-columns: minmax(60px, auto) minmax(60px, 1fr) auto;
  gap: 3px 10px; align-items: center; font-size: 13px; font-variant-numeric: tabular-nums }
.bars .name { overflow-wrap: anywhere }
.bars .track { background: var(--bar-soft); height: 10px; border-radius: 2px; min-width: 0 }
.bars .fill { background: var(--bar); height: 10px; border-radius: 2px; min-width: 1px }
.bars .value { text-align: right; color: var(--soft); white-space: nowrap }
.window { line-height: 2.1; overflow-wrap: anywhere; margin: 0; max-width: none }
.window .w { border-bottom: 2px solid var(--bar-soft); padding: 1px 0; margin-right: 1px }
.window .t + .t { border-left: 1px dotted var(--soft) }
.window .old { color: var(--soft); opacity: .65 }
.window .s { color: var(--warm); font-size: 11px; margin: 0 3px 0 2px; user-select: none }
.window .m, .window .r, .window .k { border-radius: 3px; padding: 1px 2px }
.window .m { background: var(--bar-soft) } .window .r { background: var(--warm-soft) }
.window .k { background: var(--good-soft) } .window i { font-style: normal; font-size: 11px;
  color: var(--soft); margin-left: 3px }
.legend { display: flex; flex-wrap: wrap; gap: 4px 18px; font-size: 13px; margin: 0 0 12px }
.stack { display: grid; gap: 12px }
"""


def page(title: str, parts: Iterable[str]) -> str:
    """The whole page."""
    head = (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title><style>{STYLE}</style></head><body>\n"
    )
    return head + "\n".join(parts) + "\n</body></html>\n"


def section(title: str, text: str, *parts: str) -> str:
    """A part of the page with its heading; `text` is a sentence, escaped here."""
    said = f"<p class=soft>{escape(text)}</p>" if text else ""
    return "\n".join([f"<h2>{escape(title)}</h2>{said}", *parts])


def tiles(values: Sequence[tuple[str, str]]) -> str:
    """Figures to be seen first: (value, what it is)."""
    made = (f"<div class=tile><b>{escape(v)}</b><span>{escape(n)}</span></div>" for v, n in values)
    return f"<div class=tiles>{''.join(made)}</div>"


def card(title: str, *parts: str) -> str:
    """A box with a heading."""
    return f"<div class=card><h3>{escape(title)}</h3>{''.join(parts)}</div>"


def charts(parts: Sequence[str], *, small: bool = False) -> str:
    """Boxes side by side, as many as fit; up to four in a row where they are small."""
    kind = "charts four" if small else "charts"
    return f'<div class="{kind}">{"".join(parts)}</div>'


def stack(parts: Sequence[str]) -> str:
    """Boxes below each other."""
    return f"<div class=stack>{''.join(parts)}</div>"


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table; whole numbers stand to the right, with separators."""
    rows = [list(row) for row in rows]
    right = [all(isinstance(row[place], int) for row in rows) for place in range(len(head))]
    marks = [" class=n" if numeric else "" for numeric in right]
    top = "".join(f"<th{mark}>{escape(name)}</th>" for name, mark in zip(head, marks, strict=True))
    body = "".join(
        f"<tr>{''.join(f'<td{m}>{_cell(v)}</td>' for v, m in zip(row, marks, strict=True))}</tr>"
        for row in rows
    )
    return f"<div class=wide><table><tr>{top}</tr>{body}</table></div>"


def _cell(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else escape(str(value))


def bars(rows: Sequence[tuple[str, float, str]], *, mono: bool = False) -> str:
    """Horizontal bars: (name, size, what stands behind it)."""
    largest = max((size for _, size, _ in rows), default=0) or 1
    kind = "name piece" if mono else "name"
    made = (
        f'<div class="{kind}">{escape(name)}</div>'
        f"<div class=track><div class=fill style='width:{100 * size / largest:.2f}%'></div></div>"
        f"<div class=value>{escape(said)}</div>"
        for name, size, said in rows
    )
    return f"<div class=bars>{''.join(made)}</div>"


def histogram(title: str, edges: Sequence[int], counts: Sequence[int], unit: str) -> str:
    """A histogram in a box: bin i holds `counts[i]` values from `edges[i]` to below `edges[i + 1]`.

    Bins are drawn equally wide; the ticks say where they lie.
    """
    most, total = max(counts, default=0) or 1, sum(counts) or 1
    width = (CHART_WIDTH - 2 * LEFT) / max(1, len(counts))
    room = CHART_HEIGHT - BOTTOM - TOP
    drawn: list[str] = []
    for place, count in enumerate(counts):
        height = room * count / most
        span = f"{edges[place]:,} to {edges[place + 1] - 1:,} {unit}"
        label = f"{escape(span)}: {count:,} ({count / total:.1%})"
        drawn.append(
            f'<rect x="{LEFT + place * width + 0.5:.1f}" y="{TOP + room - height:.1f}" '
            f'width="{max(width - 1, 0.5):.1f}" height="{height:.1f}"><title>{label}</title></rect>'
        )
    base = TOP + room
    drawn.append(f'<line x1="{LEFT}" x2="{CHART_WIDTH - LEFT}" y1="{base}" y2="{base}"/>')
    step = max(1, -(-len(counts) // MAX_TICKS))
    for place in range(0, len(edges), step):
        at = LEFT + place * width
        anchor = "start" if at < 2 * LEFT else "end" if at > CHART_WIDTH - 3 * LEFT else "middle"
        where = f'x="{at:.1f}" y="{CHART_HEIGHT - 8}" text-anchor="{anchor}"'
        drawn.append(f"<text {where}>{edges[place]:,}</text>")
    drawn.append(
        f'<text x="{CHART_WIDTH - LEFT}" y="11" text-anchor="end">most: {quantity(most)}</text>'
    )
    picture = (
        f'<svg viewBox="0 0 {CHART_WIDTH} {CHART_HEIGHT}" role="img" '
        f'aria-label="{escape(title, quote=True)}">{"".join(drawn)}</svg>'
    )
    below = f"<small>{escape(unit)}</small>"
    return f"<figure class=card><h3>{escape(title)}</h3>{picture}{below}</figure>"
