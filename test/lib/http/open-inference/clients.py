"""What the clients of Triton and of KServe ask a service. Arguments: the client's module, and the address of the service."""
import asyncio
import itertools
import sys

import numpy as np

PROBS = np.array([[1, 2, 3], [3, 1, 1e-3]], np.float32)
IDS = np.array([[2**63 - 1, -(2**63)], [2**53 + 1, 0]], np.int64)
WORDS = np.array([["a", "b"], ["wörld", "😀"]], np.object_)
TENSORS = (("x", "FP32", PROBS), ("ids", "INT64", IDS), ("words", "BYTES", WORDS))
OUTPUTS = ("ids_out", "probs", "words_out")
BEST = ["0.66524094:2:fish", "0.84375924:0:cat"]


def plain(texts):
    return [[text.decode() if isinstance(text, bytes) else text for text in row] for row in texts.tolist()]


def check(get):
    assert get("ids_out").tolist() == IDS.tolist()
    assert plain(get("words_out")) == WORDS.tolist()
    exponents = np.exp(PROBS.astype(np.float64))
    np.testing.assert_allclose(get("probs"), exponents / exponents.sum(1, keepdims=True), rtol=1e-6)


def made(kind, binary):
    inputs = []
    for name, datatype, array in TENSORS:
        one = kind(name, list(array.shape), datatype)
        one.set_data_from_numpy(array, binary_data=binary)
        inputs.append(one)
    return inputs


def triton(url):
    import tritonclient.http as http
    from tritonclient.utils import InferenceServerException

    client = http.InferenceServerClient(url.split("://")[1])
    assert client.is_server_live() and client.is_server_ready()
    metadata = client.get_model_metadata("job")
    [version] = metadata["versions"]
    assert client.is_model_ready("job") and client.is_model_ready("job", version)
    assert "classification" in client.get_server_metadata()["extensions"]
    config = client.get_model_config("job", version)
    assert config["max_batch_size"] == 32 and [one["dims"] for one in config["input"]] == [[3], [2], [2]]
    index = {"name": "job", "version": version, "state": "READY", "reason": ""}
    assert client.get_model_repository_index() == [index]
    codings = (None, "gzip", "deflate")
    runs = list(itertools.product((True, False), (None, True, False), codings, codings))
    for binary, binary_out, sent, wanted in runs:
        outputs = binary_out is not None and [http.InferRequestedOutput(name, binary_out) for name in OUTPUTS]
        result = client.infer(
            "job", made(http.InferInput, binary), version, outputs or None, request_id="7", priority=1,
            timeout=600_000_000, request_compression_algorithm=sent, response_compression_algorithm=wanted,
        )
        assert result.get_response()["id"] == "7"
        check(result.as_numpy)
    best = [http.InferRequestedOutput("probs", class_count=1)]
    classes = client.infer("job", made(http.InferInput, True), outputs=best).as_numpy("probs")
    assert plain(classes) == [[text] for text in BEST]
    for stats in (client.get_inference_statistics("job", version), client.get_inference_statistics()):
        [model] = stats["model_stats"]
        assert model["execution_count"] == len(runs) + 1 and model["inference_count"] == 2 * (len(runs) + 1)
    refused = (
        (lambda: client.load_model("job"), "model push"),
        (lambda: client.unload_model("job"), "model push"),
        (lambda: client.get_system_shared_memory_status(), "shared memory is not served"),
        (lambda: client.infer("job", made(http.InferInput, True), sequence_id=3), "sequences"),
        (lambda: client.infer("job", made(http.InferInput, True)[:1]), 'missing input "ids", "words"'),
        (lambda: client.infer("other", made(http.InferInput, True)), 'no model "other"'),
    )
    for ask, words in refused:
        try:
            ask()
        except InferenceServerException as error:
            assert words in error.message(), error
        else:
            raise AssertionError(words)


async def kserve(url):
    from kserve import InferenceRESTClient, InferInput, InferRequest, RESTConfig
    from kserve.protocol.infer_type import RequestedOutput

    async with InferenceRESTClient(RESTConfig(protocol="v2")) as client:
        assert await client.is_server_live(url) and await client.is_server_ready(url)
        assert await client.is_model_ready(url, "job") and not await client.is_model_ready(url, "other")
        for binary, binary_out in itertools.product((True, False), (None, True, False)):
            outputs = None
            if binary_out is not None:
                outputs = [RequestedOutput(name, parameters={"binary_data": binary_out}) for name in OUTPUTS]
            request = InferRequest("job", made(InferInput, binary), request_outputs=outputs, parameters={"mine": "a"})
            answer = await client.infer(url, request, model_name="job")
            check(lambda name: answer.get_output_by_name(name).as_numpy())
        best = [RequestedOutput("probs", parameters={"classification": 1})]
        request = InferRequest("job", made(InferInput, False), request_outputs=best)
        answer = await client.infer(url, request, model_name="job")
        assert answer.outputs[0].data == BEST, answer
        try:
            await client.infer(url, request, model_name="other")
        except Exception as error:
            assert 'no model "other"' in str(error), error
        else:
            raise AssertionError("no error")


if sys.argv[1] == "kserve":
    asyncio.run(kserve(sys.argv[2]))
else:
    triton(sys.argv[2])
print("all is well")
