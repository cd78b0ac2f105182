"""Results as the model sees them: nothing lost, nothing that its provider would refuse."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from agentrun.runner.tools.content import IMAGE_MAX, error_content, result_content
from agentrun.runner.tools.exchange import RpcError

DATA = base64.b64encode(b"\x89PNG data").decode()


def text(*texts: str) -> list[Any]:
    return [{"type": "text", "text": one} for one in texts]


def blocks(*content: Any, **more: Any) -> list[Any]:
    return result_content({"content": list(content), **more})[0]


@pytest.mark.parametrize("media", ["image/png", "image/jpeg", "image/gif", "image/webp"])
def test_images_reach_the_model_as_images(media: str) -> None:
    source = {"type": "base64", "media_type": media, "data": DATA}
    image = {"type": "image", "data": DATA, "mimeType": media}
    assert blocks(image) == [{"type": "image", "source": source}]
    resource = {"uri": "file:///a", "blob": DATA, "mimeType": media}
    assert blocks({"type": "resource", "resource": resource}) == [
        {"type": "image", "source": source}
    ]


@pytest.mark.parametrize(
    ("item", "expected"),
    [
        ({"type": "text", "text": "a", "annotations": {"priority": 1}}, "a"),
        ({"type": "resource", "resource": {"uri": "u", "text": "body"}}, "body"),
        (
            {"type": "resource_link", "uri": "file:///a", "name": "a", "description": "the a"},
            "resource: a - file:///a - the a",
        ),
        (
            {"type": "image", "data": DATA, "mimeType": "image/tiff"},
            "[image image/tiff, 9 bytes, cannot be shown]",
        ),
        (
            {"type": "audio", "data": DATA, "mimeType": "audio/wav"},
            "[audio audio/wav, 9 bytes, cannot be shown]",
        ),
        (
            {"type": "resource", "resource": {"uri": "file:///z", "blob": DATA}},
            "[resource file:///z application/octet-stream, 9 bytes, cannot be shown]",
        ),
        (
            {"type": "image", "data": "@@", "mimeType": "image/png"},
            "[image image/png: not valid base64]",
        ),
        ({"type": "hologram", "é": [1]}, '{"type":"hologram","é":[1]}'),
        ({"type": "text"}, '{"type":"text"}'),
        ({"no": "type"}, '{"no":"type"}'),
        (None, "null"),
    ],
)
def test_everything_else_becomes_text(item: Any, expected: str) -> None:
    assert blocks(item) == text(expected)


def test_an_image_that_the_provider_would_refuse_is_described() -> None:
    large = base64.b64encode(bytes(IMAGE_MAX)).decode()
    (block,) = blocks({"type": "image", "data": large, "mimeType": "image/png"})
    assert block["text"] == f"[image image/png, {IMAGE_MAX} bytes, cannot be shown]"


def test_empty_texts_are_left_out() -> None:
    assert blocks({"type": "text", "text": ""}, {"type": "text", "text": "a"}) == text("a")


def test_structured_content_stands_in_for_missing_text() -> None:
    assert blocks(structuredContent={"a": 1}) == text('{"a":1}')
    assert blocks({"type": "text", "text": ""}, structuredContent=[1]) == text("[1]")
    assert blocks({"type": "text", "text": "a"}, structuredContent={"a": 1}) == text("a")
    image = {"type": "image", "data": DATA, "mimeType": "image/png"}
    assert [block["type"] for block in blocks(image, structuredContent={})] == ["image", "text"]


def test_errors_are_told_and_never_empty() -> None:
    assert result_content({"content": [], "isError": True}) == (
        text("The tool failed without saying why."),
        True,
    )
    assert result_content({"isError": "yes"}) == ([], False)
    assert error_content(RpcError(-1, "m")) == text("The tool server answered with error -1: m")
    assert error_content(RpcError(-1, "m", [1]))[0]["text"].endswith("m [1]")
