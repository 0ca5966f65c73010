"""Start a process tree on Windows, watch it and signal it.

A job object takes the place of the process group: a child of a member is a member too, and when the last handle of the job is
closed, at the latest when our process exits for any reason, the system ends them all. The child is started suspended and resumed
when it is in the job, so that none of its own children can escape.

There are no signals. 15 sends a Ctrl-Break to the child's console group, which a console program may handle, and 9 ends every
process of the job.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import asyncio
    import ctypes
    import os
    import signal
    import subprocess
    import threading
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import suppress
    from ctypes import wintypes

    from twopipes._process.exit_status import SIGKILL, SIGTERM, ExitStatus

    # Seconds to wait for a thread that is about to end. It normally takes microseconds.
    JOIN_TIMEOUT = 1.0
    # The exit code of a killed process: 128 + 9, as a POSIX shell reports SIGKILL.
    KILLED = 137
    CREATE_SUSPENDED = 0x00000004
    JOB_OBJECT_BASIC_ACCOUNTING_INFORMATION = 1
    JOB_OBJECT_EXTENDED_LIMIT_INFORMATION = 9
    JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE = 0x00002000

    class _BasicLimits(ctypes.Structure):
        _fields_ = (
            ("PerProcessUserTimeLimit", ctypes.c_int64),
            ("PerJobUserTimeLimit", ctypes.c_int64),
            ("LimitFlags", wintypes.DWORD),
            ("MinimumWorkingSetSize", ctypes.c_size_t),
            ("MaximumWorkingSetSize", ctypes.c_size_t),
            ("ActiveProcessLimit", wintypes.DWORD),
            ("Affinity", ctypes.c_size_t),
            ("PriorityClass", wintypes.DWORD),
            ("SchedulingClass", wintypes.DWORD),
        )

    class _ExtendedLimits(ctypes.Structure):
        _fields_ = (
            ("BasicLimitInformation", _BasicLimits),
            ("IoInfo", ctypes.c_uint64 * 6),
            ("ProcessMemoryLimit", ctypes.c_size_t),
            ("JobMemoryLimit", ctypes.c_size_t),
            ("PeakProcessMemoryUsed", ctypes.c_size_t),
            ("PeakJobMemoryUsed", ctypes.c_size_t),
        )

    class _Accounting(ctypes.Structure):
        _fields_ = (
            ("TotalUserTime", ctypes.c_int64),
            ("TotalKernelTime", ctypes.c_int64),
            ("ThisPeriodTotalUserTime", ctypes.c_int64),
            ("ThisPeriodTotalKernelTime", ctypes.c_int64),
            ("TotalPageFaultCount", wintypes.DWORD),
            ("TotalProcesses", wintypes.DWORD),
            ("ActiveProcesses", wintypes.DWORD),
            ("TotalTerminatedProcesses", wintypes.DWORD),
        )

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _kernel.CreateJobObjectW.argtypes = (ctypes.c_void_p, wintypes.LPCWSTR)
    _kernel.CreateJobObjectW.restype = wintypes.HANDLE
    _kernel.SetInformationJobObject.argtypes = (wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD)
    _kernel.SetInformationJobObject.restype = wintypes.BOOL
    _kernel.QueryInformationJobObject.argtypes = (
        wintypes.HANDLE,
        ctypes.c_int,
        ctypes.c_void_p,
        wintypes.DWORD,
        ctypes.c_void_p,
    )
    _kernel.QueryInformationJobObject.restype = wintypes.BOOL
    _kernel.AssignProcessToJobObject.argtypes = (wintypes.HANDLE, wintypes.HANDLE)
    _kernel.AssignProcessToJobObject.restype = wintypes.BOOL
    _kernel.TerminateJobObject.argtypes = (wintypes.HANDLE, wintypes.UINT)
    _kernel.TerminateJobObject.restype = wintypes.BOOL
    _kernel.GetConsoleWindow.argtypes = ()
    _kernel.GetConsoleWindow.restype = wintypes.HWND
    _kernel.CloseHandle.argtypes = (wintypes.HANDLE,)
    _kernel.CloseHandle.restype = wintypes.BOOL
    _nt = ctypes.WinDLL("ntdll")
    _nt.NtResumeProcess.argtypes = (wintypes.HANDLE,)
    _nt.NtResumeProcess.restype = ctypes.c_long

    def _check(succeeded: object) -> None:
        if not succeeded:
            raise ctypes.WinError(ctypes.get_last_error())

    def _new_job() -> int:
        job: int | None = _kernel.CreateJobObjectW(None, None)
        if not job:
            raise ctypes.WinError(ctypes.get_last_error())
        try:
            limits = _ExtendedLimits()
            limits.BasicLimitInformation.LimitFlags = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE
            _check(
                _kernel.SetInformationJobObject(
                    job, JOB_OBJECT_EXTENDED_LIMIT_INFORMATION, ctypes.byref(limits), ctypes.sizeof(limits)
                )
            )
        except OSError:
            _kernel.CloseHandle(job)
            raise
        return job

    def _no_window() -> int:
        # A GUI program must not open a console window. Where we have a console it is shared, because Ctrl-Break needs it.
        return 0 if _kernel.GetConsoleWindow() else subprocess.CREATE_NO_WINDOW

    def spawn(
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str,
        stdin: int,
        stdout: int,
        stderr: int,
        die_with_us: bool,
    ) -> ProcessGroup:
        """Start a process in its own job; see :func:`twopipes._process.posix.spawn`.

        Raises:
            OSError: It could not be started.
        """
        job = _new_job()
        try:
            process = subprocess.Popen(
                argv,
                env=env,
                cwd=cwd,
                stdin=stdin,
                stdout=stdout,
                stderr=stderr,
                close_fds=True,
                creationflags=subprocess.CREATE_NEW_PROCESS_GROUP | CREATE_SUSPENDED | _no_window(),
            )
            # Popen has no public attribute for the handle. Unlike the process id, the handle cannot be reused.
            handle = int(process._handle)  # type: ignore[attr-defined]  # noqa: SLF001
            try:
                _check(_kernel.AssignProcessToJobObject(job, handle))
                _check(_nt.NtResumeProcess(handle) >= 0)
            except OSError:
                process.kill()
                process.wait()
                raise
        except OSError:
            _kernel.CloseHandle(job)
            raise
        return ProcessGroup(process, job)

    class ProcessGroup:
        """A process that we started, and its job.

        Attributes:
            pid: The process id.
            status: How the process ended; ``None`` while it runs.
        """

        def __init__(self, process: subprocess.Popen[bytes], job: int) -> None:
            self.pid = process.pid
            self.status: ExitStatus | None = None
            self._process = process
            self._job: int | None = job
            self._lock = threading.RLock()
            self._thread: threading.Thread | None = None

        def watch(self, loop: asyncio.AbstractEventLoop, on_exit: Callable[[], None]) -> None:
            """Call ``on_exit`` once in the loop, when the process has exited and ``status`` is known."""
            thread = threading.Thread(
                target=self._wait_in_thread, args=(loop, on_exit), name=f"twopipes waits for child {self.pid}", daemon=True
            )
            thread.start()
            self._thread = thread  # only now: start() may fail

        def unwatch(self) -> None:
            """Free the resources of :meth:`watch`. The thread ends when the process exits."""
            if self._thread is not None and self.status is not None and self._thread is not threading.current_thread():
                self._thread.join(JOIN_TIMEOUT)

        def _wait_in_thread(self, loop: asyncio.AbstractEventLoop, on_exit: Callable[[], None]) -> None:
            self._process.wait()
            self.reap()
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(on_exit)

        def reap(self) -> bool:
            """Return, without blocking, whether the process has exited."""
            with self._lock:
                if self.status is None:
                    code = self._process.poll()
                    if code is not None:
                        # Large codes are Windows exceptions, such as 0xC0000005.
                        self.status = ExitStatus(code=code)
                return self.status is not None

        def is_gone(self) -> bool:
            """Whether no process of the job is left."""
            with self._lock:
                return self.reap() and (self._job is None or self._active() == 0)

        def signal(self, number: int) -> None:
            """Apply a signal number to the job: 15 sends a Ctrl-Break, 9 ends every process."""
            with self._lock:
                if self._job is None or self.is_gone():
                    return
                if number == SIGKILL:
                    _kernel.TerminateJobObject(self._job, KILLED)
                elif number == SIGTERM:
                    # Without a shared console it is not delivered; the plan continues.
                    with suppress(OSError):
                        os.kill(self.pid, signal.CTRL_BREAK_EVENT)
                else:
                    with suppress(OSError, ValueError):
                        self._process.send_signal(number)

        def kill(self) -> None:
            """End every process of the job."""
            self.signal(SIGKILL)
            self.reap()

        def release(self) -> None:
            """Close the handle of the job, which ends every process that is left in it."""
            with self._lock:
                job, self._job = self._job, None
            if job is not None:
                _kernel.CloseHandle(job)

        def _active(self) -> int:
            found = _Accounting()
            if not _kernel.QueryInformationJobObject(
                self._job, JOB_OBJECT_BASIC_ACCOUNTING_INFORMATION, ctypes.byref(found), ctypes.sizeof(found), None
            ):
                return 0
            return int(found.ActiveProcesses)
