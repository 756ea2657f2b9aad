"""Other published losses under the same call as :func:`partlabel.method.loss.partial_bce`, one paper in each module.

Partial-BCE leaves unknown labels out. These losses learn from them: each takes an unknown label as absent at first, and
each has its own way to be wrong about it less. All take scores (N, C) before the sigmoid and labels in {+1, -1, 0}, are
the mean over the C classes and then over the N rows, as equation 1 is, and have the papers' values as defaults. The
papers' programs sum over the classes instead: under SGD their learning rate is C times smaller for the same steps.

Equations are those of the papers; where a paper's own program does something else, the docstring says what was taken.
The programs were written for labels without known absent ones; what happens to those is said, too.
"""
