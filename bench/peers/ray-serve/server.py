"""Ray Serve: one proxy, one replica, onnxruntime. No dashboard and no access log."""

import os
import time

import numpy as np
import onnxruntime
import ray
from ray import serve
from starlette.requests import Request

INPUT = os.environ["BENCH_INPUT"]
MODEL = os.environ["BENCH_MODEL"]


@serve.deployment(num_replicas=1, max_ongoing_requests=100, logging_config={"enable_access_log": False})
class Model:
    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(MODEL, options, providers=["CPUExecutionProvider"])

    async def __call__(self, request: Request):
        instances = (await request.json())["instances"]
        rows = np.array([instance[INPUT] for instance in instances], dtype=np.float32)
        (scores,) = self.session.run(None, {INPUT: rows})
        return {"predictions": scores.tolist()}


if __name__ == "__main__":
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, configure_logging=False)
    serve.start(
        http_options={"host": "127.0.0.1", "port": int(os.environ["BENCH_PORT"])},
        logging_config={"enable_access_log": False},
    )
    serve.run(Model.bind(), route_prefix="/predict")
    while True:
        time.sleep(60)
