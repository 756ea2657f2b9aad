"""The record builder against a naive reading: votes, models beside people, images that nobody looked at."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partlabel.core.errors import UserError
from partlabel.formats.record_options import RecordOptions
from partlabel.formats.records import Records, before_sigmoid, is_probability, listed
from partlabel.formats.report import ImportReport
from partlabel.labels.pairs import MODEL

CLASSES = ["bird", "cat", "dog"]
#: image, whether somebody answered, whether that was a model, class -> value
RECORD = st.tuples(
    st.sampled_from("ab"),
    st.booleans(),
    st.booleans(),
    st.dictionaries(st.sampled_from(CLASSES), st.sampled_from([1, 1, -1]), max_size=3),
)


def naive(records, weak, not_listed, *, votes):
    """Return (image, class) -> value and origin of the known labels, by the majority."""
    result = {}
    for image in dict.fromkeys(record[0] for record in records):
        own = [record for record in records if record[0] == image]
        answers = [r for r in own if r[1] and not (r[2] and weak == "ignore")]
        chosen = {name for r in answers for name, value in r[3].items() if value > 0}
        for name in CLASSES:
            said = {0: [], MODEL: []}
            uncertain = False
            for _, answered, model, labels in own:
                if model and weak == "ignore":
                    uncertain = uncertain or name in labels
                elif name in labels:
                    said[MODEL if model else 0].append(labels[name])
                elif votes and answered and name in chosen and not_listed == "absent" and len(answers) > 1:
                    said[MODEL if model else 0].append(-1)
            origin = 0 if said[0] or uncertain or not said[MODEL] else MODEL
            value = int(np.sign(sum(said[origin])))
            if not said[0] and not said[MODEL] and not uncertain and answers and not_listed == "absent":
                value, origin = -1, MODEL if all(r[2] for r in answers) else 0
            if value:
                result[image, name] = (value, origin)
    return result


@given(
    st.lists(RECORD, min_size=1, max_size=6),
    st.sampled_from(["ignore", "keep"]),
    st.sampled_from(["unknown", "absent"]),
    st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_records_against_a_naive_reading(said, weak, not_listed, votes):
    said = [(image, answered or bool(labels), model, labels) for image, answered, model, labels in said]
    options = RecordOptions(not_listed=not_listed, conflicts="majority", classes=CLASSES)
    records = Records(ImportReport("f", "test"), options, weak=weak)
    for image, answered, model, labels in said:
        records.begin(image, answered=answered, model=model)
        for name, value in labels.items():
            records.say([name], value, origin=MODEL if model else 0, score=value * 2.0 if model else math.nan)
    table = records.finish(lambda rows, _: [f"f:{row + 1}" for row in rows], votes=votes)
    names = table.images.to_pylist()
    pairs = zip(table.pair_images().tolist(), table.indices.tolist(), strict=True)
    found = {
        (names[i], CLASSES[c]): (int(value), int(origin))
        for (i, c), value, origin in zip(pairs, table.values, table.origin, strict=True)
    }
    assert found == naive(said, weak, not_listed, votes=votes)
    if table.score is not None:
        assert np.isnan(table.score[table.origin != MODEL]).all()


def test_what_cannot_be_read_is_counted_and_named():
    records = Records(ImportReport("f", "test"), RecordOptions())
    records.refuse(f"f:{n}" for n in range(2500))
    with pytest.raises(UserError, match="f: 2,500 lines cannot be read") as caught:
        records.check("f", "line")
    assert caught.value.offenders[:2] == ["f:0", "f:1"]


def test_probabilities():
    assert before_sigmoid(0.75) == pytest.approx(math.log(3))
    assert [before_sigmoid(p) for p in (0, 0.5, 1)] == pytest.approx([-16.118, 0, 16.118], abs=1e-3)
    assert Counter(map(is_probability, [0, 1, 0.5, True, "1", None, 2, -0.1, math.nan])) == {True: 3, False: 6}


def test_lists_written_as_text():
    texts = {
        "['a', 'b']": ["a", "b"],
        ' ["a"]': ["a"],
        "[]": [""],
        "[x]": ["[x]"],
        "['a'": ["['a'"],
        "[a] b": ["[a] b"],
    }
    for text, names in texts.items():
        assert listed(text) == names
    for text in ("[1, 0, 1]", "['a', 3]", "[[]]", '["a", null]'):
        with pytest.raises(ValueError, match="something else than names"):
            listed(text)
