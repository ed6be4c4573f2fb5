//! Prompts of Qwen3.5: as Qwen3-VL's, with the start of an answer with or without thinking.

/// The template for checkpoints without one. As in the published one, an answer begins with the model's thoughts, which are empty
/// where `enable_thinking` is false.
pub(super) const TEMPLATE: &str = "{% for message in messages %}<|im_start|>{{ message['role'] }}\n\
{% if message['content'] is string %}{{ message['content'] }}{% else %}{% for part in message['content'] %}\
{% if part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>{% elif part['type'] == 'text' %}\
{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n{% endfor %}\
{% if add_generation_prompt %}<|im_start|>assistant\n<think>\n\
{% if enable_thinking is defined and enable_thinking is false %}{{ '\\n</think>\\n\\n' }}{% endif %}{% endif %}";

/// The token that ends an answer.
pub(super) const END_OF_TURN: &str = "<|im_end|>";

/// The special tokens of prompts, and the marks around thoughts.
pub(super) const TOKENS: &[&str] = &[
    "<|video_pad|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|im_start|>",
    END_OF_TURN,
    "<think>",
    "</think>",
];
