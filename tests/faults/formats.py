"""Faults of the annotation formats."""

from __future__ import annotations

from tests.faults.fault import Fault

CODING = "formats/test_coding.py"
CASES = "formats/test_table_cases.py"

FAULTS = [
    Fault(
        "formats/coding.py",
        "words are case sensitive",
        "text = value.strip().casefold()",
        "text = value.strip()",
        f"{CODING} {CASES}",
    ),
    Fault(
        "formats/coding.py",
        "-1 and 0 without a 1 are native",
        'seen == {"1", "-1", "0"}',
        'seen <= {"1", "-1", "0", ""}',
        f"{CODING} {CASES}",
    ),
    Fault(
        "formats/coding.py",
        "uncertain counts as absent",
        'chexpert="1=present 0=absent -1=uncertain blank=unknown"',
        'chexpert="1=present 0=absent -1=absent blank=unknown"',
        f"{CODING} formats/test_chexpert.py {CASES}",
    ),
    Fault(
        "formats/coding.py",
        "a second meaning of a value wins",
        "elif codes.setdefault(token, code) != code:",
        "elif codes.update({token: code}):",
        CODING,
    ),
    Fault(
        "formats/source.py",
        "the last statement wins a contradiction",
        'value[clash] = {"present": 1, "absent": -1}.get(policy, 0)',
        'value[clash] = {"present": 1, "absent": -1}.get(policy, 1)',
        "formats/test_spine.py formats/test_assemble.py",
    ),
    Fault(
        "formats/source.py",
        "nobody looked becomes absent",
        "value.reshape(num_images, num_classes)[self.unlabelled] = 0",
        "pass",
        "formats/test_spine.py formats/test_cvat.py formats/test_yolo.py",
    ),
    Fault(
        "formats/source.py",
        "uncertain pairs become absent",
        "value[listed] = self.value\n",
        "value[listed] = np.where(self.value == 0, -1, self.value)\n",
        "formats/test_spine.py formats/test_coco.py formats/test_voc.py formats/test_voc_random.py",
    ),
    Fault(
        "formats/source.py",
        "a machine's label stays beside a person's",
        "lost = self.yields & plain",
        "lost = self.yields & False",
        "formats/test_spine.py formats/test_openimages.py",
    ),
    Fault(
        "formats/coco.py",
        "classes that were looked for are unknown",
        "value[len(annotations) :] = -1",
        "value[len(annotations) :] = 0",
        "formats/test_coco.py",
    ),
    Fault(
        "formats/coco.py",
        "category ids are positions",
        "found = np.fromiter(map(positions.get, ids, repeat(-1)), np.int32, len(ids))",
        "found = np.fromiter((int(number) - 1 for number in ids), np.int32, len(ids))",
        "formats/test_coco.py",
    ),
    Fault(
        "formats/yolo.py",
        "an image without a text file was looked at",
        "unlabelled=np.array([text is None for text in found.images.values()], bool),",
        "unlabelled=None,",
        "formats/test_yolo.py",
    ),
    Fault(
        "formats/voc/class_lists.py",
        "difficult counts as present",
        "np.where(value == 0, DIFFICULT[options.difficult], value),",
        "np.where(value == 0, 1, value),",
        "formats/test_voc.py formats/test_voc_random.py",
    ),
    Fault(
        "formats/openimages/rows.py",
        "a weak label counts as a person's",
        "np.where(codes == _WEAK, np.int8(_PRESENT), codes)[pair]",
        "np.where(codes == _WEAK, np.int8(_ABSENT), codes)[pair]",
        "formats/test_openimages.py",
    ),
]
