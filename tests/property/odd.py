"""Content as models and tools really send it, and worse."""

from __future__ import annotations

from hypothesis import strategies as st

from agentrun.run.records import Json, Usage
from agentrun.run.values import Reply, Requested, ToolAnswer, ToolOutcome, ToolSilence

HALF = "\ud800"

texts = st.sampled_from(
    [
        "",
        " \n",
        "ok",
        "NUL \x00",
        f"half {HALF}",
        "\udc00",
        "😀",
        '"quoted" \\ud800',
        "$blob",
        "x" * 600,
    ]
) | st.text(st.characters(), max_size=8)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.just(10**40)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            texts | st.sampled_from(["$blob", "$esc", "data", "type"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


def nested(depth: int) -> Json:
    """A value so deep."""
    value: Json = 1
    for _ in range(depth):
        value = [value]
    return value


unkeepable = st.sampled_from(
    [float("nan"), float("inf"), {"deep": nested(400)}, {"set"}, [b"bytes"], 10**5000]
)

arguments = st.fixed_dictionaries({"n": st.integers(0, 3)}) | st.dictionaries(
    texts, json_values, max_size=3
)

text_blocks = st.builds(lambda text: {"type": "text", "text": text}, texts)
thinking = st.builds(
    lambda text: {"type": "thinking", "thinking": text, "signature": "c2ln"}, st.just("hm")
)
unknown_blocks = st.just({"type": "no_such_block", "payload": {"$esc": {"$blob": "x"}}})
image = st.just(
    {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "A" * 1500}}
)

names = st.sampled_from([*["ops__look", "ops__fix"] * 5, "ops__gone", "", "né.. " + HALF])
ids = st.permutations(["toolu_1", "toolu_2", "toolu_3", f"t{HALF}"]) | st.sampled_from(
    [["toolu_1", "toolu_2", "toolu_3", "toolu_4"]] * 4 + [["same"] * 4]
)
STOPS = ["end_turn", "tool_use", "max_tokens", "pause_turn", "stop_sequence", "", HALF]
LAST = ["refusal", "model_context_window_exceeded"]


@st.composite
def replies(draw: st.DrawFn) -> Reply:
    """A reply that the provider could stream; its ids may repeat those of earlier replies."""
    blocks = draw(st.lists(text_blocks | thinking | unknown_blocks, max_size=2))
    count = draw(st.sampled_from([0, 1, 1, 2, 2, 3, 4]))
    requested = [
        Requested(call, draw(names), draw(arguments), draw(st.none() | st.just('{ "n" : 1 }')))
        for call in draw(ids)[:count]
    ]
    content = [
        *blocks,
        *(
            {"type": "tool_use", "id": call.id, "name": call.name, "input": call.arguments}
            for call in requested
        ),
    ]
    usual = "tool_use" if requested else "end_turn"
    stop = draw(st.sampled_from([*[usual] * 12, *STOPS, *LAST]))
    return Reply(
        content,
        tuple(requested),
        stop,
        draw(st.sampled_from(["m", HALF])),
        draw(st.sampled_from(["msg", "", HALF])),
        Usage(input_tokens=draw(st.integers(0, 50)), output_tokens=draw(st.integers(0, 50))),
        draw(st.sampled_from([0, 0, 2])),
    )


answers = st.builds(
    lambda content, error: ToolAnswer(content, error, 1),
    st.lists(text_blocks | image, max_size=3) | texts | unkeepable,
    st.booleans(),
)
silences = st.builds(ToolSilence, st.sampled_from(["timed out", f"half {HALF}"]))
outcomes: st.SearchStrategy[ToolOutcome] = answers | answers | answers | silences
