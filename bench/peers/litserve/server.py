"""LitServe: one API server and one worker, onnxruntime, no batching (one request is one run, as everywhere here)."""

import os

import litserve
import numpy as np
import onnxruntime

INPUT = os.environ["BENCH_INPUT"]


class Api(litserve.LitAPI):
    def setup(self, device):
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(
            os.environ["BENCH_MODEL"], options, providers=["CPUExecutionProvider"]
        )

    def decode_request(self, request):
        return np.array([instance[INPUT] for instance in request["instances"]], dtype=np.float32)

    def predict(self, rows):
        (scores,) = self.session.run(None, {INPUT: rows})
        return scores

    def encode_response(self, scores):
        return {"predictions": scores.tolist()}


if __name__ == "__main__":
    server = litserve.LitServer(Api(), accelerator="cpu", workers_per_device=1)
    server.run(
        host="127.0.0.1",
        port=int(os.environ["BENCH_PORT"]),
        num_api_servers=1,
        generate_client_file=False,
        log_level="warning",
        access_log=False,
    )
