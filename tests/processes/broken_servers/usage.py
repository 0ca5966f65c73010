"""Wants an argument that it was not given."""

import argparse

from speaking import serve

parser = argparse.ArgumentParser()
parser.add_argument("--allow", required=True)
parser.parse_args()
serve()
