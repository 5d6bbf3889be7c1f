"""Reads results from the JSON of the service."""
from __future__ import annotations

import json
import math
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Dict, List, Mapping, NamedTuple, Optional, Sequence, Union

import numpy
from wkr_serving._protocol.frames import refuse_constant

from ._errors import ServingError

# Names of dtypes in /v2, where a model's dtypes are listed.
_DATATYPES = {"BOOL": "bool", "UINT8": "uint8", "UINT16": "uint16", "UINT32": "uint32", "UINT64": "uint64",
              "INT8": "int8", "INT16": "int16", "INT32": "int32", "INT64": "int64", "FP16": "float16",
              "FP32": "float32", "FP64": "float64", "BYTES": "string"}
_DTYPES = set(_DATATYPES.values())
# The source of an answer without outputs, if the service does not say more.
_SOURCE = "its filter or its worker"


class Enqueued(NamedTuple):
    """A record that the queue has. `identity` names this enqueue among all of the uri."""

    uri: str
    identity: str


@dataclass(frozen=True, eq=False)
class Result:
    """The result of the model, or of a worker, for one record.

    `outputs` has the model's outputs by name, in its order: arrays with dtype and shape; texts have the dtype object.
    NaN stands for NaN and infinity, which JSON lacks. If a filter or a worker answered with something else, there are
    no outputs and `value` is that as JSON. `model` is the version of the model. A prediction has the contract's text,
    `{value=…}`, and `labels`: the class names of each output that has some, `labels["p"][i]` for the value
    `outputs["p"][..., i]`. A result from the queue has its uri, its identity and the time it was finished. `source`
    says where an answer without outputs comes from.
    """

    outputs: Mapping[str, Any]
    value: Any = None
    model: str = ""
    text: Optional[str] = None
    uri: str = ""
    identity: str = ""
    finished_at: Optional[datetime] = None
    source: str = field(default=_SOURCE, repr=False)
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict, repr=False)

    @property
    def output(self) -> Any:
        """The array of the only output. Raises bad_request where there is not exactly one, with what to read instead."""
        if not self.outputs:
            raise ServingError("bad_request", f"the job answers with {self.source}: read .value")
        if len(self.outputs) > 1:
            raise ServingError("bad_request", f"there are {len(self.outputs)} outputs: read .outputs, which has "
                               f"{list(self.outputs)}")
        return next(iter(self.outputs.values()))


class Outcome(NamedTuple):
    """The outcome of one record: a result or an error, never both."""

    uri: str
    identity: str
    result: Optional[Result]
    error: Optional[ServingError]

    @property
    def found(self) -> Union[Result, ServingError]:
        """The one that there is."""
        assert self.result is not None or self.error is not None
        return self.result or self.error  # type: ignore[return-value]


class Output(NamedTuple):
    """An output as a model declares it."""

    name: str
    dtype: str
    labels: Sequence[str] = ()


class Model(NamedTuple):
    """The service's description of its model: the outputs, and the filter of the job, if it has one or does not say."""

    outputs: List[Output]
    filter: Optional[str]
    is_worker: bool

    @property
    def source(self) -> str:
        """Where an answer without outputs comes from."""
        if self.filter is not None:
            return f"its filter {self.filter}"
        return "its worker" if self.is_worker else "its filter"


def parse(data: bytes, what: str) -> Any:
    """Parses JSON. Raises internal."""
    try:
        return json.loads(data.decode("utf-8"), parse_constant=refuse_constant, parse_int=_parse_int)
    except (ValueError, RecursionError) as error:
        raise _malformed(f"{what} is not JSON") from error


def result_of(answer: Any, models: Mapping[str, Optional[Model]]) -> Result:
    """Reads a result of the queue. `models` are those that are known, by version. Raises the record's own error; internal."""
    if not isinstance(answer, dict) or not isinstance(answer.get("uri"), str):
        raise _malformed("a result has no uri")
    uri, identity = answer["uri"], str(answer.get("identity") or "")
    if answer.get("status") != "succeeded":
        raise ServingError(answer.get("code", ""), str(answer.get("error", "the record failed")), uri)
    if "large" in answer:
        raise _malformed("a large result has no address")
    value = answer.get("filtered", answer.get("value"))
    outputs: Dict[str, Any] = {}
    for output in _list(answer.get("outputs", []), "outputs"):
        if not isinstance(output, dict) or not isinstance(output.get("name"), str):
            raise _malformed("an output has no name")
        outputs[output["name"]] = _array_of(output, output.get("dtype"))
    model = str(answer.get("model", ""))
    known = models.get(model)
    source = "its worker" if "filtered" not in answer else known.source if known else "its filter"
    return Result(outputs, value, model, None, uri, identity, _time(answer.get("finishedAt")), source)


def prediction_of(text: Any, version: str, model: Optional[Model]) -> Result:
    """Reads one text of a prediction.

    Without the `model`, an array has the dtype that its numbers have in JSON (bool, int64, float64), and the names are
    output0, output1 and so on.
    """
    value = parse(inside(text).encode("utf-8"), "a prediction")
    tensors = value if isinstance(value, list) else [value]
    if not tensors or not all(isinstance(each, dict) and set(each) == {"data", "shape"} for each in tensors):
        return Result({}, value, version, text, source=model.source if model else _SOURCE)
    declared = model.outputs if model else []
    if len(declared) != len(tensors):
        declared = [Output(f"output{i}", "") for i in range(len(tensors))]
    named = list(zip(declared, tensors))
    outputs = {port.name: _array_of(each, port.dtype or _dtype_of(each["data"])) for port, each in named}
    labels = {port.name: port.labels for port, each in named
              if port.labels and each["shape"][-1:] == [len(port.labels)]}
    return Result(outputs, None, version, text, labels=labels)


def inside(text: Any) -> str:
    """Returns the text between `{value=` and `}`. Raises internal."""
    if not isinstance(text, str) or not text.startswith("{value=") or not text.endswith("}"):
        raise _malformed("a prediction is not a {value=…}")
    return text[len("{value="):-1]


def model_of(metadata: Any) -> Model:
    """Reads the metadata of /v2. Raises internal."""
    described = metadata if isinstance(metadata, dict) else {}
    outputs, parameters = _list(described.get("outputs"), "outputs"), described.get("parameters")
    filter_text = parameters.get("post_processing") if isinstance(parameters, dict) else None
    try:
        declared = [Output(str(each["name"]), _DATATYPES[each["datatype"]], _labels_of(each)) for each in outputs]
    except (KeyError, TypeError) as error:
        raise _malformed("the metadata of the model has an unknown output") from error
    return Model(declared, filter_text if isinstance(filter_text, str) else None, described.get("platform") == "worker")


def _labels_of(output: Mapping[str, Any]) -> Sequence[str]:
    parameters = output.get("parameters")
    names = parameters.get("names") if isinstance(parameters, dict) else None
    return [str(name) for name in names] if isinstance(names, list) else ()


def job_of(statistics: Any) -> Optional[str]:
    """Reads which job a service serves. None where it does not say it."""
    models = statistics.get("model_stats") if isinstance(statistics, dict) else None
    first = models[0] if isinstance(models, list) and models else None
    name = first.get("name") if isinstance(first, dict) else None
    return name if isinstance(name, str) else None


def _array_of(tensor: Mapping[str, Any], dtype: Any) -> Any:
    data, shape = _list(tensor.get("data"), "data"), _list(tensor.get("shape"), "shape")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise _malformed(f"unknown dtype {dtype!r:.40}: update the client")
    if not all(isinstance(dim, int) and dim >= 0 for dim in shape) or math.prod(shape) != len(data):
        raise _malformed(f"{len(data)} elements are not of shape {shape!r:.80}")
    return _elements(data, dtype).reshape(shape)


def _elements(data: List[Any], dtype: str) -> Any:
    kinds = set(map(type, data))
    article = "an" if dtype.startswith("int") else "a"
    try:
        if dtype == "string":
            texts: Any = numpy.empty(len(data), dtype=object)
            texts[:] = [str(text) for text in data]
            return texts
        if dtype == "bool" and kinds <= {bool}:
            return numpy.array(data, dtype=bool)
        if dtype.startswith("float") and kinds <= {int, float, type(None)}:
            # None, which stands for NaN, becomes one.
            return numpy.array(data, dtype=numpy.float64).astype(dtype)
        if "int" in dtype and kinds <= {int, str}:
            # Beyond 2^53 they are texts, so that they stay exact.
            numbers, limits = [int(number) for number in data], numpy.iinfo(dtype)
            # Earlier versions of numpy wrap what does not fit.
            if all(limits.min <= number <= limits.max for number in numbers):
                return numpy.array(numbers, dtype=dtype)
    except ValueError as error:
        raise _malformed(f"an element is not {article} {dtype}") from error
    raise _malformed(f"an element is not {article} {dtype}")


def _dtype_of(data: Any) -> str:
    kinds = set(map(type, data)) if isinstance(data, list) else set()
    if str in kinds:
        return "string"
    if kinds == {bool}:
        return "bool"
    return "int64" if kinds == {int} else "float64"


def _time(text: Any) -> Optional[datetime]:
    try:
        # Python 3.9 does not read a Z.
        return datetime.fromisoformat(text.replace("Z", "+00:00"))
    except (AttributeError, ValueError):
        return None


def _list(value: Any, name: str) -> List[Any]:
    if not isinstance(value, list):
        raise _malformed(f"{name} is not a list")
    return value


def _parse_int(text: str) -> Any:
    # Without int(): thousands of digits take it long.
    return int(text) if len(text) <= 20 else float(text)


def _malformed(problem: str) -> ServingError:
    return ServingError("internal", f"the answer of the service cannot be read: {problem}")
