"""Answers once and leaves."""

from speaking import answer, requests

answer(next(requests()))
