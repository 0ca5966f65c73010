"""Needs an argument that is missing."""

import argparse

from stdio_server import serve

parser = argparse.ArgumentParser()
parser.add_argument("--allow", required=True)
parser.parse_args()
serve()
