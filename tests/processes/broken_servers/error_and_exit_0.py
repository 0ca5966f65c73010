"""Reports an error in its arguments and exits with 0."""

import sys

sys.stderr.write("TypeError [ERR_PARSE_ARGS_UNKNOWN_OPTION]: Unknown option '--nonsense'\n    at main (file:///srv/cli.js:1:7)\n")
