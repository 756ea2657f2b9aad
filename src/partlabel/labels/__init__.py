"""The label table: known (image, class) pairs, and all that is done with them without an image."""
