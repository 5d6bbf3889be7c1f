"""A function in Python as AWS's and onnxruntime's documentation advise: the model is read from S3 and opened at INIT."""

import json
import os

import boto3
import numpy as np
import onnxruntime

INPUT = os.environ["BENCH_INPUT"]


def open_model() -> onnxruntime.InferenceSession:
    stored = boto3.client("s3").get_object(Bucket=os.environ["BENCH_BUCKET"], Key=os.environ["BENCH_KEY"])
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return onnxruntime.InferenceSession(stored["Body"].read(), options, providers=["CPUExecutionProvider"])


session = open_model()


def predict(instances: list) -> list:
    rows = np.array([instance[INPUT] for instance in instances], dtype=np.float32)
    (scores,) = session.run(None, {INPUT: rows})
    return scores.tolist()


def handler(event: dict, _context: object) -> dict:
    predictions = predict(json.loads(event["body"])["instances"])
    headers = {"content-type": "application/json"}
    return {"statusCode": 200, "headers": headers, "body": json.dumps({"predictions": predictions})}
