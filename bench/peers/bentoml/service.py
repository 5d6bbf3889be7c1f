"""BentoML: one service, one worker, no access log and no metrics, onnxruntime."""

import os

import bentoml
import numpy as np
import onnxruntime

INPUT = os.environ["BENCH_INPUT"]


@bentoml.service(workers=1, logging={"access": {"enabled": False}}, metrics={"enabled": False})
class Model:
    def __init__(self) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(
            os.environ["BENCH_MODEL"], options, providers=["CPUExecutionProvider"]
        )

    @bentoml.api
    async def predict(self, instances: list) -> dict:
        rows = np.array([instance[INPUT] for instance in instances], dtype=np.float32)
        (scores,) = self.session.run(None, {INPUT: rows})
        return {"predictions": scores.tolist()}
