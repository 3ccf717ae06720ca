"""The template of functions is one that AWS takes, and it allows what functions and clients do, no more."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

api = pytest.importorskip("cfnlint.api")
decode = pytest.importorskip("cfnlint.decode")

ROOT = Path(__file__).resolve().parent.parent
TEMPLATE = ROOT / "deploy/functions/template.yaml"

KEY = "arn:aws:kms:eu-west-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
TABLES = ["arn:aws:s3:::events", "arn:aws:s3:::facts.example"]
OPTIONS = {
    "Architecture": "arm64",
    "Memory": 8192,
    "SmallMemory": 1769,
    "Timeout": 120,
    "ReservedConcurrency": "100",
    "Prefix": "team/queries-2",
    "KeptStageDays": 30,
    "TableBuckets": TABLES,
    "KeyArn": KEY,
}
MISSING = object()


class Stack:
    """The template with parameters. A resource is `<Name>` in it, and its attribute `<Name.Attribute>`."""

    def __init__(self, template: dict[str, Any], **given: Any) -> None:
        self.template = template
        self.values = {name: parameter["Default"] for name, parameter in template["Parameters"].items()}
        for name, parameter in template["Parameters"].items():
            if parameter["Type"] == "CommaDelimitedList":
                self.values[name] = parameter["Default"].split(",")
        self.values |= given

    def value(self, node: Any) -> Any:
        """Put values in the place of functions of CloudFormation."""
        match node:
            case {"Ref": "AWS::NoValue"}:
                return MISSING
            case {"Ref": name}:
                return self.values.get(name, f"<{name}>")
            case {"Fn::GetAtt": [name, attribute]}:
                return f"<{name}.{attribute}>"
            case {"Fn::If": [condition, then, otherwise]}:
                return self.value(then if self.value(self.template["Conditions"][condition]) else otherwise)
            case {"Fn::Equals": [left, right]}:
                return str(self.value(left)) == str(self.value(right))
            case {"Fn::Not": [condition]}:
                return not self.value(condition)
            case {"Fn::Or": conditions}:
                return any(self.value(condition) for condition in conditions)
            case {"Fn::Join": [separator, parts]}:
                return separator.join(self.value(parts))
            case {"Fn::Split": [separator, text]}:
                return self.value(text).split(separator)
            case {"Fn::Sub": [text, variables]}:
                return self.text(text, self.value(variables))
            case {"Fn::Sub": text}:
                return self.text(text, {})
            case dict():
                assert not any(name.startswith("Fn::") for name in node), f"the tests do not know {node}"
                found = {name: self.value(part) for name, part in node.items()}
                return {name: part for name, part in found.items() if part is not MISSING}
            case list():
                return [part for part in map(self.value, node) if part is not MISSING]
            case _:
                return node

    def text(self, text: str, variables: dict[str, str]) -> str:
        known = self.values | variables
        return re.sub(r"\$\{([^}]+)\}", lambda name: str(known.get(name[1], f"<{name[1]}>")), text)

    def properties(self, resource: str) -> dict[str, Any]:
        return self.value(self.template["Resources"][resource]["Properties"])


@pytest.fixture(scope="module")
def template() -> dict[str, Any]:
    found, errors = decode.decode(str(TEMPLATE))
    assert not errors
    return found


@pytest.fixture(params=["defaults", "options"])
def stack(request: pytest.FixtureRequest, template: dict[str, Any]) -> Stack:
    return Stack(template, **(OPTIONS if request.param == "options" else {}))


def statements(node: Any) -> Iterator[dict[str, Any]]:
    """Find all statements of all policies."""
    for name, part in node.items() if isinstance(node, dict) else enumerate(node):
        if name == "Statement":
            yield from part
        elif isinstance(part, dict | list):
            yield from statements(part)


def listed(node: Any) -> list[Any]:
    return node if isinstance(node, list) else [node]


def grants(*policies: Any) -> set[tuple[str, ...]]:
    """What is allowed: an action, a resource, and the condition if there is one."""
    found = set()
    for policy in policies:
        for statement in statements(policy):
            assert statement["Effect"] == "Allow"
            condition = [json.dumps(statement["Condition"])] if "Condition" in statement else []
            for action in listed(statement["Action"]):
                found |= {(action, resource, *condition) for resource in listed(statement["Resource"])}
    return found


def prefixes(patterns: str | list[str]) -> str:
    return json.dumps({"StringLike": {"s3:prefix": patterns}})


def of_key(stack: Stack) -> set[tuple[str, ...]]:
    """What both functions and clients may do with the key of the bucket."""
    if not stack.values["KeyArn"]:
        return set()
    condition = json.dumps({"StringEquals": {"kms:ViaService": "s3.<AWS::Region>.amazonaws.com"}})
    return {(action, KEY, condition) for action in ("kms:Decrypt", "kms:GenerateDataKey")}


def of_functions(stack: Stack) -> set[tuple[str, ...]]:
    """What clients may do with functions."""
    names = ["Function", *(["SmallFunction"] if stack.values["SmallMemory"] else [])]
    return {("lambda:InvokeFunction", f"<{name}.Arn>") for name in names}


def of_tables(stack: Stack) -> set[tuple[str, ...]]:
    return {("s3:GetObject", f"{bucket}/*") for bucket in stack.values["TableBuckets"] if bucket}


def test_it_is_valid() -> None:
    assert [str(match) for match in api.lint(TEMPLATE.read_text())] == []


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("Handler: bootstrap", "Handel: bootstrap"),
        ("MemorySize: !Ref Memory", "MemorySize: !Ref Memories"),
        ("Role: !GetAtt Role.Arn", "Role: !GetAtt Role.Name"),
        ("BlockPublicAcls: true", "BlockPublicAcls: maybe"),
        ("Transform: AWS::Serverless-2016-10-31", "Transform: []"),
    ],
)
def test_the_check_finds_mistakes(right: str, wrong: str) -> None:
    text = TEMPLATE.read_text()
    assert right in text
    assert api.lint(text.replace(right, wrong))


def test_functions_may_do_what_they_do(stack: Stack) -> None:
    role = stack.properties("Role")
    below = stack.values["Prefix"]
    objects = f"<Bucket.Arn>/{below}"
    expected = {
        ("logs:CreateLogStream", "<LogGroup.Arn>"),
        ("logs:PutLogEvents", "<LogGroup.Arn>"),
        ("s3:GetObject", f"{objects}/queries/*"),
        ("s3:GetObject", f"{objects}/stages/*"),
        ("s3:GetObject", f"{objects}/tables/*"),
        ("s3:PutObject", f"{objects}/queries/*"),
        ("s3:PutObject", f"{objects}/stages/*"),
        # So that S3 tells an object that is missing from one that is forbidden.
        ("s3:ListBucket", "<Bucket.Arn>", prefixes([f"{below}/queries/*", f"{below}/stages/*"])),
    }
    # They invoke no functions: that is done by clients.
    assert grants(role["Policies"]) == expected | of_tables(stack) | of_key(stack)
    (trust,) = role["AssumeRolePolicyDocument"]["Statement"]
    assert (trust["Action"], trust["Principal"]) == ("sts:AssumeRole", {"Service": "lambda.amazonaws.com"})


def test_clients_may_do_what_they_do(stack: Stack) -> None:
    below = stack.values["Prefix"]
    actions = ("s3:GetObject", "s3:PutObject", "s3:DeleteObject", "s3:AbortMultipartUpload")
    expected = {(action, f"<Bucket.Arn>/{below}/*") for action in actions} | {
        ("s3:ListBucket", "<Bucket.Arn>", prefixes(f"{below}/*")),
    }
    tables = {("s3:ListBucket", bucket) for bucket in stack.values["TableBuckets"] if bucket}
    granted = grants(stack.properties("ClientPolicy"))
    assert granted == expected | of_functions(stack) | tables | of_tables(stack) | of_key(stack)


def test_no_policy_allows_more_than_it_names(stack: Stack) -> None:
    own = f"<Bucket.Arn>/{stack.values['Prefix']}/"
    others = tuple(f"{bucket}/" for bucket in stack.values["TableBuckets"] if bucket)
    found = list(statements(stack.value(stack.template["Resources"])))
    assert len(found) > 5
    for statement in found:
        assert not {"NotAction", "NotResource", "NotPrincipal"} & statement.keys()
        if statement["Effect"] == "Deny" or "Principal" in statement:
            continue
        for action in listed(statement["Action"]):
            assert re.fullmatch(r"[a-z0-9]+:[A-Za-z]+", action)
            for resource in listed(statement["Resource"]):
                assert resource.strip("*:/")
                if re.fullmatch(r"s3:.*(Object|MultipartUpload)", action):
                    assert resource.startswith((own, *(others if action == "s3:GetObject" else ())))
                if resource == "<Bucket.Arn>":
                    (patterns,) = [test["s3:prefix"] for test in statement["Condition"].values()]
                    assert all(f"<Bucket.Arn>/{pattern}".startswith(own) for pattern in listed(patterns))


def test_there_are_no_other_policies(template: dict[str, Any]) -> None:
    resources = template["Resources"]
    assert {name: resource["Type"] for name, resource in resources.items()} == {
        "Bucket": "AWS::S3::Bucket",
        "BucketPolicy": "AWS::S3::BucketPolicy",
        "LogGroup": "AWS::Logs::LogGroup",
        "Function": "AWS::Serverless::Function",
        "SmallFunction": "AWS::Serverless::Function",
        "Role": "AWS::IAM::Role",
        "ClientPolicy": "AWS::IAM::ManagedPolicy",
    }
    assert "ManagedPolicyArns" not in resources["Role"]["Properties"]
    # SAM makes roles of its own, permissions and public addresses of these.
    for name in ("Function", "SmallFunction"):
        function = resources[name]["Properties"]
        assert not {"Policies", "Events", "FunctionUrlConfig"} & function.keys()


def test_the_bucket_is_private(stack: Stack) -> None:
    bucket = stack.properties("Bucket")
    blocked = ("BlockPublicAcls", "BlockPublicPolicy", "IgnorePublicAcls", "RestrictPublicBuckets")
    assert bucket["PublicAccessBlockConfiguration"] == dict.fromkeys(blocked, True)
    assert bucket["OwnershipControls"] == {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}
    assert "AccessControl" not in bucket
    (encryption,) = bucket["BucketEncryption"]["ServerSideEncryptionConfiguration"]
    with_key = {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": KEY}
    has_key = bool(stack.values["KeyArn"])
    expected = with_key if has_key else {"SSEAlgorithm": "AES256"}
    assert encryption["ServerSideEncryptionByDefault"] == expected
    assert encryption.get("BucketKeyEnabled", False) is has_key


def test_the_bucket_refuses_what_is_not_encrypted_on_its_way(stack: Stack) -> None:
    policy = stack.properties("BucketPolicy")
    assert policy["Bucket"] == "<Bucket>"
    (refusal,) = policy["PolicyDocument"]["Statement"]
    assert refusal.pop("Sid")
    assert refusal == {
        "Effect": "Deny",
        "Principal": "*",
        "Action": "s3:*",
        "Resource": ["<Bucket.Arn>", "<Bucket.Arn>/*"],
        "Condition": {"Bool": {"aws:SecureTransport": "false"}},
    }


def test_what_is_not_needed_any_more_expires_and_tables_stay(stack: Stack) -> None:
    rules = stack.properties("Bucket")["LifecycleConfiguration"]["Rules"]
    assert all(rule.pop("Status") == "Enabled" and rule.pop("Id") for rule in rules)
    below = stack.values["Prefix"]
    assert rules == [
        {"Prefix": f"{below}/queries/", "ExpirationInDays": 1},
        {"Prefix": f"{below}/stages/", "ExpirationInDays": stack.values["KeptStageDays"]},
        {"AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}},
    ]
    # A stack that goes away leaves them.
    bucket = stack.template["Resources"]["Bucket"]
    assert bucket["DeletionPolicy"] == bucket["UpdateReplacePolicy"] == "Retain"


def test_the_function(stack: Stack) -> None:
    function = stack.properties("Function")
    assert (function["Runtime"], function["Handler"]) == ("provided.al2023", "bootstrap")
    assert function["Architectures"] == [stack.values["Architecture"]]
    assert (function["MemorySize"], function["Timeout"]) == (stack.values["Memory"], stack.values["Timeout"])
    assert function["Role"] == "<Role.Arn>"
    assert "VpcConfig" not in function
    assert function["EventInvokeConfig"]["MaximumRetryAttempts"] == 0
    # A report of costs is found in the text of a log only.
    assert function["LoggingConfig"] == {"LogGroup": "<LogGroup>", "LogFormat": "Text"}
    assert stack.properties("LogGroup")["RetentionInDays"] > 0


def test_the_small_function_differs_in_its_memory_only(stack: Stack) -> None:
    function, small = stack.properties("Function"), stack.properties("SmallFunction")
    function.pop("ReservedConcurrentExecutions", None)
    assert small == function | {"MemorySize": stack.values["SmallMemory"]}
    assert stack.template["Resources"]["SmallFunction"]["Condition"] == "HasSmall"


def test_the_package_is_a_file_that_sam_uploads(template: dict[str, Any]) -> None:
    # It leaves names alone that a function of CloudFormation makes.
    package = template["Resources"]["Function"]["Properties"]["CodeUri"]
    assert isinstance(package, str)
    # Not resolved: where the package has been made, the name is a link.
    assert os.path.normpath(TEMPLATE.parent / package) == str(ROOT / "dist/function.zip")


@pytest.mark.parametrize(("given", "reserved"), [("", None), ("0", None), ("1", "1"), ("100", "100")])
def test_concurrency_is_reserved_if_asked_for(
    template: dict[str, Any], given: str, reserved: str | None
) -> None:
    function = Stack(template, ReservedConcurrency=given).properties("Function")
    assert function.get("ReservedConcurrentExecutions") == reserved


@pytest.mark.parametrize(
    ("name", "taken", "refused"),
    [
        ("Prefix", ["whimbrel", "a/b-c_d"], ["", "/a", "a/", "a//b", "*", "a*", "a?", "..", "${x}"]),
        ("TableBuckets", ["", *TABLES], ["*", "arn:aws:s3:::*", "events", f"{TABLES[0]}/*", f"{TABLES[0]}/"]),
        ("KeyArn", ["", KEY], ["*", "alias/aws/s3", KEY.replace(KEY[-8:], "*")]),
        ("ReservedConcurrency", ["", "0", "1", "1000"], ["-1", "01", "many"]),
    ],
)
def test_parameters_that_would_widen_a_policy_are_refused(
    template: dict[str, Any], name: str, taken: list[str], refused: list[str]
) -> None:
    pattern = template["Parameters"][name]["AllowedPattern"]
    assert all(re.fullmatch(pattern, value) for value in taken)
    assert [value for value in refused if re.fullmatch(pattern, value)] == []


def test_the_outputs_say_how_to_connect(stack: Stack) -> None:
    outputs = {name: output["Value"] for name, output in stack.value(stack.template["Outputs"]).items()}
    lines = {"Function": outputs.pop("Connect"), "SmallFunction": outputs.pop("ConnectSmall")}
    url = f"s3://<Bucket>/{stack.values['Prefix']}"
    assert outputs == {"FunctionName": "<Function>", "BucketUrl": url, "ClientPolicyArn": "<ClientPolicy>"}
    module = ast.parse((ROOT / "python/whimbrel/functions.py").read_text())
    functions = {node.name: node for node in module.body if isinstance(node, ast.FunctionDef)}
    arguments = functions["connect"].args
    for function, line in lines.items():
        call = ast.parse(line, mode="eval").body
        assert isinstance(call, ast.Call)
        assert ast.unparse(call.func) == "wb.functions.connect"
        given = {argument.arg: ast.literal_eval(argument.value) for argument in call.keywords}
        machine = "arm" if stack.values["Architecture"] == "arm64" else "x86"
        assert given == {
            "function": f"<{function}>",
            "bucket": url,
            "memory": stack.properties(function)["MemorySize"],
            "timeout": f"{stack.values['Timeout']}s",
            "prices": f"aws-us-east-1-{machine}",
        }
        assert (ROOT / f"crates/functions/prices/{given['prices']}.json").exists()
        assert given.keys() <= {argument.arg for argument in arguments.args + arguments.kwonlyargs}
