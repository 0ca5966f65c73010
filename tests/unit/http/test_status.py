import pytest

from twopipes._http.status import status_of_code


@pytest.mark.parametrize(
    ("code", "status"),
    [
        (-32700, 400),
        (-32600, 400),
        (-32601, 404),
        (-32602, 400),
        (-32603, 200),
        (-32020, 400),
        (-32021, 400),
        (-32022, 400),
        (-1, 200),
    ],
)
def test_a_refusal_has_the_status_of_its_code(code, status):
    assert status_of_code(code) == status
