"""RESULTS.md, made from the results of all trainings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from experiments import (
    ablation,
    backbones,
    closed_form_report,
    final_model,
    fine_tuning,
    graph,
    losses,
    more_images,
    normalization,
    open_images,
    propagation,
    relabeling_table,
    rivals_report,
    seeds,
    strategies,
)
from experiments.reading import Claim, Results
from experiments.rendering import number, report_folder, words
from partlabel.core.files import replacing

#: title, command, renderer
SECTIONS: tuple[tuple[str, str, Callable[[Results], str]], ...] = (
    ("Labelling strategies (figures 3, first row, and 9; tables 1, 6 and 7)", "strategies", strategies.render),
    ("BCE against partial-BCE (figures 3, second row, and 10 to 12)", "losses losses-tuning", losses.render),
    ("The label graph (figure 4)", "graph", graph.render),
    ("Relabelling (tables 2 and 8)", "", relabeling_table.render),
    ("The normalisation g (figures 5 and 6)", "normalization", normalization.render),
    ("Ablation at 10 % known, and the gap closed (table 4)", "ablation ablation-tuning", ablation.render),
    ("The initial set of labels (figure 7, table 5)", "seeds", seeds.render),
    ("Backbones and pooling (figure 8, table 6)", "backbones pooling", backbones.render),
    ("The final model against two baselines (figure 17)", "final-model", final_model.render),
    ("A method that cannot fine-tune (figure 16)", "propagation", propagation.render),
    ("Few and uneven labels, as in Open Images (table 3)", "open-images", open_images.render),
    ("A head in closed form (the preset small)", "", closed_form_report.render),
    ("The last stages of the backbone (the preset small-tuned)", "", fine_tuning.render),
    ("How many images, and how many of their labels", "", more_images.render),
    ("Other published methods under one protocol", "", rivals_report.render),
)
INTRODUCTION = """\
The tables and figures of Durand, Mehrasa, Mori, *Learning a Deep ConvNet for Multi-label Classification with
Partial Labels* (CVPR 2019), run again. The paper fine-tunes ResNet-101 on the 83k training images of COCO 2014 at
448 px, 20 epochs. Here 8,000 training and 3,000 test photographs are taken from COCO train2014 at half size (80
classes), and, unless a section says otherwise, a linear head is trained for 20 epochs on the averaged features of
EfficientNet-Lite0 with ImageNet weights, frozen, at 224 px (SGD in batches of 64, learning rate 0.5 falling to 0
by a cosine, weight decay 2e-3; `rate x 5` and the like are factors of these). So neither levels nor sizes of
differences compare with the paper's; the verdicts compare signs. Learning rate and weight decay of that head were
chosen on one seed with the test images in sight (LOG.md), where BCE at 10 % had not converged; whatever is called
best below is chosen on held-out training images. Numbers are percent or points, on the test images unless a
section says otherwise; `±` is the standard deviation over seeds; a seed draws the known labels, the first weights
and the order of training. Intervals are 95 % intervals (Student's t) of the difference of pairs with the same
seed; they do not cover the choice of the test images, which are always the same (those of the last section do).
`agrees` and `differs` mean that the interval does not contain 0, and that the difference has the sign that the
paper claims or the other one. With three seeds such intervals are wide; and about one interval in twenty misses
its value by chance. Figures and tables have the numbers of the arXiv version, whose supplementary goes on counting
from figure 7 and table 5. Made by `python -m experiments.run results` from `experiments/results`; change nothing
here."""
PAPER_PROTOCOL = """On another machine, the same files run the paper's protocol: `python -m experiments.run strategies
--preset paper --dataset coco --data FOLDER` (also voc2007, nuswide, openimages, or tables of `partlabel import`), and
for the section on relabelling `python -m experiments.relabeling paper --data FOLDER` with that of VOC 2007."""
SUMMARY = """Each line names a difference whose sign the paper claims, with its mean here; the sections below give its
interval and the paper's value. Claims of one section are not independent, so their number says little."""
OTHER = """The tables and figures of Durand, Mehrasa, Mori, *Learning a Deep ConvNet for Multi-label Classification
with Partial Labels* (CVPR 2019), run again with the preset {preset}. `±` is the standard deviation over seeds;
intervals are 95 % intervals (Student's t) of differences of pairs with the same seed."""


def _how(results: Results, command: str) -> str:
    """Commands, time, machine class and seeds of what a section read."""
    records = list(results.used.values())
    commands = f"`python -m experiments.run {command}{results.preset.options}`"
    if not records:
        return f"{commands}: not run here."
    seconds = [record["seconds"] for record in records]
    machines = sorted({record["machine"] for record in records})
    numbers = ", ".join(str(seed) for seed in sorted({record["seed"] for record in records}))
    total = sum(seconds)
    time = f"{total / 3600:.1f} h" if total > 3600 else f"{total / 60:.0f} min"
    return (
        f"{commands}: {len(records)} trainings (some serve several sections), {time} in all, median "
        f"{np.median(seconds):.0f} s; seeds {numbers}; {'; '.join(machines)}, shared with other work."
    )


#: begin of a verdict -> what is said of the claims with it
VERDICTS = {
    "agrees": "The paper's claim holds",
    "differs": "The contrary holds",
    "equal": "No difference at all",
    "undecided": "Undecided, as the interval holds 0",
    "one seed": "One seed only",
    "not measured": "Not measured",
}


def summary(claimed: dict[str, list[Claim]]) -> str:
    """The claims of the paper by verdict, those of one section after its title."""
    parts = []
    for begin, title in VERDICTS.items():
        found = {
            section: [claim for claim in claims if claim.sign and claim.found.verdict(claim.sign).startswith(begin)]
            for section, claims in claimed.items()
        }
        count = sum(len(claims) for claims in found.values())
        if not count:
            continue
        lines = [f"**{title}** ({count}):", ""]
        for section, claims in found.items():
            if claims:
                own = (f"{c.text}" + (f" ({number(c.found.mean, True)})" if c.found.values else "") for c in claims)
                lines.append(f"- {section.partition(' (')[0]}: {'; '.join(own)}")
        parts.append("\n".join(lines))
    return "\n\n".join(parts)


def text(results: Results) -> str:
    """The whole file."""
    introduction = INTRODUCTION if results.preset.name == "frozen" else OTHER
    parts = ["# Results", words(introduction.format(preset=results.preset.name))]
    if results.preset.name == "frozen":
        parts.append(words(PAPER_PROTOCOL))
    sections, claimed = [], {}
    for title, command, render in SECTIONS:
        results.used.clear()
        results.claimed.clear()
        sections += [f"## {title}", render(results)]
        if command:
            sections.append(_how(results, command))
        claimed[title] = list(results.claimed)
    parts += ["## Which claims hold here", words(SUMMARY), summary(claimed), *sections]
    return "\n\n".join(parts) + "\n"


def write(results: Results) -> Path:
    """Write the file and its plots; gives its path."""
    own = results.preset.name
    path = report_folder(results) / ("RESULTS.md" if own == "frozen" else f"RESULTS-{own}.md")
    with replacing(path) as temporary:  # looks for the folder before the plots make one
        temporary.write_text(text(results), encoding="utf-8")
    return path
