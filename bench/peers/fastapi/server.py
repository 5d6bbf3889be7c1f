"""FastAPI on uvicorn (uvloop, httptools), orjson both ways, onnxruntime; one process.

The body is read without a pydantic model and the answer is written without a response model: FastAPI's own advice where
validation is not wanted, and several times faster for lists of numbers. The route is async: a call that never waits
for anything else needs no thread of the pool.
"""

import os

import numpy as np
import onnxruntime
import orjson
import uvicorn
from fastapi import FastAPI, Request, Response

INPUT = os.environ["BENCH_INPUT"]

options = onnxruntime.SessionOptions()
options.intra_op_num_threads = 1
options.inter_op_num_threads = 1
options.add_session_config_entry("session.intra_op.allow_spinning", "0")
session = onnxruntime.InferenceSession(os.environ["BENCH_MODEL"], options, providers=["CPUExecutionProvider"])

app = FastAPI()


@app.post("/predict")
async def predict(request: Request) -> Response:
    instances = orjson.loads(await request.body())["instances"]
    rows = np.array([instance[INPUT] for instance in instances], dtype=np.float32)
    (scores,) = session.run(None, {INPUT: rows})
    body = orjson.dumps({"predictions": scores}, option=orjson.OPT_SERIALIZE_NUMPY)
    return Response(body, media_type="application/json")


if __name__ == "__main__":
    port = int(os.environ["BENCH_PORT"])
    uvicorn.run(app, host="127.0.0.1", port=port, loop="uvloop", http="httptools", access_log=False, log_level="warning")
