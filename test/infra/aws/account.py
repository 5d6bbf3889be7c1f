"""The emulated account: moto's server, its gaps filled (gaps.py), with a record of every request.

    account.py RECORD

Prints its port as its first line and ends with its standard input. RECORD gets one line of JSON for each request: the
access key, the service and what was asked. Beside AWS's APIs it answers the test: `PUT /-/places` says what stands for
Redis and the HTTP API of a stack, `GET /-/state` shows what there is in the account.
"""

import ast
import json
import os
import re
import sys
import threading
from io import BytesIO

import moto.cloudformation.models
from gaps import client, fill
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, MotoRequestHandler, create_backend_app
from werkzeug.serving import make_server

REGION = "eu-west-1"
places = {"redis": ["redis.invalid", 6379], "api": None}


def main(record):
    application = DomainDispatcherApplication(create_backend_app)
    server = make_server("127.0.0.1", 0, wrapped(application, open(record, "a")), threaded=True, request_handler=Quiet)
    endpoint = f"http://127.0.0.1:{server.server_port}"
    places["endpoint"] = endpoint
    # It would refuse every warning of cfn-lint; lint.aws.test.ts has a list of those that are accepted.
    moto.cloudformation.models.validate_template_cfn_lint = lambda template: []
    fill(lambda: endpoint, lambda: places["redis"])
    threading.Thread(target=lambda: (sys.stdin.read(), os._exit(0)), daemon=True).start()
    print(server.server_port, flush=True)
    server.serve_forever()


class Quiet(MotoRequestHandler):
    def log_request(self, *args):
        pass


def wrapped(application, record):
    writing = threading.Lock()

    def respond(environ, start_response):
        if environ["PATH_INFO"].startswith("/-/"):
            return own(environ, start_response)
        line = json.dumps(seen(environ)) + "\n"
        with writing:
            record.write(line)
            record.flush()
        began = []
        body = b"".join(application(environ, lambda status, headers, exc_info=None: began.extend([status, headers])))
        status, headers = began
        # A client goes where the outputs of the stack say, and AWS's own addresses lead out of this account.
        if places["api"] and b"<DescribeStacksResult" in body:
            body = re.sub(rb"https://[a-z0-9]+\.execute-api\.[a-z0-9.-]+", places["api"].encode(), body)
            body = re.sub(rb"https://sqs\.[a-z0-9.-]+", places["endpoint"].encode(), body)
            headers = [one for one in headers if one[0].lower() != "content-length"]
            headers.append(("Content-Length", str(len(body))))
        start_response(status, headers)
        return [body]

    return respond


def seen(environ):
    credential = re.search(r"Credential=([^/]+)/\d+/[^/]+/([^/]+)/", environ.get("HTTP_AUTHORIZATION", ""))
    key, service = credential.groups() if credential else ("", "")
    text = ""
    if service != "s3":
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        environ["wsgi.input"] = BytesIO(body)
        text = body.decode("utf-8", "replace")
    return {
        "key": key,
        "service": service,
        "method": environ["REQUEST_METHOD"],
        "path": environ["PATH_INFO"],
        "query": environ.get("QUERY_STRING", ""),
        "target": environ.get("HTTP_X_AMZ_TARGET", ""),
        "body": text,
    }


def own(environ, start_response):
    if environ["REQUEST_METHOD"] == "PUT":
        places.update(json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"]))))
    answer = {} if environ["REQUEST_METHOD"] == "PUT" else state()
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer, default=str).encode()]


def document(policy):
    """moto keeps the inline policies that its CloudFormation makes as Python writes them, which botocore cannot read."""
    return ast.literal_eval(policy) if isinstance(policy, str) else policy


def state():
    """What the services themselves say that there is, in the shapes of their APIs."""
    aws = lambda service: client(service, REGION, places["endpoint"])
    every = lambda service, operation, key, **given: [
        one for page in aws(service).get_paginator(operation).paginate(**given) for one in page[key]
    ]
    iam, api = aws("iam"), aws("apigatewayv2")
    return {
        "functions": every("lambda", "list_functions", "Functions"),
        # Keys in the deployment bucket, by function.
        "codes": [
            [one["FunctionName"], aws("lambda").get_function(FunctionName=one["FunctionName"])["Code"]["Location"]]
            for one in every("lambda", "list_functions", "Functions")
        ],
        "mappings": every("lambda", "list_event_source_mappings", "EventSourceMappings"),
        "roles": [
            {
                "Arn": role["Arn"],
                "RoleName": role["RoleName"],
                "Statements": [
                    statement
                    for name in iam.list_role_policies(RoleName=role["RoleName"])["PolicyNames"]
                    for statement in document(
                        iam.get_role_policy(RoleName=role["RoleName"], PolicyName=name)["PolicyDocument"]
                    )["Statement"]
                ],
                "Credentials": aws("sts").assume_role(RoleArn=role["Arn"], RoleSessionName="function")["Credentials"],
            }
            for role in every("iam", "list_roles", "Roles")
        ],
        "apis": [
            {
                **one,
                "Routes": api.get_routes(ApiId=one["ApiId"])["Items"],
                "Integrations": api.get_integrations(ApiId=one["ApiId"])["Items"],
                "Stages": api.get_stages(ApiId=one["ApiId"])["Items"],
            }
            for one in api.get_apis()["Items"]
        ],
        "queues": every("sqs", "list_queues", "QueueUrls") if aws("sqs").list_queues().get("QueueUrls") else [],
        "buckets": [one["Name"] for one in aws("s3").list_buckets()["Buckets"]],
        "logGroups": every("logs", "describe_log_groups", "logGroups"),
        "alarms": every("cloudwatch", "describe_alarms", "MetricAlarms"),
        "dashboards": every("cloudwatch", "list_dashboards", "DashboardEntries"),
        "topics": every("sns", "list_topics", "Topics"),
        # moto never gets further than "deleting".
        "caches": [
            one
            for one in aws("elasticache").describe_replication_groups().get("ReplicationGroups", [])
            if one["Status"] != "deleting"
        ],
        # Every account has one called "default".
        "redisUsers": [
            one
            for one in aws("elasticache").describe_users()["Users"]
            if one["UserId"] != "default" and one["Status"] != "deleting"
        ],
        "exports": aws("cloudformation").list_exports()["Exports"],
        "vpcs": [one for one in aws("ec2").describe_vpcs()["Vpcs"] if not one["IsDefault"]],
        "stacks": aws("cloudformation").describe_stacks()["Stacks"],
    }


if __name__ == "__main__":
    main(sys.argv[1])
