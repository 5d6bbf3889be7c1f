"""The second emulated account: MiniStack, with what its CloudFormation lacks of our templates.

It has the service of serverless caches, which without a container engine answers with REDIS_HOST and REDIS_PORT, but not
their type. It knows no alarm of several metrics, and gets one of the first of them; its alarms are never looked at. It asks a
policy about batches of SQS, which AWS allows by the action of a single message.
"""

import ministack.app
from ministack.core import iam_actions
from ministack.services import elasticache as service
from ministack.services.cloudformation import provisioners

ALARM = "AWS::CloudWatch::Alarm"
TYPE = "AWS::ElastiCache::ServerlessCache"
# Each of them replaces the cache, and one with a name of its own cannot be replaced.
REPLACING = {"ServerlessCacheName", "ConnectionType", "SubnetIds", "KmsKeyId"}


def attributes(name):
    cache = service._serverless_caches[name]
    return {
        "ARN": cache["ARN"],
        "Status": cache["Status"],
        "Endpoint.Address": cache["Endpoint"]["Address"],
        "Endpoint.Port": str(cache["Endpoint"]["Port"]),
    }


def call(work, properties, action):
    provisioners._ec_call(work, provisioners._ec_query(properties), TYPE, action)


def create(logical_id, properties, stack):
    call(service._create_serverless_cache, properties, "create")
    name = properties["ServerlessCacheName"]
    return name, attributes(name)


def update(name, before, after, stack):
    changed = {key for key in {*before, *after} if before.get(key) != after.get(key)}
    if changed & REPLACING:
        raise ValueError("CloudFormation cannot update a stack when a custom-named resource requires replacing")
    given = {key: after[key] for key in changed if key in after}
    call(service._modify_serverless_cache, {"ServerlessCacheName": name, **given}, "update")
    return name, attributes(name)


def delete(name, properties):
    call(service._delete_serverless_cache, {"ServerlessCacheName": name}, "delete")


def with_one_metric(properties):
    found = [one["MetricStat"] for one in properties.get("Metrics", []) if "MetricStat" in one]
    if not found:
        return properties
    rest = {key: value for key, value in properties.items() if key != "Metrics"}
    return {**rest, **found[0]["Metric"], "Statistic": found[0]["Stat"], "Period": found[0]["Period"]}


def simplified(work):
    def run(*arguments, **named):
        return work(*(with_one_metric(one) if isinstance(one, dict) else one for one in arguments), **named)

    return run


def of_message(action):
    return action.removesuffix("Batch") if action and action.startswith("sqs:") else action


if __name__ == "__main__":
    provisioners._RESOURCE_HANDLERS[TYPE] = {"create": create, "update": update, "delete": delete}
    alarm = provisioners._RESOURCE_HANDLERS[ALARM]
    for step in ("create", "update", "delete"):
        alarm[step] = simplified(alarm[step])
    of_request = iam_actions.extract_iam_action
    iam_actions.extract_iam_action = lambda *request: of_message(of_request(*request))
    # api.ecr is ECR, and not a bucket called "api".
    ministack.app._NON_S3_VHOST_NAMES |= {"api"}
    ministack.app.main()
