"""Coverage-guided fuzzing of the line decoder and the JSON-RPC decoder.

Run it with ``make fuzz FUZZ_SECONDS=30``, or directly with any option of libFuzzer. What it learns stays in ``fuzz/corpus``;
what it finds is written to ``fuzz/findings`` and belongs, made small, among the seeds.
"""

import sys
from pathlib import Path

import atheris

HERE = Path(__file__).resolve().parent
CORPUS = HERE / "corpus"
FINDINGS = HERE / "findings"
SEEDS = HERE / "seeds"

sys.path.insert(0, str(HERE.parent / "tests"))
with atheris.instrument_imports(include=["twopipes", "decoder_invariants"]):
    from decoder_invariants import check_bytes


def main() -> None:
    """Pass the bytes of the fuzzer to the invariants until the time is over."""
    CORPUS.mkdir(exist_ok=True)
    FINDINGS.mkdir(exist_ok=True)
    options = [f"-artifact_prefix={FINDINGS}/", f"-dict={HERE / 'json.dict'}", "-print_final_stats=1"]
    atheris.Setup([sys.argv[0], *options, *sys.argv[1:], str(CORPUS), str(SEEDS)], check_bytes)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
