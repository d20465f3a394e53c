"""ScoreService as both clients have it: its stub, and the same methods with keywords."""

from collections.abc import AsyncIterator, Awaitable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Unpack

from spanscore.api.client_keywords import named
from spanscore.api.client_pages import pages, pages_async
from spanscore.api.score_requests import (
    NewScore,
    ScoreConditions,
    ScoreContent,
    batches,
    create_request,
    delete_request,
    list_request,
    update_request,
)
from spanscore.api.v1 import score_service_pb2 as pb
from spanscore.api.v1.score_pb2 import Score
from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceStub

if TYPE_CHECKING:
    from spanscore.api.v1.score_service_pb2_grpc import ScoreServiceAsyncStub
else:
    ScoreServiceAsyncStub = ScoreServiceStub  # at run time one stub serves both


class Scores(ScoreServiceStub):
    """Scores that were measured, and that others gave.

    A score is named by its uid, or by `scores/UID`.
    """

    def get(self, score: str) -> Score:
        """One score, of whatever revision."""
        found: Score = self.GetScore(pb.GetScoreRequest(name=named("scores", score)))
        return found

    def list(self, **wanted: Unpack[ScoreConditions]) -> Iterator[Score]:
        """Scores, page after page: `list(filter="value < 0.5", metric="faithfulness")`."""
        return pages(self.ListScores, list_request(wanted))

    def create(self, *, request_id: str = "", **wanted: Unpack[NewScore]) -> Score:
        """Keep a score that somebody gave: `create(metric="helpful", trace_id=…, label="pass",
        author="ann")`.

        With the `request_id` of an earlier call that score is returned.
        """
        found: Score = self.CreateScore(create_request(wanted, request_id))
        return found

    def create_many(self, scores: Iterable[NewScore]) -> Sequence[Score]:
        """Keep many scores, of each thousand all or none, in their order."""
        return [
            score for request in batches(scores) for score in self.BatchCreateScores(request).scores
        ]

    def update(self, score: str, *, etag: str = "", **wanted: Unpack[ScoreContent]) -> Score:
        """Change a score that somebody gave; with an `etag` only where nobody has changed it since
        (ConflictError).
        """
        found: Score = self.UpdateScore(update_request(score, wanted, etag))
        return found

    def delete(self, score: str, *, etag: str = "", missing_ok: bool = False) -> None:
        """Delete a score that somebody gave; with an `etag` as `update`."""
        self.DeleteScore(delete_request(score, etag, missing_ok))


class AsyncScores(ScoreServiceAsyncStub):
    """`Scores` for asyncio: the same methods, to be awaited."""

    def get(self, score: str) -> Awaitable[Score]:
        """As `Scores.get`."""
        call: Awaitable[Score] = self.GetScore(pb.GetScoreRequest(name=named("scores", score)))
        return call

    def list(self, **wanted: Unpack[ScoreConditions]) -> AsyncIterator[Score]:
        """As `Scores.list`."""
        return pages_async(self.ListScores, list_request(wanted))

    def create(self, *, request_id: str = "", **wanted: Unpack[NewScore]) -> Awaitable[Score]:
        """As `Scores.create`."""
        call: Awaitable[Score] = self.CreateScore(create_request(wanted, request_id))
        return call

    async def create_many(self, scores: Iterable[NewScore]) -> Sequence[Score]:
        """As `Scores.create_many`."""
        return [
            score
            for request in batches(scores)
            for score in (await self.BatchCreateScores(request)).scores
        ]

    def update(
        self, score: str, *, etag: str = "", **wanted: Unpack[ScoreContent]
    ) -> Awaitable[Score]:
        """As `Scores.update`."""
        call: Awaitable[Score] = self.UpdateScore(update_request(score, wanted, etag))
        return call

    async def delete(self, score: str, *, etag: str = "", missing_ok: bool = False) -> None:
        """As `Scores.delete`."""
        await self.DeleteScore(delete_request(score, etag, missing_ok))
