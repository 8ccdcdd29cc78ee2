"""The part of Terraform's plugin protocol 5 that is asked: the schema, and the life of one resource.

The messages are declared here by hand, with the numbers of HashiCorp's tfplugin5.proto: nothing has to be generated,
and fields that nobody reads are skipped on the wire.
"""

from typing import Any

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_KINDS = {"string": 9, "bytes": 12, "bool": 8, "int64": 3, "int32": 5}
_MESSAGES = {
    "Empty": "",
    "DynamicValue": "1 bytes msgpack",
    "Step": "1 string attribute_name, 2 string element_key_string, 3 int64 element_key_int",
    "AttributePath": "1 *Step steps",
    "Diagnostic": "1 int32 severity, 2 string summary, 3 string detail, 4 AttributePath attribute",
    "Attribute": "1 string name, 2 bytes type, 4 bool required, 5 bool optional, 6 bool computed",
    "NestedBlock": "1 string type_name, 2 Block block, 3 int32 nesting, 4 int64 min_items, 5 int64 max_items",
    "Block": "2 *Attribute attributes, 3 *NestedBlock block_types",
    "Schema": "2 Block block",
    "Entry": "1 string key, 2 Schema value",
    "GetSchemaResponse": "1 Schema provider, 2 *Entry resource_schemas",
    "ConfigureRequest": "1 string terraform_version, 2 DynamicValue config",
    "ConfigureResponse": "1 *Diagnostic diagnostics",
    "ValidateRequest": "1 string type_name, 2 DynamicValue config",
    "ValidateResponse": "1 *Diagnostic diagnostics",
    "PlanRequest": "1 string type_name, 2 DynamicValue prior_state, 3 DynamicValue proposed_new_state,"
    " 4 DynamicValue config, 5 bytes prior_private",
    "PlanResponse": "1 DynamicValue planned_state, 2 *AttributePath requires_replace, 3 bytes planned_private,"
    " 4 *Diagnostic diagnostics",
    "ApplyRequest": "1 string type_name, 2 DynamicValue prior_state, 3 DynamicValue planned_state,"
    " 4 DynamicValue config, 5 bytes planned_private",
    "ApplyResponse": "1 DynamicValue new_state, 2 bytes private, 3 *Diagnostic diagnostics",
    "ReadRequest": "1 string type_name, 2 DynamicValue current_state, 3 bytes private",
    "ReadResponse": "1 DynamicValue new_state, 2 *Diagnostic diagnostics, 3 bytes private",
}


def _declared() -> dict[str, Any]:
    file = descriptor_pb2.FileDescriptorProto(name="ebbtide-tfplugin5.proto", package="ebbtide.tfplugin5")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for number, kind, field in (text.split() for text in fields.split(", ") if text):
            one = message.field.add(name=field, number=int(number), label=3 if kind.startswith("*") else 1)
            plain = kind.lstrip("*")
            if plain in _KINDS:
                one.type = _KINDS[plain]  # pyright: ignore[reportAttributeAccessIssue] - a number is what it is
            else:
                one.type_name = f".ebbtide.tfplugin5.{plain}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    found = pool.FindFileByName(file.name).message_types_by_name
    return {name: message_factory.GetMessageClass(found[name]) for name in _MESSAGES}


MESSAGES = _declared()
