import numpy as np
from onnx import TensorProto, helper

from partlabel.tasks.quantize import Change, _single_precision, change


def test_change_by_hand():
    """At thresholds 0 and 1: one decision goes, one comes, one stays by equality."""
    before = np.array([[0.5, 1.0], [-0.25, 0.0]], np.float32)
    after = np.array([[-0.5, 1.0], [0.0, 0.5]], np.float32)
    found = change(before, after, np.array([0.0, 1.0], np.float32))
    assert found == Change(2, largest=1.0, mean=0.4375, decisions=2, pairs=4, present_before=2, present_after=2)


def test_pixels_and_head_stay_as_they_are():
    """cast -> scale | conv -> relu -> conv | two classifiers -> matmul -> add: INT8 is between the bars."""

    def node(kind, name, *inputs, output=None):
        return helper.make_node(kind, list(inputs), [output or name], name=name)

    nodes = [
        node("Cast", "cast", "images"),
        node("Mul", "scale", "cast", "w"),
        node("Conv", "stem", "scale", "w"),
        node("Relu", "relu", "stem"),
        node("Conv", "last", "relu", "w"),
        node("ReduceMean", "mean", "last"),
        node("Conv", "classifier", "mean", "w"),
        node("Conv", "other", "mean", "w"),
        node("MatMul", "graph", "other", "w"),
        node("Add", "sum", "classifier", "graph", output="scores"),
    ]
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, None) for n in ("images", "scores")]
    graph = helper.make_graph(nodes, "g", [ends[0]], [ends[1]])
    assert _single_precision(graph) == ["cast", "scale", "classifier", "other", "graph", "sum"]
