"""What one does with a run: predict, evaluate, relabel, complete, suspects, next labels, export."""
