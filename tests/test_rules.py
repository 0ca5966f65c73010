"""Every rule that concerns an existing package has a test that names its id."""

import importlib.util
import sys
from pathlib import Path

import pytest

PROJECT = Path(__file__).parents[1]


def load_tool():
    spec = importlib.util.spec_from_file_location("tools_rules", PROJECT / "tools" / "rules.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


tool = load_tool()


def test_every_rule_of_an_existing_package_has_a_test():
    assert tool.read_table().missing(tool.find_tests()) == {}


def test_no_test_names_an_unknown_id():
    unknown = tool.find_tests().keys() - tool.read_table().packages.keys()
    assert unknown == set()


def test_the_table_has_the_ids_of_the_page():
    if not tool.PAGE.is_file():
        pytest.skip("the page of the requirements is not beside the project")
    assert tool.differences(tool.read_table().packages, tool.PAGE) == []


def test_the_ids_of_a_section_have_no_gaps():
    sections: dict = {}
    for rule in tool.read_table().packages:
        sections.setdefault(rule[:2], []).append(int(rule[3:]))
    assert all(numbers == list(range(1, len(numbers) + 1)) for numbers in sections.values())
    assert len(sections) == 32


def test_differences_are_reported_in_both_directions(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("| FR-01 | MUST | ...\n| FR-02 | MUST | see JR-01 ...\n", encoding="utf-8")
    assert tool.differences(["FR-01", "FR-03", "HT-01"], page) == [
        "FR-02 is on the page and not in the table",
        "FR-03 is in the table and not on the page",
    ]


def test_ids_are_found_in_tests_and_in_conversations(tmp_path):
    (tmp_path / "unit").mkdir()
    (tmp_path / "conversations" / "server").mkdir(parents=True)
    (tmp_path / "unit" / "test_one.py").write_text('"""FR-01, FR-02."""\n# FR-01, CON-09', encoding="utf-8")
    (tmp_path / "conversations" / "server" / "ping.txt").write_text("# PI-01 FR-01", encoding="utf-8")
    (tmp_path / "notes.txt").write_text("FR-03", encoding="utf-8")
    assert tool.find_tests(tmp_path) == {
        "FR-01": ["conversations/server/ping.txt", "unit/test_one.py"],
        "FR-02": ["unit/test_one.py"],
        "PI-01": ["conversations/server/ping.txt"],
    }


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        ('JR-01 = ["wire"]', "not an id of section FR"),
        ('FR-01 = ["attic"]', "the packages are"),
        ("FR-01 = []", "the packages are"),
    ],
)
def test_a_mistake_in_the_table_is_found(tmp_path, row, complaint):
    table = tmp_path / "rules.toml"
    table.write_text(f'built = ["wire"]\nlater = ["server"]\n[rules.FR]\n{row}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=complaint):
        tool.read_table(table)


def test_due_rules_depend_on_the_package():
    rules = tool.Rules({"FR-01": ["wire"], "FR-02": ["server"], "FR-03": ["wire", "server"]}, ["wire"], ["server"])
    assert rules.due() == ["FR-01", "FR-03"]
    assert rules.due("server") == ["FR-02", "FR-03"]
    assert rules.due(later_too=True) == ["FR-01", "FR-02", "FR-03"]


def test_a_package_may_restrict_where_its_tests_are():
    rules = tool.Rules({"FR-01": ["wire", "client"]}, ["wire", "client"], [], {"client": ["unit/client/"]})
    assert rules.missing({}) == {"FR-01": ["wire", "client"]}
    assert rules.missing({"FR-01": ["unit/test_wire.py"]}) == {"FR-01": ["client"]}
    assert rules.missing({"FR-01": ["unit/test_wire.py"]}, "wire") == {}
    assert rules.missing({"FR-01": ["unit/client/test_lines.py"]}) == {}


@pytest.mark.parametrize("rule", ["FR-01", "FR-02"])
def test_a_reason_is_for_a_known_rule_that_does_not_concern_the_package(tmp_path, rule):
    table = tmp_path / "rules.toml"
    row = f'[rules.FR]\nFR-01 = ["wire"]\n[reasons.wire]\n{rule} = "because"\n'
    table.write_text(f'built = ["wire"]\nlater = []\n{row}', encoding="utf-8")
    with pytest.raises(ValueError, match=f"{rule} has a reason not to concern wire"):
        tool.read_table(table)


def test_the_exit_code_shows_whether_a_test_is_missing(capsys):
    missing = tool.read_table().missing(tool.find_tests(), "wire")
    assert tool.main(["--package", "wire"]) == bool(missing)
    assert "test_wire.py" in capsys.readouterr().out
    assert tool.main(["--package", "none-yet", "--missing"]) == 1
    assert "TX-01  none-yet" in capsys.readouterr().out


def test_the_tool_compares_with_a_page(tmp_path, capsys):
    page = tmp_path / "page.md"
    page.write_text("| FR-99 | MUST |", encoding="utf-8")
    assert tool.main(["--package", "wire", "--missing", "--against", str(page)]) == 1
    assert "FR-99 is on the page and not in the table" in capsys.readouterr().err
