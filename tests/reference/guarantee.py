"""The p-value of a precision, with every probability counted out."""

from math import comb, floor


def p_value(wrong: int, tested: int, filled: int, precision: float) -> float:
    """The larger one of the binomial and the hypergeometric tail."""
    q = 1 - precision
    binomial = sum(comb(tested, k) * q**k * (1 - q) ** (tested - k) for k in range(wrong + 1))
    # the fewest mistakes in all with which too many are among the labels filled in
    mistakes = min(wrong + floor(q * filled + 1e-9) + 1, tested + filled)
    ways = comb(tested + filled, tested)
    realised = sum(comb(mistakes, k) * comb(tested + filled - mistakes, tested - k) for k in range(wrong + 1)) / ways
    return max(binomial, realised)
