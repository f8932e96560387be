r"""LaTeX formulas as a line of text: `\alpha_1 \leq x^2` -> `α_1 ≤ x^2`.

What a line cannot show is an ellipsis, so that the sentence around it keeps its shape. Braces of a
set are round and bars are U+2223, so that no brace and no pipe is left of a formula.
"""

import re
from collections.abc import Callable

from data_prep.wikitext.tables import entries, word_list

MAX_CHARACTERS = 120
"""A longer formula is no part of a sentence any more."""

MAX_SOURCE_CHARACTERS = 1000
MAX_NESTING = 5
"""Fractions, roots and powers inside one another are read so deep."""

UNREADABLE = "…"

_SYMBOLS = entries(
    "alpha=α beta=β gamma=γ delta=δ epsilon=ε varepsilon=ε zeta=ζ eta=η theta=θ vartheta=θ iota=ι "
    "kappa=κ lambda=λ mu=μ nu=ν xi=ξ pi=π rho=ρ sigma=σ tau=τ upsilon=υ phi=φ varphi=φ chi=χ "
    "psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ "
    "Omega=Ω times=× cdot=· div=÷ pm=± mp=∓ leq=≤ le=≤ geq=≥ ge=≥ neq=≠ ne=≠ approx=≈ equiv=≡ "
    "sim=∼ cong=≅ propto=∝ infty=∞ partial=∂ nabla=∇ sum=∑ prod=∏ int=∫ oint=∮ in=∈ "
    "notin=∉ ni=∋ subset=⊂ subseteq=⊆ supset=⊃ supseteq=⊇ cup=∪ cap=∩ emptyset=∅ varnothing=∅ "
    "setminus=∖ forall=∀ exists=∃ neg=¬ lnot=¬ land=∧ wedge=∧ lor=∨ vee=∨ oplus=⊕ otimes=⊗ "
    "to=→ rightarrow=→ longrightarrow=→ leftarrow=← Rightarrow=⇒ Leftarrow=⇐ iff=⇔ "
    "leftrightarrow=↔ Leftrightarrow=⇔ mapsto=↦ circ=∘ bullet=• star=⋆ ast=∗ dots=… ldots=… "
    "dotsc=… dotsb=⋯ dotsm=⋯ dotso=… cdots=⋯ vdots=⋮ prime=′ angle=∠ perp=⊥ parallel=∥ hbar=ℏ "
    "ell=ℓ Re=ℜ Im=ℑ aleph=ℵ langle=⟨ rangle=⟩ lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ mid=∣ vert=∣ "
    "lvert=∣ rvert=∣ Vert=∥ lVert=∥ rVert=∥ lbrace=( rbrace=) "
    "degree=° deg=° gets=← uparrow=↑ downarrow=↓ hookrightarrow=↪ longmapsto=↦ implies=⇒ "
    "xrightarrow=→ xleftarrow=← rightleftharpoons=⇌ leftrightharpoons=⇌ vdash=⊢ models=⊨ "
    "top=⊤ bot=⊥ dagger=† lesssim=≲ gtrsim=≳ prec=≺ succ=≻ simeq=≃ triangle=△ Box=□ square=□ "
    "complement=∁ ne=≠ triangleq=≜ doteq=≐ colon=: backslash=∖ therefore=∴ because=∵ imath=ı "
    "nmid=∤ iint=∬ iiint=∭ coprod=∐ bigcup=⋃ bigcap=⋂ ltimes=⋉ rtimes=⋊ asymp=≍ ll=≪ gg=≫"
)
# Functions are written by their name; every other command is a matter of looks.
_FUNCTIONS = frozenset(
    word_list(
        "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp lim max min sup "
        "inf det dim ker gcd arg mod Pr hom bmod liminf limsup"
    )
)
_ACCENTS = {
    "bar": "\u0304", "overline": "\u0304", "hat": "\u0302", "widehat": "\u0302",
    "tilde": "\u0303", "widetilde": "\u0303", "vec": "\u20d7", "dot": "\u0307",
    "ddot": "\u0308", "acute": "\u0301", "grave": "\u0300", "check": "\u030c", "breve": "\u0306",
}  # fmt: skip
_COMMAND = re.compile(r"\\([A-Za-z]+)\*?|\\(.)", re.DOTALL)
_GROUP = r"\s{0,4}\{([^{}]*)\}"
_FRACTION = re.compile(rf"\\(?:[dtc]?frac|tbinom){_GROUP}{_GROUP}")
_SHORT_FRACTION = re.compile(r"\\[dt]?frac\s{0,4}([0-9])\s{0,4}([0-9])")
_BINOMIAL = re.compile(rf"\\[dt]?binom{_GROUP}{_GROUP}|\{{([^{{}}]*)\\choose([^{{}}]*)\}}")
_ROOT = re.compile(rf"\\sqrt\s{{0,4}}(?:\[([^\[\]{{}}]*)\])?{_GROUP}")
_SCRIPT = re.compile(rf"([_^]){_GROUP}")
_ACCENTED = re.compile(
    rf"\\({'|'.join(_ACCENTS)})(?![A-Za-z])\s{{0,4}}(?:\{{([^{{}}]*)\}}|([^\W\d_]))"
)
_STRUCTURES = "|".join(
    [
        "[dtc]?frac",
        "[dt]?binom",
        "sqrt",
        "begin",
        "end",
        "overset",
        "stackrel",
        "underset",
        *_ACCENTS,
    ]
)
_LOOKS = re.compile(rf"\\(?!(?:{_STRUCTURES})(?![A-Za-z]))[A-Za-z]+\*?{_GROUP}")
_DEGREE = re.compile(r"\^\s{0,4}(?:\\circ(?![A-Za-z])|\{\s{0,4}\\circ\s{0,4}\})")
_OVER = re.compile(rf"\\(?:overset|stackrel){_GROUP}{_GROUP}")
_UNDER = re.compile(rf"\\underset{_GROUP}{_GROUP}")
_UNSEEN = re.compile(r"\\(?:color|label|tag|hspace|vspace|[hv]?phantom|mathstrut)\s{0,4}\{[^{}]*\}")
_ROWS = re.compile(
    r"\\begin\s{0,4}\{([a-zA-Z]{1,20})\*?\}(?:\{[lcr| ]*\})?"
    r"((?:(?!\\begin).){0,1000}?)\\end\s{0,4}\{\1\*?\}",
    re.DOTALL,
)
_ROW_END = re.compile(r"\\\\|\\cr(?![A-Za-z])")
_LOOSE = re.compile(r"[(\[] | [)\],.^]")
_BROKEN = re.compile(r"\\(?:begin|end|atop|over|choose|require)\b")
_SPACES = re.compile(r"[\s~]+")
_WORD = re.compile(r"[^\W_]+\Z")
_CALL = re.compile(rf"\b({'|'.join(sorted(_FUNCTIONS))}) (?=[(\[_^])")
_REACTION = re.compile(r"(<=>>?|<<=>|<-->?|<->|->|<-)(?:\[[^\[\]]{0,60}\]){0,2}")
_ARROWS = {"->": "→", "<-": "←", "<->": "↔", "<-->": "⇄"}
_FORMULA_BRACES = str.maketrans("", "", "{}&$")


def formula_words(latex: str) -> str:
    """The formula as text; an ellipsis where it cannot be part of a sentence."""
    latex = latex.strip()
    if not latex:
        return ""
    if len(latex) > MAX_SOURCE_CHARACTERS:
        return UNREADABLE
    for _ in range(MAX_NESTING):
        latex = _ROWS.sub(_rows, latex)
    latex = _COMMAND.sub(_symbol, _DEGREE.sub("°", _UNSEEN.sub("", latex)))
    for _ in range(MAX_NESTING):  # from the inside out
        before = latex
        for pattern, words in _STEPS:
            latex = pattern.sub(words, latex)
        if latex == before:
            break
    if _BROKEN.search(latex):
        return UNREADABLE
    text = (
        _COMMAND.sub("", latex.replace("\\sqrt", "√")).translate(_FORMULA_BRACES).replace("|", "∣")
    )
    return _line(text)


def reaction_words(source: str) -> str:
    """A chemical formula or reaction in mhchem's notation as text: `2H2 + O2 → 2H2O`."""
    text = _REACTION.sub(lambda match: f" {_ARROWS.get(match[1], '⇌')} ", source)
    text = _SPACES.sub(" ", text.translate(_FORMULA_BRACES).replace("\\", "")).strip()
    return _line(text.replace("|", " "))


def _line(text: str) -> str:
    text = _SPACES.sub(" ", text).strip()
    text = _CALL.sub(r"\1", _LOOSE.sub(lambda match: match[0].strip(), text))
    return text if len(text) <= MAX_CHARACTERS else UNREADABLE


def _rows(match: re.Match[str]) -> str:
    """A matrix in brackets, lines of equations and of cases with semicolons between."""
    name, content = match.groups()
    rows = [row.strip() for row in _ROW_END.split(content.replace("&", " "))]
    text = "; ".join(filter(None, rows))
    return f"({text})" if "matrix" in name or name in ("array", "cases") else text


def _fraction(match: re.Match[str]) -> str:
    return _apart(match, "/".join(_operand(part.strip()) for part in match.groups()))


def _binomial(match: re.Match[str]) -> str:
    upper, lower = (part.strip() for part in match.groups() if part is not None)
    return f"({upper} choose {lower})"


def _root(match: re.Match[str]) -> str:
    index, content = match[1], match[2].strip()
    sign = {None: "√", "2": "√", "3": "∛", "4": "∜"}.get(index)
    return f"{sign}{_operand(content)}" if sign else f"{_operand(content)}^(1/{index})"


def _script(match: re.Match[str]) -> str:
    """An index or power, in round brackets unless it is one number or name."""
    mark, content = match[1], match[2].strip()
    if mark == "^" and content in ("st", "nd", "rd", "th"):
        return f"{content} "
    simple = _WORD.match(content.lstrip("-+−\\")) or len(content) < 2
    return f"{mark}{content} " if simple else f"{mark}({content})"


def _accented(match: re.Match[str]) -> str:
    """A letter with its accent; over more than a letter there is none in a line."""
    words = (match[2] if match[2] is not None else match[3]).strip()
    return _apart(match, words + _ACCENTS[match[1]] if len(words) == 1 else words)


def _under(match: re.Match[str]) -> str:
    return _apart(match, f"{match[2].strip()}_({match[1].strip()}) ")


def _operand(part: str) -> str:
    """One side of a fraction bar, in brackets unless it is one number or name."""
    is_plain = _WORD.match(part.lstrip("\\")) or (
        part[:1] == "(" and part.find(")") == len(part) - 1
    )
    return part if is_plain else f"({part})"


def _symbol(match: re.Match[str]) -> str:
    """A command that stands for a character or a name; others stay for the next steps."""
    name, char = match.groups()
    if char is not None:
        return {"{": "(", "}": ")", "%": "%", "&": "&", "|": "∥"}.get(char, " ")
    if name in _FUNCTIONS:
        return f" {name} "
    return _SYMBOLS.get(name, match[0])


def _apart(match: re.Match[str], words: str) -> str:
    """Words, with a space before where they would run into the command in front of them."""
    start = match.start()
    runs_on = start and match.string[start - 1].isascii() and match.string[start - 1].isalpha()
    return f" {words}" if runs_on else words


_STEPS: list[tuple[re.Pattern[str], Callable[[re.Match[str]], str]]] = [
    (_ACCENTED, _accented),
    (_ROOT, _root),
    (_SCRIPT, _script),
    (_FRACTION, _fraction),
    (_SHORT_FRACTION, _fraction),
    (_BINOMIAL, _binomial),
    (_OVER, lambda match: _apart(match, match[2])),
    (_UNDER, _under),
    (_LOOKS, lambda match: _apart(match, match[1])),
]
