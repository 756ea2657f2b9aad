"""From a label table and images to a run folder."""
