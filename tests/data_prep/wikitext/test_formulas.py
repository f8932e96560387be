import pytest

from data_prep.wikitext.formulas import formula_words


@pytest.mark.parametrize(
    ("latex", "expected"),
    [
        (r"E = mc^2\,\!", "E = mc^2"),
        (r"\frac{1329\times10^{-H/5}}{D}", "(1329×10^(-H/5))/D"),
        (r"\sum_{i=1}^n x_i", "∑_(i=1)^n x_i"),
        (r"\mathbf{F}=m\mathbf a", "F=m a"),
        (r"\text{if } x > 0", "if x > 0"),
        (r"\forall x \in \mathbb{R}: x^{\alpha} > 0", "∀ x ∈ R: x^α > 0"),
        (r"\begin{matrix}a\\b\end{matrix}", ""),
        ("x" * 200, ""),
    ],
)
def test_formulas_become_a_line_or_nothing(latex: str, expected: str) -> None:
    assert formula_words(latex) == expected
