"""Writes triton-requests.json beside it: requests as tritonclient 2.73.0 sends them. Needs `pip install 'tritonclient[http]'`."""
import base64
import json
import pathlib

import numpy as np
import tritonclient.http as http

X = np.array([[0.5, 2], [1e-9, -1]], np.float32)
IDS = np.array([[2**63 - 1, -(2**63)], [2**53 + 1, 0]], np.int64)
WORDS = np.array([["a", ""], ["wörld", "😀"]], np.object_)


def body(datatype, array, binary, outputs=None, **more):
    tensor = http.InferInput("x", list(array.shape), datatype)
    tensor.set_data_from_numpy(array, binary_data=binary)
    sent, length = http.InferenceServerClient.generate_request_body([tensor], outputs, **more)
    return {"length": length, "body": base64.b64encode(sent).decode()}


classes = [http.InferRequestedOutput("x_out", binary_data=False, class_count=1)]
as_json = [http.InferRequestedOutput("x_out", binary_data=False)]
as_bytes = [http.InferRequestedOutput("x_out")]
shared = [http.InferRequestedOutput("x_out")]
shared[0].set_shared_memory("region", 16)
cases = {
    "floats": body("FP32", X, True, request_id="7", priority=1, timeout=60_000_000),
    "floats as JSON": body("FP32", X, False, as_json),
    "classes": body("FP32", X, True, classes),
    "shared memory": body("FP32", X, True, shared),
    "a sequence": body("FP32", X, True, sequence_id=5, sequence_start=True),
    "integers": body("INT64", IDS, True, as_bytes),
    "integers as JSON": body("INT64", IDS, False, as_json),
    "texts": body("BYTES", WORDS, True),
    "texts as JSON": body("BYTES", WORDS, False, as_json),
    "texts that are not UTF-8": body("BYTES", np.array([[b"\xff"]], np.object_), True),
}
pathlib.Path(__file__).with_suffix(".json").write_text(json.dumps(cases, indent=2) + "\n")
