/**
 * The genuine clients of Triton and of KServe, unchanged, over gRPC. GRPC_CLIENT_PYTHON names a Python that has them:
 * `python -m venv v && v/bin/pip install numpy 'tritonclient[grpc]' kserve`.
 */
import assert from 'node:assert/strict';
import { execFile, spawnSync } from 'node:child_process';
import { type TestContext, test } from 'node:test';
import { promisify } from 'node:util';
import { type ModelName, Models } from '../../functions/hostile/models.ts';
import { childEnvironment } from '../../support/environment.ts';
import { jobOf, serviceOf } from './client.ts';

const PYTHON = process.env['GRPC_CLIENT_PYTHON'] ?? 'python3';
const run = promisify(execFile);

/** Each model gives back its input `x` as `x_out`. */
const ARRAYS = `
import sys, numpy as np
i = np.iinfo
ARRAYS = {
    "bool": ("BOOL", np.array([[True, False], [False, True]])),
    "int8": ("INT8", np.array([[i("i1").min, i("i1").max]], "i1")),
    "int16": ("INT16", np.array([[i("i2").min, i("i2").max]], "i2")),
    "int32": ("INT32", np.array([[i("i4").min, i("i4").max]], "i4")),
    "int64": ("INT64", np.array([[i("i8").min, 2**53 + 1]], "i8")),
    "uint8": ("UINT8", np.array([[0, 255]], "u1")),
    "uint16": ("UINT16", np.array([[0, 65535]], "u2")),
    "uint32": ("UINT32", np.array([[0, i("u4").max]], "u4")),
    "uint64": ("UINT64", np.array([[2**53 + 1, i("u8").max]], "u8")),
    "half": ("FP16", np.array([[1.5, -65504]], "f2")),
    "pair": ("FP32", np.array([[1.5, -0.1], [3e38, 1e-40]], "f4")),
    "double": ("FP64", np.array([[0.1, 1e300]], "f8")),
    "texts": ("BYTES", np.array([["a", "wörld"], ["", "😀"]], dtype=object)),
}
def same(got, sent):
    if sent.dtype == object:
        sent = np.array([text.encode() for text in sent.flat], dtype=object).reshape(sent.shape)
    assert got.dtype == sent.dtype and got.shape == sent.shape and (got == sent).all(), (got, sent)
url = sys.argv[1]
`;

const TRITON = `${ARRAYS}
import asyncio, queue
import tritonclient.grpc as triton
import tritonclient.grpc.aio
from tritonclient.utils import InferenceServerException
client = triton.InferenceServerClient(url)

def sent(name):
    datatype, array = ARRAYS[name]
    tensor = triton.InferInput("x", array.shape, datatype)
    tensor.set_data_from_numpy(array)
    return [tensor]

assert client.is_server_live() and client.is_server_ready() and client.is_model_ready("pair")
about = client.get_server_metadata(as_json=True)
assert about["name"] == "cluster-serving" and "binary_tensor_data" in about["extensions"], about
metadata = client.get_model_metadata("pair", as_json=True)
assert metadata["inputs"] == [{"name": "x", "datatype": "FP32", "shape": ["-1", "2"]}], metadata
config = client.get_model_config("pair", as_json=True)["config"]
assert config["input"][0]["data_type"] == "TYPE_FP32" and config["backend"] == "onnxruntime", config
assert config["max_batch_size"] == 32 and config["output"][0]["dims"] == ["2"], config
index = client.get_model_repository_index(as_json=True)["models"]
assert sorted(one["name"] for one in index) == sorted(ARRAYS) and index[0]["state"] == "READY", index

for name, (_, array) in ARRAYS.items():
    for compression in (None, "gzip", "deflate"):
        answer = client.infer(name, sent(name), request_id="an id", compression_algorithm=compression)
        same(answer.as_numpy("x_out"), array)
        assert answer.get_response().id == "an id" and answer.get_response().model_name == name
version = metadata["versions"][0]
same(client.infer("pair", sent("pair"), model_version=version, outputs=[triton.InferRequestedOutput("x_out")]).as_numpy("x_out"), ARRAYS["pair"][1])
classes = client.infer("pair", sent("pair"), outputs=[triton.InferRequestedOutput("x_out", class_count=1)]).as_numpy("x_out")
assert [[float(one.split(b":")[0]), one.split(b":")[1]] for one in classes.flat] == [[1.5, b"0"], [np.float32(3e38), b"0"]], classes

answers = queue.Queue()
for _ in range(200):
    client.async_infer("pair", sent("pair"), lambda result, error: answers.put(error or result))
for _ in range(200):
    same(answers.get(timeout=60).as_numpy("x_out"), ARRAYS["pair"][1])
statistics = client.get_inference_statistics("pair", as_json=True)["model_stats"][0]
assert int(statistics["inference_stats"]["success"]["count"]) >= 200 and int(statistics["last_inference"]) > 0, statistics
assert len(client.get_inference_statistics().model_stats) == len(ARRAYS)

def fails(code, text, call):
    try:
        call()
    except InferenceServerException as error:
        assert error.status() == f"StatusCode.{code}" and text in error.message(), error
    else:
        raise AssertionError(f"no {code}")

fails("NOT_FOUND", "no model", lambda: client.infer("none", sent("pair")))
fails("NOT_FOUND", "no version", lambda: client.infer("pair", sent("pair"), model_version="9"))
fails("INVALID_ARGUMENT", "x", lambda: client.infer("pair", sent("texts")))
fails("INVALID_ARGUMENT", "sequence", lambda: client.infer("pair", sent("pair"), sequence_id=4, sequence_start=True))
fails("UNIMPLEMENTED", "model push", lambda: client.load_model("pair"))
fails("UNIMPLEMENTED", "send tensors", lambda: client.get_system_shared_memory_status())
fails("UNIMPLEMENTED", "at the start", lambda: client.get_trace_settings())
streamed = queue.Queue()
client.start_stream(lambda result, error: streamed.put(error))
client.async_stream_infer("pair", sent("pair"))
assert "ModelInfer" in streamed.get(timeout=60).message()
client.stop_stream()

async def with_asyncio():
    async with tritonclient.grpc.aio.InferenceServerClient(url) as client:
        results = await asyncio.gather(*[client.infer("texts", sent("texts")) for _ in range(50)])
        for result in results:
            same(result.as_numpy("x_out"), ARRAYS["texts"][1])
asyncio.run(with_asyncio())
print("done")
`;

const KSERVE = `${ARRAYS}
import asyncio
from kserve import InferInput, InferRequest, InferenceGRPCClient

async def main():
    client = InferenceGRPCClient(url)
    assert await client.is_server_live() and await client.is_server_ready() and await client.is_model_ready("pair")
    for name, (datatype, array) in ARRAYS.items():
        for binary in (True, False):
            if datatype == "FP16" and not binary:
                continue
            tensor = InferInput("x", list(array.shape), datatype)
            tensor.set_data_from_numpy(array, binary_data=binary)
            answer = await client.infer(InferRequest(name, [tensor], "an id"))
            same(answer.outputs[0].as_numpy(), array)
            assert answer.id == "an id" and answer.model_name == name, answer
asyncio.run(main())
print("done")
`;

async function clients(t: TestContext, module: string, program: string) {
  if (spawnSync(PYTHON, ['-c', `import ${module}`]).status !== 0) {
    t.skip(`no ${module} in ${PYTHON}; GRPC_CLIENT_PYTHON names a Python that has it`);
    return;
  }
  const models = new Models(t);
  const names: ModelName[] = [
    'bool',
    'int8',
    'int16',
    'int32',
    'int64',
    'uint8',
    'uint16',
    'uint32',
    'uint64',
  ];
  names.push('half', 'pair', 'double', 'texts');
  const jobs = await Promise.all(names.map(async (name) => jobOf(name, await models.runner(name))));
  const { port } = await serviceOf(t, jobs);
  const { stdout } = await run(PYTHON, ['-c', program, `127.0.0.1:${port}`], {
    env: childEnvironment({}),
    timeout: 120_000,
  });
  assert.equal(stdout.trim().split('\n').at(-1), 'done');
}

test('the client of Triton', (t) => clients(t, 'tritonclient.grpc', TRITON));
test('the client of KServe', (t) => clients(t, 'kserve', KSERVE));
