"""Other published losses under the same call as :func:`partlabel.method.loss.partial_bce`."""
