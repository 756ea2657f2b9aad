"""The demo: scenes of handwritten digits from the label table to a figure."""
