"""The loop of each client: it takes a job from Redis, lets its server compute, and stores the answer."""
import os

from wkr_serving.client import WKRClient, WKRWorker
from wkr_serving.client.helper import RedisHandler


class CountWords(WKRWorker):
    def get_model(self, ip, port, port_out):
        jobs, answers = (RedisHandler(key, "127.0.0.1", int(os.environ["REDIS_PORT"])) for key in ("jobs", "answers"))
        return WKRClient(ip=ip, port=port, port_out=port_out), jobs, answers

    def do_work(self, model, logger):
        client, jobs, answers = model
        # Waits for a job; the end of the service is seen between two calls.
        job = jobs.pop(timeout=1)
        if job is None:
            return
        try:
            answers.push({"id": job["id"], **client.encode(job["text"])})
        except Exception:
            # Otherwise the job would be lost.
            jobs.push(job)
            raise
        logger.info("done: %s", job["id"])

    def off_model(self, model):
        for each in model:
            each.close()
