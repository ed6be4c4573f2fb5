"""Asks a server about its embedded clip with the packages openai, anthropic and mcp: clients.py ADDRESS KEY."""

import asyncio
import sys

import anthropic
import openai
from mcp import ClientSession
from mcp.client.streamable_http import create_mcp_http_client, streamable_http_client

address, key = sys.argv[1:]
QUESTION = "Describe the video in detail."

client = openai.OpenAI(base_url=f"{address}/v1", api_key=key)
content = [{"type": "video_url", "video_url": {"url": "demo"}}, {"type": "text", "text": QUESTION}]
chat = client.chat.completions.create(model="specreel", messages=[{"role": "user", "content": content}])
text = chat.choices[0].message.content
assert len(text) > 40 and chat.choices[0].finish_reason == "stop", chat

items = [{"role": "user", "content": [{"type": "input_video", "video_url": "demo"}, {"type": "input_text", "text": QUESTION}]}]
response = client.responses.create(model="specreel", input=items)
assert response.output_text == text and response.status == "completed", response
assert response.usage.output_tokens == chat.usage.completion_tokens
assert sum(response.specreel["verdicts"].values()) == response.usage.output_tokens
with client.responses.stream(model="specreel", input=items) as stream:
    deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
    final = stream.get_final_response()
assert "".join(deltas) == text == final.output_text and len(deltas) > 1, final
cut = client.responses.create(model="specreel", input=items, max_output_tokens=2)
assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens"), cut
try:
    client.responses.create(model="specreel", input="What is it?")
    raise SystemExit("a question without a video was answered")
except openai.BadRequestError as error:
    assert error.param == "input" and "no video" in error.message, error
print("openai", openai.__version__)

client = anthropic.Anthropic(base_url=address, api_key=key)
blocks = [{"type": "video", "source": {"type": "url", "url": "demo"}}, {"type": "text", "text": QUESTION}]
messages = [{"role": "user", "content": blocks}]
message = client.messages.create(model="specreel", max_tokens=256, messages=messages)
assert message.content[0].text == text and message.stop_reason == "end_turn", message
with client.messages.stream(model="specreel", max_tokens=256, messages=messages) as stream:
    parts = list(stream.text_stream)
    final = stream.get_final_message()
assert "".join(parts) == text == final.content[0].text and len(parts) > 1, final
assert final.usage.output_tokens == message.usage.output_tokens
stop = text.split()[-1]
message = client.messages.create(model="specreel", max_tokens=256, messages=messages, stop_sequences=[stop])
assert (message.stop_reason, message.stop_sequence) == ("stop_sequence", stop), message
try:
    anthropic.Anthropic(base_url=address, api_key="wrong").messages.create(model="specreel", max_tokens=1, messages=messages)
    raise SystemExit("a wrong key was accepted")
except anthropic.AuthenticationError as error:
    assert "API key" in error.message, error
print("anthropic", anthropic.__version__)


async def tools():
    headers = {"Authorization": f"Bearer {key}"}
    http = create_mcp_http_client(headers=headers)
    async with streamable_http_client(f"{address}/mcp", http_client=http) as streams, ClientSession(*streams[:2]) as session:
        await session.initialize()
        names = {tool.name for tool in (await session.list_tools()).tools}
        assert {"caption_video", "ask_video", "compare_methods"} <= names, names
        seen = []

        async def progress(done, total, message):
            seen.append(done)

        result = await session.call_tool("caption_video", {"path": "demo"}, progress_callback=progress)
        assert result.content[0].text == text and seen, result
        refused = await session.call_tool("caption_video", {"path": "/etc/passwd"})
        assert refused.is_error, refused


asyncio.run(tools())
print("mcp")
