"""What was found to hold and what not, a line each, as it is found."""

import sys


class Findings:
    """The findings of one check."""

    def __init__(self) -> None:
        self.count = self.failed = 0

    def holds(self, claim: str, *, true: bool, found: object = "") -> None:
        """Note whether `claim` is `true`; `found` says what was there where it is not."""
        self.count += 1
        if true:
            print(f"ok      {claim}", flush=True)
            return
        self.failed += 1
        print(
            f"FAILED  {claim}{f': found {found}' if found != '' else ''}",
            file=sys.stderr,
            flush=True,
        )

    def same(self, claim: str, with_scores: object, without: object) -> None:
        """Note whether something is the same with spanscore as without it."""
        self.holds(
            f"{claim} is {without} with spanscore and without",
            true=with_scores == without,
            found=with_scores,
        )
