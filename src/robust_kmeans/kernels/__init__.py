"""Numba kernels: without the GIL, arrays in and arrays out.

Nothing here knows of chunks, files or random numbers, and of threads only that they may take
parts of the work (`team`).  A kernel sees one chunk of rows and is called by one step of one sweep.

``assign``         the nearest centre of each row
``candidates``     rows that candidates for a new centre would win
``distances``      rows against centres: tiles of rows, all distances
``coins``          a uniform number for each row, and who joins by it
``swaps``          what it changes to put one centre elsewhere
``order``          counting and finding rows by the size of their D²
``team``           parts of a kernel's work, done by threads that are awake
``totals``         sums over rows: sampling mass, trimmed cost, means, ranges
``lanes``          many values at once
``bits``           which of them a comparison has found
``row_registers``  whole rows at once: the one D² that is reported
``row_blocks``     the same of as many narrow rows as a register has values
``tiles``          rows transposed
``scores``         centres compared by inner products; what that leaves open: ``doubts``
"""
