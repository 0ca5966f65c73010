"""Starting a process tree on Windows, and everything that can be known and done about it by system calls.

A job object takes the place of the process group: whatever a member starts is a member, and when the last handle of the job is
closed, which happens at the latest when our process ends in whatever way, the system ends them all. The child is started
suspended and resumed when it is in the job, so that nothing it starts can slip out.

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

    __all__ = ["ProcessGroup", "spawn"]

    # Seconds to wait for a thread that is known to have nothing left to do but end. It takes microseconds; this is a net.
    ENDING = 1.0
    # The exit code of what we end by force; 128 + 9, as a shell of other systems would say it.
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
        # A program with windows of its own must not have a black one appear. A console is shared: Ctrl-Break goes that way.
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
        """Start a process in a job of its own; see :func:`twopipes._process.posix.spawn`.

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
            # What Popen knows and does not tell: the handle, which cannot come to mean another process, as a number can.
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
        """A process that we started, and all that belongs to its job.

        Attributes:
            pid: Of the process that was started.
            status: How it ended; ``None`` while it runs.
        """

        def __init__(self, process: subprocess.Popen[bytes], job: int) -> None:
            self.pid = process.pid
            self.status: ExitStatus | None = None
            self._process = process
            self._job: int | None = job
            self._lock = threading.RLock()
            self._thread: threading.Thread | None = None

        def watch(self, loop: asyncio.AbstractEventLoop, on_exit: Callable[[], None]) -> None:
            """Have ``on_exit`` called once in the loop, when the process has ended and ``status`` is known."""
            thread = threading.Thread(
                target=self._wait_in_a_thread, args=(loop, on_exit), name=f"twopipes waits for child {self.pid}", daemon=True
            )
            thread.start()
            self._thread = thread  # not before: it may have failed to start

        def unwatch(self) -> None:
            """Free what watching took. The thread ends with the process."""
            if self._thread is not None and self.status is not None and self._thread is not threading.current_thread():
                self._thread.join(ENDING)

        def _wait_in_a_thread(self, loop: asyncio.AbstractEventLoop, on_exit: Callable[[], None]) -> None:
            self._process.wait()
            self.reap()
            with suppress(RuntimeError):  # the loop is closed, and with it everyone who could care
                loop.call_soon_threadsafe(on_exit)

        def reap(self) -> bool:
            """Look, without blocking, whether the process has ended."""
            with self._lock:
                if self.status is None:
                    code = self._process.poll()
                    if code is not None:
                        # Large codes are what Windows calls an exception: 0xC0000005 and its like.
                        self.status = ExitStatus(code=code)
                return self.status is not None

        def is_gone(self) -> bool:
            """Whether no process of the job is left."""
            with self._lock:
                return self.reap() and (self._job is None or self._active() == 0)

        def signal(self, number: int) -> None:
            """Do to the job what the number means here: 15 asks by a Ctrl-Break, 9 ends it."""
            with self._lock:
                if self._job is None or self.is_gone():
                    return
                if number == SIGKILL:
                    _kernel.TerminateJobObject(self._job, KILLED)
                elif number == SIGTERM:
                    # Without a console that we share, nobody hears it; the plan goes on.
                    with suppress(OSError):
                        os.kill(self.pid, signal.CTRL_BREAK_EVENT)
                else:
                    with suppress(OSError, ValueError):
                        self._process.send_signal(number)

        def kill(self) -> None:
            """End all of it, now."""
            self.signal(SIGKILL)
            self.reap()

        def release(self) -> None:
            """Close the handle of the job, which ends whatever is left in it."""
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
