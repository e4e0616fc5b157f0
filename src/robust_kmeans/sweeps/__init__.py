"""Sweeps: everything that this library does to data, one reading at a time.

``base``       what a sweep, a chunk and a chunk's state are
``distances``  rows against centres (readings of the rows)
``order``      finding the cut (passes over D²)
``cut``        what the cut is: which rows are outliers
``sampling``   drawing rows (passes over D²)
``coins``      rows that join by a coin of their own (passes over D²)
``seeding``    candidates for a centre, read together and taken one after the other
``rivals``     several sets of centres in one reading
``means``      cluster totals, once the cut is known
``rows``       what is collected row by row: labels, scores, distances
``checks``     the look at the input
"""
