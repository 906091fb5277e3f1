"""Whether JSON is as a JSON Schema wants it, for tests: the part of draft 2020-12 that tools/report/schema.json uses. Written apart from
tools/report_schema.c, which is tested with it."""
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
WORDS = {"$schema", "$defs", "$ref", "title", "description", "type", "const", "enum", "minimum", "required", "properties",
         "additionalProperties", "items", "anyOf"}


def is_a(kind, value):
    if kind in TYPES:
        return isinstance(value, TYPES[kind])
    number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return number and (kind == "number" or value == int(value))


def faults(root, schema, value, place=""):
    """A list of what is wrong and where; a word of the schema that is not known is a fault of it."""
    assert set(schema) <= WORDS, set(schema) - WORDS
    if "$ref" in schema:
        return faults(root, root["$defs"][schema["$ref"].removeprefix("#/$defs/")], value, place)
    found = []
    kinds = schema.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    if kinds and not any(is_a(kind, value) for kind in kinds):
        return [f"{place}: {value!r:.60} is no {kinds}"]
    if "const" in schema and value != schema["const"]:
        found.append(f"{place}: {value!r:.60} is not {schema['const']!r}")
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{place}: {value!r:.60} is none of {schema['enum']}")
    if "minimum" in schema and is_a("number", value) and not value >= schema["minimum"]:
        found.append(f"{place}: {value} is below {schema['minimum']}")
    if "anyOf" in schema:
        each = [faults(root, one, value, place) for one in schema["anyOf"]]
        found += [] if not all(each) else min(each, key=len)
    if isinstance(value, dict):
        known, more = schema.get("properties", {}), schema.get("additionalProperties", True)
        found += [f"{place}/{name}: is missing" for name in schema.get("required", []) if name not in value]
        for name, inner in value.items():
            if name in known or isinstance(more, dict):
                found += faults(root, known.get(name, more), inner, f"{place}/{name}")
            elif more is False:
                found.append(f"{place}/{name}: is not known")
    if isinstance(value, list) and "items" in schema:
        for i, inner in enumerate(value):
            found += faults(root, schema["items"], inner, f"{place}/{i}")
    return found
