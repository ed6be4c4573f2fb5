// Asks a server about its embedded clip with the packages openai, @anthropic-ai/sdk and @modelcontextprotocol/sdk:
// node clients.mjs ADDRESS KEY.

import assert from "node:assert/strict";
import Anthropic from "@anthropic-ai/sdk";
import OpenAI from "openai";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";

const [address, apiKey] = process.argv.slice(2);
const question = "Describe the video in detail.";

const openai = new OpenAI({ baseURL: `${address}/v1`, apiKey });
const input = [
  { role: "user", content: [{ type: "input_video", video_url: "demo" }, { type: "input_text", text: question }] },
];
const response = await openai.responses.create({ model: "specreel", input });
const text = response.output_text;
assert(text.length > 40, text);
let said = "";
for await (const event of await openai.responses.create({ model: "specreel", input, stream: true })) {
  if (event.type === "response.output_text.delta") said += event.delta;
}
assert.equal(said, text);
console.log("openai");

const anthropic = new Anthropic({ baseURL: address, apiKey });
const content = [{ type: "video", source: { type: "url", url: "demo" } }, { type: "text", text: question }];
const messages = [{ role: "user", content }];
const message = await anthropic.messages.create({ model: "specreel", max_tokens: 256, messages });
assert.equal(message.content[0].text, text);
const final = await anthropic.messages.stream({ model: "specreel", max_tokens: 256, messages }).finalMessage();
assert.equal(final.content[0].text, text);
assert.equal(final.stop_reason, "end_turn");
console.log("@anthropic-ai/sdk");

const client = new Client({ name: "test", version: "1" });
const headers = { Authorization: `Bearer ${apiKey}` };
await client.connect(new StreamableHTTPClientTransport(new URL(`${address}/mcp`), { requestInit: { headers } }));
const told = await client.callTool({ name: "caption_video", arguments: { path: "demo" } });
assert.equal(told.content[0].text, text);
await client.close();
console.log("@modelcontextprotocol/sdk");
