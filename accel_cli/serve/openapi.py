"""A description of the interface, OpenAPI 3.1."""

from __future__ import annotations

from typing import Any

from accel_cli import __version__
from accel_cli.serve.limits import Limits
from accel_cli.serve.v2 import HEADER, INPUT, OUTPUTS

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_RANKED: Schema = {
    "type": "array",
    "items": {
        "type": "object",
        "required": ["score", "label"],
        "properties": {"score": {"type": "number"}, "label": {"type": "string"}},
    },
}
_REFUSALS = {
    "400": "The body cannot be read, or holds no text.",
    "401": "The token is missing or wrong.",
    "404": "There is no such model or version.",
    "408": "The request was not whole in time.",
    "413": "The body is too large.",
    "415": "The body is compressed.",
    "422": "The request asks for what this model cannot do, or holds too many texts.",
    "429": "Too much is being worked on; try again after `Retry-After` seconds.",
    "500": "The engine failed on this request.",
    "503": "The model is being loaded, the server stops, or the engine has failed.",
}


def description(model: str, limits: Limits, *, guarded: bool) -> Schema:
    """What this server offers for its model."""
    tensor = {
        "type": "object",
        "required": ["name", "shape", "datatype"],
        "properties": {
            "name": _TEXT,
            "shape": {"type": "array", "items": {"type": "integer"}},
            "datatype": _TEXT,
            "parameters": {"type": "object"},
            "data": {"type": "array"},
        },
    }
    inference = {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "id": _TEXT,
            "parameters": {"type": "object"},
            "inputs": {"type": "array", "items": tensor, "minItems": 1, "maxItems": 1},
            "outputs": {
                "type": "array",
                "items": {"type": "object", "properties": {"name": {"enum": list(OUTPUTS)}}},
            },
        },
    }
    answer = {
        "type": "object",
        "required": ["model_name", "outputs"],
        "properties": {"model_name": _TEXT, "id": _TEXT, "outputs": {"type": "array", "items": tensor}},
    }
    batch = {"type": "array", "maxItems": limits.max_client_batch, "items": _TEXT}
    nested = {"type": "array", "maxItems": limits.max_client_batch, "items": {**batch, "maxItems": 1}}
    tei = {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "inputs": {"oneOf": [_TEXT, nested]},
            "truncate": {"type": ["boolean", "null"], "default": True},
            "raw_scores": {"type": "boolean", "default": False},
        },
    }
    hugging_face = {
        "type": "object",
        "required": ["inputs"],
        "properties": {
            "inputs": {"oneOf": [_TEXT, batch]},
            "parameters": {
                "type": "object",
                "properties": {
                    "top_k": {"type": ["integer", "null"], "minimum": 1},
                    "function_to_apply": {"enum": ["softmax", "sigmoid", "none", None]},
                },
            },
        },
    }
    place = f"/v2/models/{model}"
    paths: Schema = {
        f"{place}/infer": {
            "post": _post(
                f"Open Inference Protocol: the BYTES tensor `{INPUT}` in; binary tensors with"
                f" `{HEADER.decode()}`.",
                inference,
                answer,
            )
        },
        "/predict": {"post": _post("Text Embeddings Inference.", tei, {"oneOf": [_RANKED, _list(_RANKED)]})},
        "/": {
            "get": _get("The page for people, or what `/info` says."),
            "post": _post("Hugging Face's text classification.", hugging_face, _list(_RANKED)),
        },
    }
    for path, text in {
        place: "The model's inputs and outputs.",
        f"{place}/ready": "Whether the model takes requests.",
        "/v2": "The server and the extensions that it knows.",
        "/v2/health/live": "Whether the process is worth keeping.",
        "/v2/health/ready": "Whether requests are taken.",
        "/health": "Whether the process is worth keeping.",
        "/ready": "Whether requests are taken.",
        "/info": "The model, its labels, the limits and the plan.",
        "/metrics": "Metrics for Prometheus.",
    }.items():
        paths[path] = {"get": _get(text)}
    document: Schema = {
        "openapi": "3.1.0",
        "info": {"title": f"accel: {model}", "version": __version__},
        "paths": paths,
    }
    if guarded:
        document["components"] = {"securitySchemes": {"token": {"type": "http", "scheme": "bearer"}}}
        document["security"] = [{"token": []}]
    return document


def _list(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def _post(text: str, body: Schema, answer: Schema) -> Schema:
    """An operation that classifies."""
    refusal = {
        "type": "object",
        "required": ["error"],
        "properties": {"error": _TEXT, "error_type": _TEXT},
    }
    return {
        "summary": text,
        "requestBody": {"required": True, "content": {"application/json": {"schema": body}}},
        "responses": {
            "200": {"description": "The labels.", "content": {"application/json": {"schema": answer}}},
            **{
                code: {"description": what, "content": {"application/json": {"schema": refusal}}}
                for code, what in _REFUSALS.items()
            },
        },
    }


def _get(text: str) -> Schema:
    return {"summary": text, "responses": {"200": {"description": "As it says."}}}
