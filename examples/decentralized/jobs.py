"""Pushes jobs until both servers have answered some, and checks that each job has one right answer."""
import os

from wkr_serving.client.helper import RedisHandler

JOBS, SERVERS, MOST = 100, 2, 10_000
jobs, answers = (RedisHandler(key, "127.0.0.1", int(os.environ["REDIS_PORT"])) for key in ("jobs", "answers"))

pushed, servers, done = 0, set(), set()
while pushed < MOST and (pushed == 0 or len(servers) < SERVERS):
    for i in range(pushed, pushed + JOBS):
        jobs.push({"id": i, "text": "to be or not to be " + "ha " * (i % 7)})
    pushed += JOBS
    while len(done) < pushed:
        answer = answers.pop(timeout=60)
        assert answer is not None, f"no answer for a minute, {pushed - len(done)} are missing"
        assert answer["id"] not in done and answer["counts"].get("ha", 0) == answer["id"] % 7, answer
        done.add(answer["id"])
        servers.add(answer["server"])
print(f"{len(done)} answers of {len(servers)} servers")
