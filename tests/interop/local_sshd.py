"""An sshd on loopback with its own keys and configuration, and an ``ssh`` that knows it as the host ``build-7``."""

import os
import pwd
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from interop.harness import NET, free_port, missing, wait_for_port

HOST = "build-7"

SSHD_CONFIG = """
ListenAddress 127.0.0.1
Port {port}
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile none
StrictModes no
UsePAM no
PasswordAuthentication no
KbdInteractiveAuthentication no
PermitRootLogin prohibit-password
AcceptEnv NOTES_TOKEN
SetEnv HOME={folder}/home PATH={folder}/bin:/usr/bin:/bin
"""
SSH_CONFIG = """
Host {host}
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/user_key
  IdentitiesOnly yes
  UserKnownHostsFile {folder}/known_hosts
  GlobalKnownHostsFile none
"""


def program(name: str) -> str:
    """Return the path of an installed program. Debian has sshd in a folder that is not on every PATH."""
    path = shutil.which(name, path=os.environ.get("PATH", "") + os.pathsep + "/usr/sbin")
    if path is None:
        missing(f"{name} is not installed; `make interop` installs it on Debian if it runs as root")
    return str(path)


class OtherMachine(NamedTuple):
    """The machine at the other end of ssh: its files, and the folder with the ``ssh`` that reaches it."""

    folder: Path
    port: int
    ssh: Path  # goes first on the PATH

    @property
    def bashrc(self) -> Path:
        return self.folder / "home" / ".bashrc"

    def install(self, name: str, *command: str) -> None:
        """Put a command on the PATH of the other machine."""
        executable(self.folder / "bin" / name, f'exec {shlex.join(command)} "$@"')

    def forget_host_key(self) -> None:
        (self.folder / "known_hosts").write_text("")


def executable(path: Path, script: str) -> None:
    path.parent.mkdir(exist_ok=True)
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def prepare(folder: Path) -> OtherMachine:
    """Write keys, configurations and an ``ssh`` that uses them."""
    ssh, keygen, port = program("ssh"), program("ssh-keygen"), free_port()
    (folder / "home").mkdir()
    for key in ("host_key", "user_key"):
        subprocess.run([keygen, "-q", "-t", "ed25519", "-N", "", "-C", "test", "-f", folder / key], check=True, timeout=NET)
    names = {"folder": folder, "port": port, "host": HOST, "user": pwd.getpwuid(os.getuid()).pw_name}
    (folder / "sshd_config").write_text(SSHD_CONFIG.format(**names))
    (folder / "ssh_config").write_text(SSH_CONFIG.format(**names))
    (folder / "known_hosts").write_text(f"[127.0.0.1]:{port} {(folder / 'host_key.pub').read_text()}")
    executable(folder / "ssh" / "ssh", f'exec {ssh} -F {folder}/ssh_config "$@"')
    machine = OtherMachine(folder, port, folder / "ssh")
    machine.install("python", sys.executable)
    return machine


def start(machine: OtherMachine) -> subprocess.Popen[bytes]:
    """Start sshd, and wait until it listens."""
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)  # sshd needs this empty folder if it runs as root
    log = machine.folder / "sshd.log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [program("sshd"), "-D", "-e", "-f", str(machine.folder / "sshd_config")],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
        )
    wait_for_port(process, machine.port, log)
    return process
