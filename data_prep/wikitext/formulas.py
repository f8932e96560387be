r"""LaTeX formulas as a line of text: `\alpha_1 \leq x^2` -> `α1 ≤ x^2`."""

import re

from data_prep.wikitext.tables import entries, word_list

MAX_CHARACTERS = 80
"""A longer formula is no part of a sentence any more; it leaves a hole."""

MAX_NESTING = 3
"""Fractions and powers inside one another are read so deep."""

_SYMBOLS = entries(
    "alpha=α beta=β gamma=γ delta=δ epsilon=ε varepsilon=ε zeta=ζ eta=η theta=θ vartheta=θ iota=ι "
    "kappa=κ lambda=λ mu=μ nu=ν xi=ξ pi=π rho=ρ sigma=σ tau=τ upsilon=υ phi=φ varphi=φ chi=χ "
    "psi=ψ omega=ω Gamma=Γ Delta=Δ Theta=Θ Lambda=Λ Xi=Ξ Pi=Π Sigma=Σ Upsilon=Υ Phi=Φ Psi=Ψ "
    "Omega=Ω times=× cdot=· div=÷ pm=± mp=∓ leq=≤ le=≤ geq=≥ ge=≥ neq=≠ ne=≠ approx=≈ equiv=≡ "
    "sim=~ cong=≅ propto=∝ infty=∞ partial=∂ nabla=∇ sum=∑ prod=∏ int=∫ oint=∮ sqrt=√ in=∈ "
    "notin=∉ ni=∋ subset=⊂ subseteq=⊆ supset=⊃ supseteq=⊇ cup=∪ cap=∩ emptyset=∅ varnothing=∅ "
    "setminus=∖ forall=∀ exists=∃ neg=¬ lnot=¬ land=∧ wedge=∧ lor=∨ vee=∨ oplus=⊕ otimes=⊗ "
    "to=→ rightarrow=→ longrightarrow=→ leftarrow=← Rightarrow=⇒ Leftarrow=⇐ iff=⇔ "
    "leftrightarrow=↔ Leftrightarrow=⇔ mapsto=↦ circ=∘ bullet=• star=⋆ ast=∗ dots=… ldots=… "
    "cdots=⋯ vdots=⋮ prime=′ angle=∠ perp=⊥ parallel=∥ hbar=ℏ ell=ℓ Re=ℜ Im=ℑ aleph=ℵ "
    "langle=⟨ rangle=⟩ lfloor=⌊ rfloor=⌋ lceil=⌈ rceil=⌉ mid=| vert=| degree=° ll=≪ gg=≫"
)
# Functions are written by their name; every other command is a matter of looks.
_FUNCTIONS = frozenset(
    word_list(
        "sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh log ln lg exp lim max min sup "
        "inf det dim ker gcd deg arg mod Pr hom bmod"
    )
)
_COMMAND = re.compile(r"\\([A-Za-z]+)\*?|\\(.)", re.DOTALL)
_FRACTION = re.compile(r"\\[dt]?frac\s{0,4}\{([^{}]*)\}\s{0,4}\{([^{}]*)\}")
_SCRIPT = re.compile(r"([_^])\s{0,4}\{([^{}]*)\}")
_LOOSE = re.compile(r"[(\[] | [)\],.^]")
_ENVIRONMENT = re.compile(r"\\(?:begin|end|atop|over|choose|xrightarrow|overset|underset)\b")
_SPACES = re.compile(r"\s+")
_WORD = re.compile(r"[^\W_]+\Z")


def formula_words(latex: str) -> str:
    """The formula as text, or the empty string where it would be no part of a sentence."""
    latex = latex.strip()
    if len(latex) > 4 * MAX_CHARACTERS or _ENVIRONMENT.search(latex):
        return ""
    for _ in range(MAX_NESTING):  # from the inside out
        latex = _FRACTION.sub(_fraction, _SCRIPT.sub(_script, latex))
    text = _COMMAND.sub(_command, latex)
    text = _SPACES.sub(" ", text.replace("{", "").replace("}", "").replace("&", "")).strip()
    text = _LOOSE.sub(lambda match: match[0].strip(), text)
    return text if len(text) <= MAX_CHARACTERS else ""


def _fraction(match: re.Match[str]) -> str:
    return "/".join(_operand(part.strip()) for part in match.groups())


def _script(match: re.Match[str]) -> str:
    """An index or power, in round brackets unless it is one number or name."""
    mark, content = match[1], match[2].strip()
    simple = _WORD.match(content.lstrip("-+−\\")) or len(content) < 2
    return f"{mark}{content} " if simple else f"{mark}({content})"


def _operand(part: str) -> str:
    """One side of a fraction bar, in brackets unless it is one number or name."""
    return part if _WORD.match(part.lstrip("\\")) else f"({part})"


def _command(match: re.Match[str]) -> str:
    name, char = match.groups()
    if char is not None:
        return {"{": "{", "}": "}", "\\": " ", "%": "%", "&": "&", "|": "∥"}.get(char, " ")
    if name in _FUNCTIONS:
        return f" {name} "
    return _SYMBOLS.get(name, "")
