"""Executions: where chunks live and who runs the steps.

``base``    what every execution offers to the driver loops
``memory``  an array in memory, on a pool of threads
"""
