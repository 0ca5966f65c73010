"""Which conversation an HTTP message belongs to."""

from twopipes._tools.tap import connection_numbers
from twopipes._tools.tap.connection_numbers import ConnectionNumbers


def test_one_client_has_one_conversation():
    numbers = ConnectionNumbers()
    assert [numbers.of_client("ada", id_) for id_ in (1, 2, "2", None, 3)] == [0, 0, 0, 0, 0]


def test_two_clients_with_the_same_ids_are_kept_apart():
    numbers = ConnectionNumbers()
    assert [numbers.of_client(who, id_) for id_ in (1, 2) for who in ("ada", "bob")] == [0, 1, 0, 1]


def test_a_repeated_id_starts_a_conversation_which_goes_on():
    numbers = ConnectionNumbers()
    assert [numbers.of_client("ada", id_) for id_ in (1, 2, 1, 3, None, 2)] == [0, 0, 1, 1, 1, 1]


def test_a_probe_and_the_handshake_after_it_are_one_conversation():
    numbers = ConnectionNumbers()
    assert numbers.of_client("ada", 1) == numbers.of_client("ada", 2, is_handshake=True) == 0
    assert numbers.of_client("ada", "new", is_handshake=True) == 1


def test_a_session_takes_over_the_conversation_that_created_it():
    numbers = ConnectionNumbers()
    number = numbers.of_client("ada", 1, is_handshake=True)
    numbers.bind("s", number)
    assert numbers.of_session("s") == number == 0
    assert numbers.of_client("ada", 2) == 1
    assert numbers.of_session("begun before the recording") == 2


def test_everything_is_bounded(monkeypatch):
    monkeypatch.setattr(connection_numbers, "MAX_SESSIONS", 2)
    monkeypatch.setattr(connection_numbers, "MAX_CLIENTS", 2)
    monkeypatch.setattr(connection_numbers, "MAX_IDS", 2)
    monkeypatch.setattr(connection_numbers, "MAX_PER_CLIENT", 2)
    numbers = ConnectionNumbers()
    for name in "abc":
        numbers.of_session(name)
        numbers.of_client(name, 1)
    assert len(numbers._sessions) == len(numbers._clients) == 2
    for id_ in (1, 1, 1, 2, 3, 4):
        numbers.of_client("c", id_)
    assert len(numbers._clients["c"]) == 2
    assert all(len(each._ids) <= 2 for each in numbers._clients["c"])
