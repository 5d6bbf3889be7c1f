"""MLServer: a custom runtime for onnxruntime, as its documentation writes them, with the numpy codec of the V2 protocol."""

import os

import onnxruntime
from mlserver import MLModel
from mlserver.codecs import NumpyCodec
from mlserver.types import InferenceRequest, InferenceResponse

INPUT = os.environ["BENCH_INPUT"]


class OnnxRuntime(MLModel):
    async def load(self) -> bool:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        self.session = onnxruntime.InferenceSession(
            os.environ["BENCH_MODEL"], options, providers=["CPUExecutionProvider"]
        )
        return True

    async def predict(self, payload: InferenceRequest) -> InferenceResponse:
        rows = NumpyCodec.decode_input(payload.inputs[0])
        (scores,) = self.session.run(None, {INPUT: rows})
        return InferenceResponse(
            id=payload.id,
            model_name=self.name,
            outputs=[NumpyCodec.encode_output("scores", scores)],
        )
