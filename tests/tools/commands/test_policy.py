"""``triack policy``: what the presets say, to people and to programs."""

import json

import pytest
from click.testing import CliRunner

from triack.tools.cli import main
from triack.tools.commands.policy import policy

runner = CliRunner()


def told(*arguments: str) -> list[str]:
    done = runner.invoke(policy, list(arguments), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output.splitlines()


def test_the_list_has_all_of_them_with_their_numbers() -> None:
    lines = told("list")
    assert [line.split()[0] for line in lines] == ["POLICY", "DEFAULT", "MSMQ", "SOLACE", "HORNETQ", "AMPS", "WSO2"]
    assert [" ".join(line.split()[1:]) for line in lines[1:]] == [
        "64 32 packets 0.5 - 30",
        "64 32 packets 0.5 20 30",
        "50 16 packets 1 - 2",
        "65535 10485760 bytes 2 30 30",
        "65535 - 1 - 30",
        "64 32 packets 0.5 - 30",
    ]
    rows = [json.loads(line) for line in told("list", "--json")]
    assert [row["ack_after"] for row in rows] == [
        "32 packets",
        "32 packets",
        "16 packets",
        "10485760 bytes",
        None,
        "32 packets",
    ]


def test_each_value_says_where_it_is_from() -> None:
    """In whatever case its name is given."""
    rows = [json.loads(line) for line in told("show", "solace", "--json")]
    assert rows[0] == {
        "setting": "session.max_unacked_packet",
        "value": 50,
        "source": "Solace API, ADPublishWindowSize",
    }
    assert all(row["source"] for row in rows)
    (line,) = [line for line in told("show", "MSMQ") if line.startswith("session.store_ack_trigger.delay_rtts")]
    assert line.split()[1:] == ["8", "[MS-MQQB]", "3.1.5.3.2"]
    assert any(
        line.split() == ["session.ack_trigger.window_share", "1/2", "Triack"] for line in told("show", "DEFAULT")
    )


def test_an_unknown_name_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["policy", "show", "kafka"])
    assert ended.value.code == 2
    assert capsys.readouterr().err == "triack: no policy KAFKA; there are DEFAULT, MSMQ, SOLACE, HORNETQ, AMPS, WSO2\n"
