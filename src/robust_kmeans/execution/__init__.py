"""Executions: where chunks live and who runs the steps.

``base``    what every execution offers to the driver loops
``threads`` chunks that the threads of this process work on
``memory``  an array in memory
``disk``    rows on a disk
``dask``    a dask array: on a cluster (``dask_cluster``, ``dask_worker``) or in this process
"""
