"""The types of resources that moto's CloudFormation does not know, as calls of the service's API.

CloudFormation creates a resource by the same calls. Names and types of parameters are checked against AWS's own model of
the service, which finds a property that no API takes.
"""

import json
import re

import boto3
from botocore.exceptions import ClientError
from botocore.validate import ParamValidator
from moto.cloudformation import models, parsing
from moto.core.common_models import CloudFormationModel

# moto has no such operation either: the call is checked, and goes no further.
ONLY_CHECKED = {
    "CreateCacheParameterGroup",
    "CreateServerlessCache",
    "CreateUserGroup",
    "DeleteCacheParameterGroup",
    "DeleteCacheSubnetGroup",
    "DeleteServerlessCache",
    "DeleteUserGroup",
    "UpdateStage",
}


class Gap:
    """`create`, `update` and `delete` give calls: pairs of an operation and its parameters."""

    def __init__(self, service, create, ref, delete, update=None, attributes=None):
        self.service, self.create, self.ref, self.delete = service, create, ref, delete
        self.update, self.attributes = update, attributes or (lambda ref, region: {})


def of_api(noun, *owners):
    """The parts of an HTTP API have the same names in CloudFormation and in the API, and an id or a name of their own."""
    own = {"Stage": "StageName", "DomainName": "DomainName"}.get(noun, f"{noun}Id")
    # The API has one map of tags, and CloudFormation no tags for some parts.
    keys = lambda ref, p: {**{owner: p[owner] for owner in owners}, own: ref}
    return Gap(
        "apigatewayv2",
        create=lambda p, name: [(f"Create{noun}", p)],
        ref=lambda p, name, answer: answer[own],
        delete=lambda ref, p: [(f"Delete{noun}", keys(ref, p))],
        update=lambda ref, p: [(f"Update{noun}", {**p, **keys(ref, p)})],
    )


def of_cache(noun, name_of, delete, renamed=(), dropped=(), attributes=None):
    names = dict(renamed)
    rest = lambda p: {names.get(key, key): value for key, value in p.items() if key not in dropped}
    return Gap(
        "elasticache",
        create=lambda p, name: [(f"Create{noun}", {name_of: name.lower()[:40], **rest(p)})],
        ref=lambda p, name, answer: p.get(name_of, name.lower()[:40]),
        delete=lambda ref, p: [(delete, {name_of: ref})],
        attributes=attributes,
    )


def security_rule(p):
    rule = {key: p[key] for key in ("IpProtocol", "FromPort", "ToPort")}
    group = {"GroupId": p["DestinationSecurityGroupId"], "Description": p.get("Description", "")}
    return {"GroupId": p["GroupId"], "IpPermissions": [{**rule, "UserIdGroupPairs": [group]}]}


def policy_of(service, operation, targets, parameters):
    """A policy of a resource, which is set and, with the resource, deleted."""
    put = lambda p: [(operation, parameters(one, json.dumps(p["PolicyDocument"]))) for one in targets(p)]
    return Gap(
        service,
        create=lambda p, name: put(p),
        ref=lambda p, name, answer: name,
        delete=lambda ref, p: [],
        update=lambda ref, p: put(p),
    )


def bucket_policy(p):
    """moto looks at no condition, so that "deny without TLS" would deny everything."""
    document = p["PolicyDocument"]
    kept = [one for one in document["Statement"] if one["Effect"] == "Allow" or "Condition" not in one]
    text = json.dumps({**document, "Statement": kept})
    return [("PutBucketPolicy", {"Bucket": p["Bucket"], "Policy": text})] if kept else []


def put_alarm(p, name):
    return [("PutMetricAlarm", {"AlarmName": name, **p})]


GAPS = {
    "AWS::ApiGatewayV2::Api": of_api("Api"),
    "AWS::ApiGatewayV2::ApiMapping": of_api("ApiMapping", "DomainName"),
    "AWS::ApiGatewayV2::Authorizer": of_api("Authorizer", "ApiId"),
    "AWS::ApiGatewayV2::DomainName": of_api("DomainName"),
    "AWS::ApiGatewayV2::Integration": of_api("Integration", "ApiId"),
    "AWS::ApiGatewayV2::Route": of_api("Route", "ApiId"),
    "AWS::ApiGatewayV2::Stage": of_api("Stage", "ApiId"),
    "AWS::CloudWatch::Alarm": Gap(
        "cloudwatch",
        create=put_alarm,
        ref=lambda p, name, answer: p.get("AlarmName", name),
        delete=lambda ref, p: [("DeleteAlarms", {"AlarmNames": [ref]})],
        update=lambda ref, p: put_alarm(p, ref),
    ),
    "AWS::EC2::SecurityGroupEgress": Gap(
        "ec2",
        create=lambda p, name: [("AuthorizeSecurityGroupEgress", security_rule(p))],
        ref=lambda p, name, answer: name,
        delete=lambda ref, p: [("RevokeSecurityGroupEgress", security_rule(p))],
    ),
    "AWS::ElastiCache::ParameterGroup": of_cache(
        "CacheParameterGroup", "CacheParameterGroupName", "DeleteCacheParameterGroup", dropped=("Properties",)
    ),
    "AWS::ElastiCache::ReplicationGroup": of_cache("ReplicationGroup", "ReplicationGroupId", "DeleteReplicationGroup"),
    "AWS::ElastiCache::ServerlessCache": of_cache(
        "ServerlessCache", "ServerlessCacheName", "DeleteServerlessCache", dropped=("FinalSnapshotName",)
    ),
    "AWS::ElastiCache::SubnetGroup": of_cache(
        "CacheSubnetGroup",
        "CacheSubnetGroupName",
        "DeleteCacheSubnetGroup",
        renamed={"Description": "CacheSubnetGroupDescription"},
    ),
    "AWS::ElastiCache::User": of_cache(
        "User",
        "UserId",
        "DeleteUser",
        attributes=lambda ref, region: {"Arn": f"arn:aws:elasticache:{region}:123456789012:user:{ref}"},
    ),
    "AWS::ElastiCache::UserGroup": of_cache("UserGroup", "UserGroupId", "DeleteUserGroup"),
    "AWS::Lambda::Alias": Gap(
        "lambda",
        create=lambda p, name: [
            ("CreateAlias", {key: value for key, value in p.items() if key != "ProvisionedConcurrencyConfig"})
        ],
        ref=lambda p, name, answer: answer["AliasArn"],
        delete=lambda ref, p: [("DeleteAlias", {"FunctionName": p["FunctionName"], "Name": p["Name"]})],
    ),
    "AWS::S3::BucketPolicy": Gap(
        "s3",
        create=lambda p, name: bucket_policy(p),
        ref=lambda p, name, answer: name,
        delete=lambda ref, p: [],
        update=lambda ref, p: bucket_policy(p),
    ),
    "AWS::SNS::Subscription": Gap(
        "sns",
        create=lambda p, name: [("Subscribe", p)],
        ref=lambda p, name, answer: answer["SubscriptionArn"],
        delete=lambda ref, p: [("Unsubscribe", {"SubscriptionArn": ref})],
    ),
    "AWS::SNS::TopicPolicy": policy_of(
        "sns",
        "SetTopicAttributes",
        lambda p: p["Topics"],
        lambda topic, text: {"TopicArn": topic, "AttributeName": "Policy", "AttributeValue": text},
    ),
    "AWS::SQS::QueuePolicy": policy_of(
        "sqs",
        "SetQueueAttributes",
        lambda p: p["Queues"],
        lambda url, text: {"QueueUrl": url, "Attributes": {"Policy": text}},
    ),
}

# Resource types that moto's CloudFormation creates but cannot update.
UPDATES = {
    "AWS::Logs::LogGroup": (
        "logs",
        lambda ref, p: [("PutRetentionPolicy", {"logGroupName": ref, "retentionInDays": p["RetentionInDays"]})],
    ),
}


def fill(endpoint, redis):
    """Makes moto know the types. `endpoint()` is its own address, `redis()` host and port of the Redis of a stack."""
    for type_name, gap in GAPS.items():
        model(type_name, gap, endpoint, redis)
    parsing.clean_json = with_nested_attributes(parsing.clean_json)
    parsing.parse_and_update_resource = with_updates(parsing.parse_and_update_resource, endpoint)
    parsing.parse_and_delete_resource = with_deletion(parsing.parse_and_delete_resource, endpoint)
    backend = models.CloudFormationBackend
    backend.execute_change_set = with_outputs(backend.execute_change_set)


def with_nested_attributes(clean_json):
    """moto reads `${Redis.PrimaryEndPoint.Port}` as the attribute PrimaryEndPoint."""

    def clean(part, resources):
        text = part.get("Fn::Sub") if isinstance(part, dict) else None
        if isinstance(text, str):
            attribute = lambda found: str(clean_json({"Fn::GetAtt": [found[1], found[2]]}, resources))
            part = {"Fn::Sub": re.sub(r"\$\{(\w+)\.(\w+\.\w+)\}", attribute, text)}
        return clean_json(part, resources)

    return clean


def with_deletion(parse_and_delete_resource, endpoint):
    """moto's CloudFormation leaves a route table where it is, and then cannot delete the VPC."""

    def delete(ref, resource_json, account_id, region_name):
        parse_and_delete_resource(ref, resource_json, account_id, region_name)
        if resource_json["Type"] != "AWS::EC2::RouteTable":
            return
        ec2 = client("ec2", region_name, endpoint())
        [table] = ec2.describe_route_tables(RouteTableIds=[ref])["RouteTables"]
        for one in table["Associations"]:
            ec2.disassociate_route_table(AssociationId=one["RouteTableAssociationId"])
        ec2.delete_route_table(RouteTableId=ref)

    return delete


def with_updates(parse_and_update_resource, endpoint):
    """moto forgets a resource that it cannot update."""

    def update(logical_id, resource_json, resources_map, account_id, region_name):
        updated = parse_and_update_resource(logical_id, resource_json, resources_map, account_id, region_name)
        if updated is not None:
            return updated
        service, calls = UPDATES[resource_json["Type"]]
        resource = resources_map[logical_id]
        properties = parsing.clean_json(resource_json["Properties"], resources_map)
        for operation, parameters in calls(resource.physical_resource_id, properties):
            call(service, operation, parameters, region_name, endpoint())
        return resource

    return update


def with_outputs(execute_change_set):
    """moto shows the outputs of a stack as it was before the change set, which sees no exports of other stacks."""

    def execute(backend, change_set_name, stack_name=None):
        for stack in backend.stacks.values():
            stack.resource_map.cross_stack_resources = backend.exports
        execute_change_set(backend, change_set_name, stack_name)
        for stack in backend.stacks.values():
            stack._parse_template()
            stack.output_map = stack._create_output_map()
            backend.exports.update({export.name: export for export in stack.exports})

    return execute


def model(type_name, gap, endpoint, redis):
    def run(calls, region):
        answer = {}
        for operation, parameters in calls:
            answer = call(gap.service, operation, parameters, region, endpoint())
        return answer

    class Filled(CloudFormationModel):
        # moto reads the service out of it.
        __module__ = f"moto.{gap.service}.gaps"

        def __init__(self, ref, properties, region):
            self.physical_resource_id, self.properties, self.region = ref, properties, region

        @staticmethod
        def cloudformation_name_type():
            return ""

        @staticmethod
        def cloudformation_type():
            return type_name

        @classmethod
        def has_cfn_attr(cls, attr):
            return True

        @classmethod
        def create_from_cloudformation_json(cls, resource_name, cloudformation_json, account_id, region_name, **_):
            properties = cloudformation_json["Properties"]
            answer = run(gap.create(properties, resource_name), region_name)
            return cls(gap.ref(properties, resource_name, answer), properties, region_name)

        @classmethod
        def update_from_cloudformation_json(
            cls, original_resource, new_resource_name, cloudformation_json, account_id, region_name
        ):
            if gap.update is None:
                original_resource.delete(account_id, region_name)
                return cls.create_from_cloudformation_json(
                    new_resource_name, cloudformation_json, account_id, region_name
                )
            original_resource.properties = cloudformation_json["Properties"]
            ref = original_resource.physical_resource_id
            run(gap.update(ref, original_resource.properties), original_resource.region)
            return original_resource

        def delete(self, account_id, region_name):
            try:
                run(gap.delete(self.physical_resource_id, self.properties), region_name)
            except ClientError as error:
                # It went with its owner: moto deletes in any order.
                if "NotFound" not in error.response["Error"]["Code"]:
                    raise

        def get_cfn_attribute(self, attribute):
            host, port = redis()
            known = {
                "Endpoint.Address": host,
                "Endpoint.Port": port,
                "PrimaryEndPoint.Address": host,
                "PrimaryEndPoint.Port": port,
                "RegionalDomainName": f"d-emulated.execute-api.{self.region}.amazonaws.com",
                **gap.attributes(self.physical_resource_id, self.region),
            }
            return known[attribute]

    Filled.__name__ = type_name
    # moto finds the types by their classes, which live as long as something names them.
    gap.model = Filled


def call(service, operation, parameters, region, endpoint):
    made = client(service, region, endpoint)
    shape = made.meta.service_model.operation_model(operation).input_shape
    given = typed(parameters, shape)
    report = ParamValidator().validate(given, shape)
    if report.has_errors():
        raise ValueError(f"{operation}: {report.generate_report()}")
    return {} if operation in ONLY_CHECKED else made._make_api_call(operation, given)


def client(service, region, endpoint, key="emulated"):
    return boto3.client(
        service, region_name=region, endpoint_url=endpoint, aws_access_key_id=key, aws_secret_access_key="made-up"
    )


def typed(value, shape):
    """A template's numbers and texts in the type that the API wants; CloudFormation takes either."""
    if shape.type_name == "structure" and isinstance(value, dict):
        return {n: typed(v, shape.members[n]) if n in shape.members else v for n, v in value.items()}
    if shape.type_name == "list" and isinstance(value, list):
        return [typed(one, shape.member) for one in value]
    if shape.type_name in ("integer", "long") and isinstance(value, str):
        return int(value)
    if shape.type_name in ("double", "float") and isinstance(value, (int, str)):
        return float(value)
    return value
