"""Start a process tree on Windows, watch it and signal it.

A job object takes the place of the process group: a child of a member is a member too, and when the last handle of the job is
closed, at the latest when our process exits for any reason, the system ends them all, unless the command says otherwise. The child
is started suspended and resumed when it is in the job, so that none of its own children can escape.

There are no signals. 15 sends a Ctrl-Break to the child's console group, which a console program may handle, and 9 ends every
process of the job. Other numbers do nothing. A Ctrl-Break needs a console that both processes share.
"""

from __future__ import annotations

import sys

if sys.platform == "win32":
    import ctypes
    import os
    import subprocess
    from collections.abc import Mapping
    from ctypes import wintypes
    from typing import Any

    from twopipes._process.batch_file import batch_command_line, is_batch_file
    from twopipes._process.exit_status import SIGKILL, SIGTERM, ExitStatus
    from twopipes._process.process_group import Launch, ProcessGroup

    # The exit code of a killed process: 128 + 9, as a POSIX shell reports SIGKILL.
    KILLED = 137
    CREATE_SUSPENDED = 0x00000004
    CTRL_BREAK_EVENT = 1
    JOB_OBJECT_BASIC_ACCOUNTING_INFORMATION = 1
    JOB_OBJECT_EXTENDED_LIMIT_INFORMATION = 9
    # A daemon may leave the job on purpose, as it may leave a process group elsewhere.
    JOB_OBJECT_LIMIT_BREAKAWAY_OK = 0x00000800
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
            ("Memory", ctypes.c_size_t * 4),  # two limits and two peaks, which are not used
        )

    class _Accounting(ctypes.Structure):
        _fields_ = (
            ("Times", ctypes.c_int64 * 4),
            ("TotalPageFaultCount", wintypes.DWORD),
            ("TotalProcesses", wintypes.DWORD),
            ("ActiveProcesses", wintypes.DWORD),
            ("TotalTerminatedProcesses", wintypes.DWORD),
        )

    _kernel = ctypes.WinDLL("kernel32", use_last_error=True)
    _nt = ctypes.WinDLL("ntdll")
    # Each function with the types of its result and its arguments.
    _PROTOTYPES: tuple[tuple[Any, ...], ...] = (
        (_kernel.CreateJobObjectW, wintypes.HANDLE, ctypes.c_void_p, wintypes.LPCWSTR),
        (_kernel.SetInformationJobObject, wintypes.BOOL, wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD),
        (
            *(_kernel.QueryInformationJobObject, wintypes.BOOL),
            *(wintypes.HANDLE, ctypes.c_int, ctypes.c_void_p, wintypes.DWORD, ctypes.c_void_p),
        ),
        (_kernel.AssignProcessToJobObject, wintypes.BOOL, wintypes.HANDLE, wintypes.HANDLE),
        (_kernel.TerminateJobObject, wintypes.BOOL, wintypes.HANDLE, wintypes.UINT),
        (_kernel.GetConsoleCP, wintypes.UINT),
        (_kernel.GetSystemDirectoryW, wintypes.UINT, wintypes.LPWSTR, wintypes.UINT),
        (_kernel.GenerateConsoleCtrlEvent, wintypes.BOOL, wintypes.DWORD, wintypes.DWORD),
        (_kernel.CloseHandle, wintypes.BOOL, wintypes.HANDLE),
        (_nt.NtResumeProcess, ctypes.c_long, wintypes.HANDLE),
    )
    for _function, _result, *_arguments in _PROTOTYPES:
        _function.restype, _function.argtypes = _result, _arguments

    def _check(succeeded: object) -> None:
        if not succeeded:
            raise ctypes.WinError(ctypes.get_last_error())

    def _new_job(*, die_with_us: bool) -> int:
        job: int = _kernel.CreateJobObjectW(None, None)
        _check(job)
        limits = _ExtendedLimits()
        on_close = JOB_OBJECT_LIMIT_KILL_ON_JOB_CLOSE if die_with_us else 0
        limits.BasicLimitInformation.LimitFlags = on_close | JOB_OBJECT_LIMIT_BREAKAWAY_OK
        kind = JOB_OBJECT_EXTENDED_LIMIT_INFORMATION
        try:
            _check(_kernel.SetInformationJobObject(job, kind, ctypes.byref(limits), ctypes.sizeof(limits)))
        except OSError:
            _kernel.CloseHandle(job)
            raise
        return job

    def _has_console() -> bool:
        # Not GetConsoleWindow: a program that was itself started with CREATE_NO_WINDOW has a console without a window.
        return bool(_kernel.GetConsoleCP())

    def _system_folder() -> str:
        # Not from the environment, which may lack SYSTEMROOT or name another folder.
        buffer = ctypes.create_unicode_buffer(wintypes.MAX_PATH)
        _check(_kernel.GetSystemDirectoryW(buffer, len(buffer)))
        return buffer.value

    def spawn(
        launch: Launch, *, env: Mapping[str, str], cwd: str, streams: tuple[int, int, int], die_with_us: bool
    ) -> ProcessGroup:
        """Start a process in its own job; see :func:`twopipes._process.posix.spawn`."""
        job = _new_job(die_with_us=die_with_us)
        try:
            stdin, stdout, stderr = streams
            shares_console = _has_console()
            flags = subprocess.CREATE_NEW_PROCESS_GROUP | CREATE_SUSPENDED
            if not shares_console:
                flags |= subprocess.CREATE_NO_WINDOW  # a GUI program must not open a console window
            command: list[str] | str = launch.argv
            shell = None
            if is_batch_file(launch.argv[0]):
                command, shell = batch_command_line(launch.argv), os.path.join(_system_folder(), "cmd.exe")
            streams_of_child: dict[str, Any] = {"stdin": stdin, "stdout": stdout, "stderr": stderr}
            process = subprocess.Popen(
                command, executable=shell, env=env, cwd=cwd, **streams_of_child, creationflags=flags, close_fds=True
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
        return _Job(process, job, shares_console=shares_console)

    class _Job(ProcessGroup):
        def __init__(self, process: subprocess.Popen[bytes], job: int, *, shares_console: bool) -> None:
            super().__init__(process)
            self.has_sigterm = shares_console
            self._job: int | None = job

        def _wait(self) -> None:
            self._process.wait()
            self.reap()

        def reap(self) -> bool:
            with self._lock:
                if self.status is None and (code := self._process.poll()) is not None:
                    # Large codes are Windows exceptions, such as 0xC0000005.
                    self.status = ExitStatus(code=code)
                return self.status is not None

        def is_gone(self) -> bool:
            with self._lock:
                if self._job is not None and self.reap() and self._active() == 0:
                    _kernel.CloseHandle(self._job)
                    self._job = None
                return self._job is None

        def signal(self, number: int) -> None:
            with self._lock:
                if self.is_gone():
                    return
                if number == SIGKILL:
                    _kernel.TerminateJobObject(self._job, KILLED)
                elif number == SIGTERM and self.has_sigterm:
                    # Not os.kill: where the event cannot be sent, it ends the process, and Python 3.11 raises a SystemError
                    # (cpython issue 87128). A Ctrl-Break that fails changes nothing, and the plan continues.
                    _kernel.GenerateConsoleCtrlEvent(CTRL_BREAK_EVENT, self.pid)

        def _active(self) -> int:
            found = _Accounting()
            if not _kernel.QueryInformationJobObject(
                self._job, JOB_OBJECT_BASIC_ACCOUNTING_INFORMATION, ctypes.byref(found), ctypes.sizeof(found), None
            ):
                return 0
            return int(found.ActiveProcesses)
