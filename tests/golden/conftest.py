"""The switch that writes the golden files anew: `pytest tests/golden --write-golden`, then read the diff."""


def pytest_addoption(parser):
    parser.addoption("--write-golden", action="store_true", help="write what is rebuilt now as what is expected")
