"""The local page on which people check what a model filled in, and answer what is worth asking.

``answers`` keeps what was answered, ``scores`` are those of the run's model, ``listing`` makes the arrays on disk of
which a ``board`` consists, ``queues`` and ``views`` say what is shown in which order, ``pictures`` makes thumbnails,
``desk`` brings them together, ``security`` guards the door, ``app`` speaks HTTP and ``server`` runs.
"""
