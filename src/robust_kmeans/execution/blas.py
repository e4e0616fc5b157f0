"""BLAS on one thread while executions run it inside threads of their own.

The limit is a setting of the process.  Executions may run at the same time in several
threads of the user's, so they count themselves in and out: the first one sets the limit
and the last one restores what it found, in whatever order they end.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from threading import Lock
from types import TracebackType

from threadpoolctl import ThreadpoolController


class _OneBlasThread:
    def __init__(self) -> None:
        self._lock = Lock()
        self._users = 0
        self._controller: ThreadpoolController | None = None
        self._limit: AbstractContextManager[object] | None = None

    def __enter__(self) -> None:
        with self._lock:
            if self._users == 0:
                # Looking through the loaded libraries takes about a millisecond: once is enough.
                self._controller = self._controller or ThreadpoolController()
                self._limit = self._controller.limit(limits=1, user_api="blas")
                self._limit.__enter__()
            self._users += 1

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._lock:
            self._users -= 1
            if self._users == 0 and self._limit is not None:
                self._limit.__exit__(None, None, None)
                self._limit = None


ONE_BLAS_THREAD = _OneBlasThread()
