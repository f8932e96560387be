import pytest

from data_prep.wikitext.formulas import UNREADABLE, formula_words, reaction_words


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        (r"E = mc^2\,\!", "E = mc^2"),
        (r"\frac{1329\times10^{-H/5}}{D}", "(1329×10^(-H/5))/D"),
        (r"\sum_{i=1}^n x_i", "∑_(i=1)^n x_i"),
        (r"\mathbf{F}=m\mathbf a", "F=m a"),
        (r"\text{if } x > 0", "if x > 0"),
        (r"\forall x \in \mathbb{R}: x^{\alpha} > 0", "∀ x ∈ R: x^α > 0"),
        (r"~|\alpha\rangle~", "∣α⟩"),
        (r"x_1,\dotsc,x_n", "x_1,…,x_n"),
        (r"(x_i-\bar{x})^2", "(x_i-x̄)^2"),
        (r"\vec{v}\cdot\vec w", "v⃗·w⃗"),
        (r"b \in \{1,2\}", "b ∈ (1,2)"),
        (r"f(\omega)=\frac{1}{\sqrt{2\pi}}", "f(ω)=1/(√2π)"),
        (r"\sqrt[3]{x+1}", "∛(x+1)"),
        (r"{n \choose k} = \binom{n}{n-k}", "(n choose k) = (n choose n-k)"),
        (r"\lim_{n\to\infty} \sin(a_n)", "lim_(n→∞) sin(a_n)"),
        (r"k^{\text{th}}", "kth"),
        (r"90^\circ", "90°"),
        (r"\begin{matrix}a&b\\c&d\end{matrix}", "(a b; c d)"),
        (r"f = \begin{cases}1 & x>0\\0\end{cases}", "f = (1 x>0; 0)"),
        ("", ""),
        (r"\begin{matrix}a", UNREADABLE),
        ("x" * 200, UNREADABLE),
        ("x" * 100_000, UNREADABLE),
    ],
)
def test_formulas_become_a_line_or_an_ellipsis(latex: str, expected: str) -> None:
    assert formula_words(latex) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("2H2 + O2 -> 2H2O", "2H2 + O2 → 2H2O"),
        ("SO4^{2-}", "SO4^2-"),
        ("A <=>[k][\\text{heat}] B", "A ⇌ B"),
    ],
)
def test_reactions_become_a_line(source: str, expected: str) -> None:
    assert reaction_words(source) == expected
