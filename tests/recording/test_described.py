"""What frameworks' recording.toml say agrees with the golden cases that there are."""

from described import FRAMEWORKS, GOLDEN, frameworks
from truth import FACTS

KNOWN = [(framework, case) for framework in frameworks() for case in framework.cases]


def test_facts_that_are_said_to_be_missing_exist():
    named = {x for _, case in KNOWN for x in (*case.truth.not_recorded, *case.truth.differs)}
    assert named <= set(FACTS)


def test_every_case_that_can_be_recorded_has_been():
    golden = [x.golden(case) for x, case in KNOWN]
    assert [x for x in golden if not (x / "SOURCE").exists()] == []
    assert len(golden) == len(set(golden))


def test_every_recording_of_ours_can_be_recorded_again():
    ours = {
        x.parent
        for x in GOLDEN.glob("*/*/SOURCE")
        if "tests/recording" in x.read_text(encoding="utf-8")
    }
    assert ours <= {x.golden(y) for x, y in KNOWN}


def test_every_folder_of_a_framework_says_how_it_is_run():
    assert [
        x.name for x in FRAMEWORKS.iterdir() if x.is_dir() and not (x / "recording.toml").exists()
    ] == []
