"""A helper process that ends process groups, or single processes, when its owner dies.

It is a shell that reads a control pipe. We hold the only other end, so the kernel delivers EOF when our process ends for any
reason: SIGKILL, a crash, ``os._exit``. Then everything that is still registered gets SIGTERM, a grace period, and SIGKILL. It
works on every POSIX system, reaches all members of a group, and costs about one millisecond and 100 kB. See docs/decisions/0026.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from contextlib import suppress

TYPE_CHECKING = False  # type checkers treat it as true; `twopipes tap` imports this module, and importing typing is slow
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

if sys.platform != "win32":
    import fcntl

    # Absolute paths: PATH is not searched. Without a shell there is no watchdog; a killed owner's children then only see EOF.
    SHELLS = ("/bin/sh", "/system/bin/sh")
    # For `sleep` and `ls`. The owner's environment is not passed on: it may contain secrets, and the script needs none of it.
    ENVIRONMENT = {"PATH": "/usr/bin:/bin:/run/current-system/sw/bin"}
    # Polls per second during the grace period.
    POLLS = 10
    # How often one change may start the helper: once, and once more if it turns out to be dead.
    ATTEMPTS = 2

    # The initial entries are an argument; a line "+ entry" or "- entry" changes them. An entry is an argument of `kill`: a process
    # id, or a group id with a minus sign. For a child that is being launched it is "pipe:" and the inode of its stdin pipe. Its
    # group is then found in /proc, by the processes that have this pipe as stdin. This works by the time EOF arrives: until the
    # forked child executes its program, it holds a copy of our end of the control pipe. The trap sends SIGKILL even if the shell
    # gives up because it cannot fork. Entries 0 and 1 are skipped: `kill` would signal other processes.
    SCRIPT = r"""
trap '' HUP INT QUIT ALRM TERM USR1 USR2
cd /
entries=" $2 "
while read -r change entry; do
    case $change in
        +) entries="$entries$entry " ;;
        -) case $entries in
               *" $entry "*) entries="${entries%%" $entry "*} ${entries#*" $entry "}" ;;
           esac ;;
    esac
done

send() {
    case ${2#-} in '' | 0 | 1 | *[!0-9]*) return 1 ;; esac
    kill -"$1" "$2" 2>/dev/null
}

groups_of_pipe() {
    ls -l /proc/[0-9]*/fd/0 2>/dev/null | while read -r line; do
        case $line in
            *"/fd/0 -> pipe:[$1]")
                process=${line##*/proc/}
                read -r status <"/proc/${process%%/*}/stat" && group_in ${status##*) } ;;
        esac
    done
}

group_in() {
    echo "-$3"
}

polls=$1
targets=
trap 'for target in $targets; do send KILL "$target"; done' EXIT
for entry in $entries; do
    case $entry in pipe:*) ;; *) targets="$targets $entry" ;; esac
done
for entry in $entries; do
    case $entry in pipe:*) targets="$targets $(groups_of_pipe "${entry#pipe:}")" ;; esac
done
if [ "$polls" -gt 0 ]; then
    for target in $targets; do send TERM "$target"; done
fi
while [ -n "$targets" ] && [ "$polls" -gt 0 ]; do
    sleep 0.1 || exit
    polls=$((polls - 1))
    left=
    for target in $targets; do
        send 0 "$target" && left="$left $target"
    done
    targets=$left
done
"""

    class GroupWatchdog:
        """Ends all registered processes when this process has died. The helper runs while anything is registered.

        All methods may be called from any thread, and by finalizers. They never raise because of the helper: if it cannot be
        started, the children of a killed owner still see EOF on stdin. If it was killed, the next change replaces it.

        Args:
            grace: Seconds between SIGTERM and SIGKILL. With 0 there is no SIGTERM.
        """

        def __init__(self, grace: float) -> None:
            self._polls = round(grace * POLLS)
            # Reentrant: a garbage collection during a change may run the finalizer of a child, which removes an entry.
            self._lock = threading.RLock()
            self._wanted: dict[str, None] = {}
            self._sent: dict[str, None] = {}
            self._is_syncing = False
            self._pid: int | None = None
            self._control_w = -1
            # A fork must not hold the control pipe, or EOF would not arrive before the fork exits as well.
            os.register_at_fork(before=self._lock.acquire, after_in_parent=self._lock.release, after_in_child=self._forked)

        def expect(self, stdin: int) -> str:
            """Register a child before it is launched, so that it is found even if we die during the launch.

            ``stdin`` is the read end of its standard input. Returns the entry, for :meth:`add` or :meth:`remove`.
            """
            entry = f"pipe:{os.fstat(stdin).st_ino}"
            with self._lock:
                self._wanted[entry] = None
                self._sync()
            return entry

        def add(self, group: int, expected: str) -> None:
            """Register a group. It replaces the entry that was made before the launch."""
            with self._lock:
                self._wanted[f"-{group}"] = None
                self._wanted.pop(expected, None)
                self._sync()

        def remove(self, entry: int | str) -> None:
            """Remove a group or a failed launch. From now on the number of the group may be reused by others."""
            with self._lock:
                self._wanted.pop(entry if isinstance(entry, str) else f"-{entry}", None)
                self._sync()

        def watch_processes(self, pids: Iterable[int]) -> None:
            """Replace all entries by these processes."""
            with self._lock:
                self._wanted = dict.fromkeys(map(str, sorted(pids)))
                self._sync()

        def _sync(self) -> None:
            """Bring the helper up to date. A call that was interrupted by a nested call also sends the nested changes."""
            if self._is_syncing:
                return
            self._is_syncing = True
            try:
                failures = 0
                while list(self._wanted) != list(self._sent) and failures < ATTEMPTS:
                    wanted, sent = list(self._wanted), list(self._sent)
                    if not wanted:
                        self._stop()
                    elif self._pid is None:
                        self._start(wanted)
                    elif not self._send_changes(wanted, sent):
                        self._stop()  # it was killed, or is stopped and does not read; replace it
                        failures += 1
            except OSError:
                pass  # no shell, or too many processes or descriptors; the next change tries again
            finally:
                self._is_syncing = False

        def _send_changes(self, wanted: list[str], sent: list[str]) -> bool:
            # New entries first, in one write: a launch becomes a group without a moment in which neither is registered.
            changes = [f"+ {entry}\n" for entry in wanted if entry not in self._sent]
            changes += [f"- {entry}\n" for entry in sent if entry not in self._wanted]
            data = "".join(changes).encode()
            try:
                if os.write(self._control_w, data) != len(data):
                    return False
            except (BrokenPipeError, BlockingIOError):
                return False
            self._sent = dict.fromkeys(wanted)
            return True

        def _start(self, wanted: list[str]) -> None:
            control_r, self._control_w = map(_above_the_standard_streams, os.pipe())
            try:
                os.set_blocking(self._control_w, False)
                self._pid = _spawn(control_r, self._polls, wanted)
                self._sent = dict.fromkeys(wanted)
            except BaseException:
                os.close(self._control_w)
                raise
            finally:
                os.close(control_r)

        def _stop(self) -> None:
            pid, self._pid, self._sent = self._pid, None, {}
            with suppress(ChildProcessError, ProcessLookupError):
                # Raises if the program has already waited for all its children. Then the number may belong to another process.
                if pid is not None and os.waitpid(pid, os.WNOHANG)[0] == 0:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
            os.close(self._control_w)  # only when it is dead: it would take EOF for our death

        def _forked(self) -> None:
            if self._pid is not None:
                os.close(self._control_w)
            self._pid, self._wanted, self._sent = None, {}, {}
            self._lock.release()

    def inheritable_descriptors() -> list[int]:
        """Return the open descriptors, beyond the standard streams, that an executed program would inherit."""
        found: list[int] = []
        with suppress(OSError):  # some sandboxes have no /dev/fd
            for name in os.listdir("/dev/fd"):
                descriptor = int(name)
                with suppress(OSError):  # the descriptor that listed the folder is closed by now
                    if descriptor > 2 and os.get_inheritable(descriptor):
                        found.append(descriptor)
        return found

    def spawn_in_session(
        spawn: Callable[..., int], program: str, argv: Sequence[str], environment: Mapping[str, str], options: Mapping[str, object]
    ) -> int:
        """Start a program in its own session, or at least in its own group: signals to our group do not reach it."""
        try:
            return spawn(program, argv, environment, setsid=True, **options)
        except NotImplementedError:
            return spawn(program, argv, environment, setpgroup=0, **options)

    def _spawn(control_r: int, polls: int, entries: list[str]) -> int:
        actions = [
            (os.POSIX_SPAWN_DUP2, control_r, 0),
            (os.POSIX_SPAWN_OPEN, 1, os.devnull, os.O_WRONLY, 0),
            (os.POSIX_SPAWN_OPEN, 2, os.devnull, os.O_WRONLY, 0),
            *[(os.POSIX_SPAWN_CLOSE, descriptor) for descriptor in inheritable_descriptors()],
        ]
        options = {
            "file_actions": actions,
            # Only SIGKILL can end it: all other signals are blocked until the script ignores them (dash clears this mask later).
            # SIGCHLD, which our program may ignore, wakes the shell when `sleep` has ended.
            "setsigmask": signal.valid_signals() - {signal.SIGCHLD},
            "setsigdef": [signal.SIGCHLD],
        }
        shell = next(filter(os.path.exists, SHELLS), SHELLS[0])
        title = f"# twopipes: ends what process {os.getpid()} has started if it is killed"  # the start of its line in `ps`
        argv = ["sh", "-c", title + SCRIPT, "sh", str(polls), " ".join(entries)]
        return spawn_in_session(os.posix_spawn, shell, argv, ENVIRONMENT, options)

    def _above_the_standard_streams(descriptor: int) -> int:
        """Move a descriptor out of the range 0 to 2, which it can get in a program whose standard streams are closed."""
        if descriptor > 2:
            return descriptor
        try:
            return fcntl.fcntl(descriptor, fcntl.F_DUPFD_CLOEXEC, 3)
        finally:
            os.close(descriptor)
