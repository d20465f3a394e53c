"""What was cut waits in a bounded queue, and nothing of it is lost."""

import asyncio

import pytest

from spanscore.assemble.assembler import WorkQueue


async def pass_on(times=5):
    """Let the other tasks go on."""
    for _ in range(times):
        await asyncio.sleep(0)


def test_work_is_done_in_batches_in_its_order():
    async def main():
        queue, done = WorkQueue(10), []

        async def do(batch):
            done.append(batch)

        await queue.fill(lambda: [1, 2, 3])
        worker = asyncio.create_task(queue.run(2, do))
        await queue.join()
        worker.cancel()
        return done

    assert asyncio.run(main()) == [[1, 2], [3]]


def test_a_batch_that_has_enough_bytes_is_done_before_more_is_taken():
    async def main():
        queue, done = WorkQueue(10), []

        async def do(batch):
            done.append(batch)

        await queue.fill(lambda: [9, 1, 2, 3, 4])
        worker = asyncio.create_task(queue.run(4, do, size_bytes=lambda x: x, enough_bytes=5))
        await queue.join()
        worker.cancel()
        return done

    assert asyncio.run(main()) == [[9], [1, 2, 3], [4]]


def test_nothing_is_cut_while_the_queue_is_full():
    async def main():
        queue, cut = WorkQueue(2), []
        await queue.fill(lambda: [1, 2])
        filling = asyncio.create_task(queue.fill(lambda: cut.append("cut") or []))
        await pass_on()
        filling.cancel()
        return cut

    assert asyncio.run(main()) == []


def test_what_one_cut_gives_is_taken_in_whole():
    async def main():
        queue = WorkQueue(2)
        return await queue.fill(lambda: range(5)), len(queue)

    assert asyncio.run(main()) == (5, 5)


def test_cutting_goes_on_when_there_is_room():
    async def main():
        queue, done = WorkQueue(1), []

        async def do(batch):
            done.extend(batch)

        await queue.fill(lambda: [1, 2])
        worker = asyncio.create_task(queue.run(1, do))
        await queue.fill(lambda: [3])
        await queue.join()
        worker.cancel()
        return done

    assert asyncio.run(main()) == [1, 2, 3]


def test_one_who_is_interrupted_while_the_queue_is_full_has_cut_nothing():
    async def main():
        queue, cut = WorkQueue(1), [2]
        await queue.fill(lambda: [1])
        filling = asyncio.create_task(queue.fill(lambda: [cut.pop()]))
        await pass_on()
        filling.cancel()
        await asyncio.gather(filling, return_exceptions=True)
        return cut

    assert asyncio.run(main()) == [2]


def test_work_that_fails_is_not_waited_for():
    async def main():
        queue = WorkQueue(1)

        async def fail(_):
            raise ZeroDivisionError

        await queue.fill(lambda: [1])
        with pytest.raises(ZeroDivisionError):
            await queue.run(1, fail)
        async with asyncio.timeout(30):
            await queue.join()

    asyncio.run(main())


def test_what_a_worker_has_taken_is_unfinished_until_it_is_done():
    async def main():
        queue, seen = WorkQueue(10), []

        async def do(_):
            seen.append((len(queue), queue.unfinished))

        await queue.fill(lambda: [1, 2, 3])
        worker = asyncio.create_task(queue.run(2, do))
        await queue.join()
        worker.cancel()
        return [*seen, (len(queue), queue.unfinished)]

    assert asyncio.run(main()) == [(1, 3), (0, 1), (0, 0)]
