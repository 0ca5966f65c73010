"""Coverage-guided fuzzing of running connections: ``fuzz_steps.py server`` or ``fuzz_steps.py client``.

``server``: handlers raise anything, calls are cancelled, the client does not read. ``client``: a server floods and does not read.
Run it with ``make fuzz FUZZ_SECONDS=30``, or directly with any option of libFuzzer after the name.
"""

import sys
from pathlib import Path

import atheris

HERE = Path(__file__).resolve().parent
FINDINGS = HERE / "findings"

sys.path.insert(0, str(HERE.parent / "tests"))
with atheris.instrument_imports(include=["twopipes", "server_invariants", "client_invariants"]):
    import client_invariants
    import server_invariants

TARGETS = {"server": server_invariants.check_steps, "client": client_invariants.check_steps}


def main() -> None:
    """Pass the bytes of the fuzzer to the invariants of one side until the time is over."""
    name = sys.argv.pop(1) if len(sys.argv) > 1 else ""
    if name not in TARGETS:
        sys.exit(f"name the side to fuzz: {' or '.join(TARGETS)}")
    FINDINGS.mkdir(exist_ok=True)
    options = [f"-artifact_prefix={FINDINGS}/{name}-", "-max_len=400", "-len_control=0", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, *sys.argv[1:]], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
