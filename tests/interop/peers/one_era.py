"""Serve ``examples/everything.py`` in one era: ``one_era.py FILE ERA``."""

import importlib.util
import sys

import twopipes


class OneEra(twopipes.Server):
    """A server whose author has chosen an era."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **{**options, "eras": sys.argv[2]})


twopipes.Server = OneEra
spec = importlib.util.spec_from_file_location("everything", sys.argv[1])
module = importlib.util.module_from_spec(spec)
sys.modules["everything"] = module  # its annotations are looked up there
spec.loader.exec_module(module)
module.server.run()
