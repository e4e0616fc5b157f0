"""Numba kernels: serial, without the GIL, arrays in and arrays out.

Nothing here knows of threads, chunks, files or random numbers.  A kernel sees one
chunk of rows and is called by one step of one sweep.

``assign``         the nearest centre of each row
``distances``      rows against centres: D² with one more centre, all distances
``swaps``          what it changes to put one centre elsewhere
``order``          counting and finding rows by the size of their D²
``totals``         sums over rows: sampling mass, trimmed cost, means, ranges
``lanes``          many values at once
``row_registers``  whole rows at once: the one D² that is reported
"""
