"""Numba kernels: serial, without the GIL, arrays in and arrays out.

Nothing here knows of threads, chunks, files or random numbers.  A kernel sees one
chunk of rows and is called by one step of one sweep.  Three modules:

``distances``  rows against centres: the only place where a distance is computed
``order``      counting and finding rows by the size of their D²
``totals``     sums over rows: sampling mass, trimmed cost, means, ranges
"""
