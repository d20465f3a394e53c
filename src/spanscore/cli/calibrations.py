"""The calibrations in the store as a person reads them, for `spanscore calibrate --list`."""

from collections.abc import Callable

from sqlalchemy.engine import make_url

from spanscore.calibration import Calibration
from spanscore.cli.terminal import console, on_one_line, print_json
from spanscore.stats import Estimate, NotEstimableError
from spanscore.store import calibrations
from spanscore.store.config import Config


def listed(store: Config, *, as_json: bool) -> int:
    """Print all calibrations, the newest first. Returns the exit code."""
    kept = calibrations.kept(store)
    found = [(x.tenant, one) for x in kept if (one := Calibration.from_json(x.record)) is not None]
    if as_json:
        for tenant, calibration in found:
            print_json({"tenant": tenant or None, **calibration.to_json()})
    elif found:
        _print(found)
    else:
        print(
            f"{shown(store.url)} holds no calibration; `spanscore calibrate LABELS PATH...` makes"
            " one."
        )
    return 0


def shown(url: str) -> str:
    """A database URL without its password."""
    return make_url(url).render_as_string(hide_password=True)


def _print(found: list[tuple[str, Calibration]]) -> None:
    from rich.table import Table  # noqa: PLC0415 - --json needs no rich

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for heading in (
        "date",
        "metric",
        "judge",
        "prompt",
        "passes from",
        "labels",
        "sensitivity",
        "specificity",
    ):
        figures = heading in {"passes from", "labels"}
        table.add_column(
            heading, justify="right" if figures else "left", no_wrap=heading in {"date", "metric"}
        )
    has_tenants = any(tenant for tenant, _ in found)
    if has_tenants:
        table.add_column("tenant", no_wrap=True)
    for tenant, calibration in found:
        metric, name, version, model, prompt_hash, _, threshold = calibration.judge
        table.add_row(
            calibration.date,
            on_one_line(metric, 40),
            on_one_line(f"{model or name} {version}", 40),
            (prompt_hash or "-")[:8],
            "-" if threshold is None else f"{threshold:g}",
            f"{calibration.confusion.n:.0f}",
            _measured(calibration.confusion.sensitivity, calibration.design_effects[0]),
            _measured(calibration.confusion.specificity, calibration.design_effects[1]),
            *([on_one_line(tenant, 40) or "-"] if has_tenants else []),
        )
    console().print(table)


def _measured(measure: Callable[[float, float], Estimate], design_effect: float) -> str:
    try:
        estimate = measure(0.95, design_effect)
    except NotEstimableError:
        return "-"
    limits = estimate.interval
    return (
        f"{estimate.value:.2f} [{limits.low:.2f}, {limits.high:.2f}]"
        if limits
        else f"{estimate.value:.2f}"
    )
