"""Nothing is wrong with it."""

from speaking import serve

serve()
