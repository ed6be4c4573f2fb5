"""Make the parity fixtures of Qwen3.5: tiny random checkpoints, and what transformers computes with them.

    python tests/parity/make_qwen3_5.py [OUT]

Needs the packages of `make_newer_families.py`, whose recording this uses; see there for the files and what is checked. Beside
that, every checkpoint reads 300 random tokens after its prompt, one at a time over the cache and in one pass without it, so that
a drift of the recurrent states would show.

transformers computes the gated delta rule, norms, softmax and rotary angles in float32 whatever the type of the model. Here its
module sees float64 in place of float32 (`in_double`), so that the reference is float64 all through.
"""

import contextlib
import json
import math
import types

import make_newer_families as newer
import torch
from make_fixtures import OUT, save_weights, write_json
from make_newer_families import Qwen3
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration
from transformers.models.qwen3_5 import modeling_qwen3_5

# as published, without its tools
TEMPLATE = """\
{%- set image_count = namespace(value=0) %}
{%- set video_count = namespace(value=0) %}
{%- macro render_content(content, do_vision_count, is_system_content=false) %}
    {%- if content is string %}
        {{- content }}
    {%- elif content is iterable and content is not mapping %}
        {%- for item in content %}
            {%- if 'image' in item or 'image_url' in item or item.type == 'image' %}
                {%- if is_system_content %}
                    {{- raise_exception('System message cannot contain images.') }}
                {%- endif %}
                {%- if do_vision_count %}
                    {%- set image_count.value = image_count.value + 1 %}
                {%- endif %}
                {%- if add_vision_id %}
                    {{- 'Picture ' ~ image_count.value ~ ': ' }}
                {%- endif %}
                {{- '<|vision_start|><|image_pad|><|vision_end|>' }}
            {%- elif 'video' in item or item.type == 'video' %}
                {%- if is_system_content %}
                    {{- raise_exception('System message cannot contain videos.') }}
                {%- endif %}
                {%- if do_vision_count %}
                    {%- set video_count.value = video_count.value + 1 %}
                {%- endif %}
                {%- if add_vision_id %}
                    {{- 'Video ' ~ video_count.value ~ ': ' }}
                {%- endif %}
                {{- '<|vision_start|><|video_pad|><|vision_end|>' }}
            {%- elif 'text' in item %}
                {{- item.text }}
            {%- else %}
                {{- raise_exception('Unexpected item type in content.') }}
            {%- endif %}
        {%- endfor %}
    {%- elif content is none or content is undefined %}
        {{- '' }}
    {%- else %}
        {{- raise_exception('Unexpected content type.') }}
    {%- endif %}
{%- endmacro %}
{%- if not messages %}
    {{- raise_exception('No messages provided.') }}
{%- endif %}
{%- if messages[0].role == 'system' %}
    {%- set content = render_content(messages[0].content, false, true)|trim %}
    {{- '<|im_start|>system\\n' + content + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(multi_step_tool=true, last_query_index=messages|length - 1) %}
{%- for message in messages[::-1] %}
    {%- set index = (messages|length - 1) - loop.index0 %}
    {%- if ns.multi_step_tool and message.role == "user" %}
        {%- set content = render_content(message.content, false)|trim %}
        {%- if not(content.startswith('<tool_response>') and content.endswith('</tool_response>')) %}
            {%- set ns.multi_step_tool = false %}
            {%- set ns.last_query_index = index %}
        {%- endif %}
    {%- endif %}
{%- endfor %}
{%- if ns.multi_step_tool %}
    {{- raise_exception('No user query found in messages.') }}
{%- endif %}
{%- for message in messages %}
    {%- set content = render_content(message.content, true)|trim %}
    {%- if message.role == "system" %}
        {%- if not loop.first %}
            {{- raise_exception('System message must be at the beginning.') }}
        {%- endif %}
    {%- elif message.role == "user" %}
        {{- '<|im_start|>' + message.role + '\\n' + content + '<|im_end|>' + '\\n' }}
    {%- elif message.role == "assistant" %}
        {%- set reasoning_content = '' %}
        {%- if message.reasoning_content is string %}
            {%- set reasoning_content = message.reasoning_content %}
        {%- else %}
            {%- if '</think>' in content %}
                {%- set reasoning_content = content.split('</think>')[0].rstrip('\\n').split('<think>')[-1].lstrip('\\n') %}
                {%- set content = content.split('</think>')[-1].lstrip('\\n') %}
            {%- endif %}
        {%- endif %}
        {%- set reasoning_content = reasoning_content|trim %}
        {%- if loop.index0 > ns.last_query_index %}
            {{- '<|im_start|>' + message.role + '\\n<think>\\n' + reasoning_content + '\\n</think>\\n\\n' + content }}
        {%- else %}
            {{- '<|im_start|>' + message.role + '\\n' + content }}
        {%- endif %}
        {{- '<|im_end|>\\n' }}
    {%- else %}
        {{- raise_exception('Unexpected message role.') }}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n' }}
    {%- if enable_thinking is defined and enable_thinking is false %}
        {{- '<think>\\n\\n</think>\\n\\n' }}
    {%- else %}
        {{- '<think>\\n' }}
    {%- endif %}
{%- endif %}
"""

# text: width, heads, kv heads, width of a head, layers, ffn
# linear: every n-th layer has full attention, key heads, value heads, width of both kinds of heads, kernel
# tower: width, heads, depth, ffn
CHECKPOINTS = {
    "qwen3_5": dict(
        family="qwen3_5", seed=606, text=(64, 4, 2, 32, 8, 32), linear=(4, 2, 4, 16, 16, 4), tower=(32, 2, 3, 64),
        tied=True, vocab=384, dtype=torch.bfloat16, grid=(2, 4, 6), table=49, eps=1e-4, theta=10000000,
        sections=[2, 1, 1], levels=False,
    ),
    "qwen3_5_untied": dict(
        family="qwen3_5", seed=707, text=(32, 2, 1, 64, 4, 64), linear=(2, 2, 2, 16, 32, 3), tower=(16, 1, 2, 48),
        tied=False, vocab=416, dtype=torch.float16, grid=(2, 4, 4), table=25, eps=1e-3, theta=10000,
        sections=[4, 2, 2], levels=False, shards=2, without_types=True,
    ),
}  # fmt: skip
LONG, EVERY = 300, 20


class Double(types.ModuleType):
    """torch with float64 in place of float32."""

    float32 = float = torch.float64

    def __getattr__(self, name):
        return getattr(torch, name)


@contextlib.contextmanager
def in_double(modeling=modeling_qwen3_5):
    """What transformers casts to float32 stays float64."""
    single = torch.Tensor.float
    modeling.torch, torch.Tensor.float = Double("torch"), torch.Tensor.double
    try:
        yield
    finally:
        modeling.torch, torch.Tensor.float = torch, single


class Qwen35(Qwen3):
    model, config = Qwen3_5ForConditionalGeneration, Qwen3_5Config
    template_settings = {"enable_thinking": False}

    @staticmethod
    def write_text(path, tokenizer):
        ids = Qwen3.write_text(path, tokenizer)
        (path / "chat_template.json").unlink()
        (path / "chat_template.jinja").write_text(TEMPLATE)
        return ids

    @staticmethod
    def settings(spec, ids):
        config = Qwen3.settings(spec | {"deepstack": [], "side": 1}, ids)
        every, key_heads, value_heads, key_width, value_width, kernel = spec["linear"]
        text = config["text_config"]
        layers = text["num_hidden_layers"]
        kinds = ["full_attention" if (i + 1) % every == 0 else "linear_attention" for i in range(layers)]
        del text["rope_scaling"], text["rope_theta"], text["bos_token_id"]
        text |= {
            "attn_output_gate": True,
            # as published: the end of a turn is not named
            "eos_token_id": ids["<|endoftext|>"],
            "full_attention_interval": every,
            "layer_types": kinds,
            "linear_conv_kernel_dim": kernel,
            "linear_key_head_dim": key_width,
            "linear_num_key_heads": key_heads,
            "linear_num_value_heads": value_heads,
            "linear_value_head_dim": value_width,
            "mamba_ssm_dtype": "float32",
            "mlp_only_layers": [],
            "model_type": "qwen3_5_text",
            "mtp_num_hidden_layers": 1,
            "mtp_use_dedicated_embeddings": False,
            "rope_parameters": {
                "mrope_interleaved": True,
                "mrope_section": spec["sections"],
                "partial_rotary_factor": 0.25,
                "rope_theta": spec["theta"],
                "rope_type": "default",
            },
        }
        if spec.get("without_types"):
            del text["layer_types"]
        config["architectures"], config["model_type"] = ["Qwen3_5ForConditionalGeneration"], "qwen3_5"
        config["vision_config"]["model_type"] = "qwen3_5"
        return config

    @classmethod
    def prompt(cls, spec, grid):
        return super().prompt(spec, grid) + "<think>\n\n</think>\n\n"

    @staticmethod
    def seen(model, inputs):
        tower = model.model.visual(inputs["pixel_values_videos"], grid_thw=inputs["video_grid_thw"])
        return tower.last_hidden_state, tower.pooler_output

    @staticmethod
    def forward_embeddings(model, embeds, seen, mask, **at):
        embeds[mask] = seen
        return model.model.language_model(inputs_embeds=embeds, **at).last_hidden_state[0]

    @staticmethod
    def scale(name):
        if name.endswith(("in_proj_a.weight", "in_proj_b.weight")):
            return 1.5
        return Qwen3.scale(name)

    @staticmethod
    def names(weights):
        """Norms but that of linear attention hold their difference from 1; decays are between a few tokens and hundreds."""
        for name, weight in weights.items():
            if "visual" in name:
                continue
            if name.endswith("A_log"):
                weights[name] = (5.0 * (weight.float() - 1.0) - 2.5).to(weight.dtype)
            elif name.endswith("dt_bias"):
                weights[name] = 10.0 * weight
            elif weight.dim() == 1 and "linear_attn" not in name:
                weights[name] = (weight.float() - 1.0).to(weight.dtype)
        return weights


def long_run(model, family, inputs, input_ids, positions, following, generator):
    """Random tokens after a prompt, one at a time and in one pass: their log-probabilities."""
    more = torch.randint(3, 300, (LONG,), generator=generator)
    out = model.model(
        input_ids=torch.tensor([input_ids]), past_key_values=None, use_cache=True, **inputs, **family.at(positions)
    )
    cached = []
    for i in range(LONG):
        at = family.at(torch.full((3, 1), following + i))
        out = model.model(input_ids=more[None, i : i + 1], past_key_values=out.past_key_values, use_cache=True, **at)
        cached.append(torch.log_softmax(model.lm_head(out.last_hidden_state[0, -1]), -1))
    cached = torch.stack(cached)
    tail = torch.arange(following, following + LONG).expand(3, -1)
    whole = family.at(torch.cat([positions, tail], dim=1))
    ids = torch.cat([torch.tensor(input_ids), more])
    out = model.model(input_ids=ids[None], use_cache=False, **inputs, **whole)
    apart = (torch.log_softmax(model.lm_head(out.last_hidden_state[0, -LONG:]), -1) - cached).abs().max()
    assert cached.dtype == torch.float64 and apart < 1e-10, f"with and without a cache differ by {apart}"
    print(f"  {LONG} tokens with and without a cache: {float(apart):.1e}")
    # [300], and [15, vocabulary] after every 20th of them
    return {"long_ids": more, "long_logprobs": cached[EVERY - 1 :: EVERY]}


def gates_matter(model, input_ids):
    """Decays and updates differ between heads and rows, and are neither all nor nothing."""
    seen = {}

    def keep(layer):
        def hook(_, __, output):
            seen[layer] = output

        return hook

    linear = [(i, block.linear_attn) for i, block in enumerate(model.model.language_model.layers) if hasattr(block, "linear_attn")]
    hooks = [part.in_proj_a.register_forward_hook(keep(i)) for i, part in linear]
    model.model.language_model(input_ids=torch.tensor([input_ids]))
    for hook in hooks:
        hook.remove()
    kept = torch.stack(
        [torch.exp(-part.A_log.exp() * torch.nn.functional.softplus(seen[i][0] + part.dt_bias)) for i, part in linear]
    )
    print(f"  kept of a state: {kept.min():.3f} to {kept.max():.4f}, median {kept.median():.3f}")
    assert kept.min() < 0.8 and kept.max() > 0.98 and 0.8 < kept.median() < 0.99


def main():
    torch.manual_seed(0)
    torch.set_num_threads(1)
    newer.FAMILIES["qwen3_5"] = Qwen35
    for name, spec in CHECKPOINTS.items():
        path = OUT / name
        config = Qwen35.settings(spec, Qwen35.write_text(path, Qwen35.tokenizer()))
        write_json(path / "config.json", config)
        with torch.device("meta"):
            model = Qwen35.model(Qwen35.config(**json.loads(json.dumps(config))))
        save_weights(path, newer.weights_of(model, Qwen35, spec), spec.get("shards"))
        with in_double():
            newer.record(path, spec, long_run)
            newer.record_frames(path, spec)
            with torch.no_grad():
                gates_matter(newer.load(path, Qwen35), Qwen35.tokenizer().encode("what moves? the red ball moves").ids)
    sizes = {name: sum(f.stat().st_size for f in (OUT / name).iterdir()) / 1e6 for name in CHECKPOINTS}
    print(" ".join(f"{name} {size:.2f} MB" for name, size in sizes.items()), f"all {sum(sizes.values()):.2f} MB")


if __name__ == "__main__":
    main()
