"""A request that comes twice under one request id is worked off once."""

import asyncio

import pytest

from spanscore.api.traces import KEPT_S, Answered
from spanscore.api.v1 import score_pb2, trace_service_pb2 as pb
from spanscore.errors import ExistsError, NotFoundError

REQUEST = pb.EvaluateTraceRequest(name="traces/1", request_id="a")


class Evaluation:
    """Counts how often it is made; `errors` are what the first ones raise, and none ends before
    `gate` is set.
    """

    def __init__(self, *errors):
        self.count = 0
        self.errors = list(errors)
        self.gate = asyncio.Event()
        self.gate.set()

    async def __call__(self):
        self.count += 1
        await self.gate.wait()
        if self.errors:
            raise self.errors.pop(0)
        return pb.EvaluateTraceResponse(scores=[score_pb2.Score(uid=str(self.count))])


def asked(answered, evaluation, tenant="", request=REQUEST):
    return answered.once(tenant, request, request.request_id, evaluation)


def test_a_request_that_comes_again_gets_the_same_answer():
    async def scenario():
        answered, evaluation = Answered(), Evaluation()
        answers = [await asked(answered, evaluation) for _ in range(3)]
        return [x.scores[0].uid for x in answers], evaluation.count

    assert asyncio.run(scenario()) == (["1"] * 3, 1)


def test_one_that_comes_while_the_first_is_made_waits_for_it():
    async def scenario():
        answered, evaluation = Answered(), Evaluation()
        evaluation.gate.clear()
        asking = [asyncio.create_task(asked(answered, evaluation)) for _ in range(3)]
        await asyncio.sleep(0)
        evaluation.gate.set()
        answers = await asyncio.gather(*asking)
        return {x.scores[0].uid for x in answers}, evaluation.count

    assert asyncio.run(scenario()) == ({"1"}, 1)


def test_what_failed_is_tried_again():
    async def scenario():
        answered, evaluation = Answered(), Evaluation(NotFoundError("not yet"))
        with pytest.raises(NotFoundError):
            await asked(answered, evaluation)
        return (await asked(answered, evaluation)).scores[0].uid

    assert asyncio.run(scenario()) == "2"


@pytest.mark.parametrize("others", [0, 1])
def test_an_evaluation_goes_on_where_its_caller_is_gone(others):
    async def scenario():
        answered, evaluation = Answered(), Evaluation()
        evaluation.gate.clear()
        first, *waiting = (
            asyncio.create_task(asked(answered, evaluation)) for _ in range(1 + others)
        )
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        waiting.append(asyncio.create_task(asked(answered, evaluation)))
        await asyncio.sleep(0)
        evaluation.gate.set()
        return [(await x).scores[0].uid for x in waiting], evaluation.count

    assert asyncio.run(scenario()) == (["1"] * (others + 1), 1)


def test_an_evaluation_that_fails_when_its_caller_is_gone_is_tried_again():
    async def scenario():
        answered, evaluation = Answered(), Evaluation(NotFoundError("not yet"))
        evaluation.gate.clear()
        first = asyncio.create_task(asked(answered, evaluation))
        await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        evaluation.gate.set()
        await asyncio.wait(asyncio.all_tasks() - {asyncio.current_task()})
        return (await asked(answered, evaluation)).scores[0].uid

    assert asyncio.run(scenario()) == "2"


def test_another_request_under_the_same_id_is_refused():
    other = pb.EvaluateTraceRequest(name="traces/2", request_id="a")

    async def scenario():
        answered = Answered()
        await asked(answered, Evaluation())
        with pytest.raises(ExistsError, match=r"^request_id 'a'"):
            await asked(answered, Evaluation(), request=other)

    asyncio.run(scenario())


def test_the_request_id_of_another_tenant_is_free():
    async def scenario():
        answered, evaluation = Answered(), Evaluation()
        return [(await asked(answered, evaluation, x)).scores[0].uid for x in ("acme", "blue")]

    assert asyncio.run(scenario()) == ["1", "2"]


def test_answers_are_forgotten_after_an_hour_and_past_a_bound():
    async def scenario():
        now = [0.0]
        answered, evaluation = Answered(lambda: now[0]), Evaluation()
        for number in range(1000):
            request = pb.EvaluateTraceRequest(name="traces/1", request_id=str(number))
            await asked(answered, evaluation, request=request)
        kept = len(answered._answers)
        now[0] += KEPT_S
        await asked(answered, evaluation)
        return kept, len(answered._answers)

    assert asyncio.run(scenario()) == (500, 1)


def test_many_answers_of_one_tenant_leave_those_of_another():
    async def scenario():
        answered, evaluation = Answered(), Evaluation()
        first = await asked(answered, evaluation, "acme")
        for number in range(600):
            request = pb.EvaluateTraceRequest(name="traces/1", request_id=str(number))
            await asked(answered, evaluation, "blue", request)
        return await asked(answered, evaluation, "acme") == first

    assert asyncio.run(scenario())


def test_past_the_bytes_the_oldest_answer_of_the_tenant_with_most_is_forgotten():
    async def scenario():
        answered, evaluation = Answered(max_bytes=4000), Evaluation()
        requests = [pb.EvaluateTraceRequest(name="traces/1", request_id=x) for x in "abc"]
        await asked(answered, evaluation, "acme")
        for request in requests:
            await asked(answered, evaluation, "blue", request)
        return list(answered._answers)

    name = pb.EvaluateTraceRequest.DESCRIPTOR.full_name
    assert asyncio.run(scenario()) == [
        ("acme", name, "a"),
        ("blue", name, "b"),
        ("blue", name, "c"),
    ]
