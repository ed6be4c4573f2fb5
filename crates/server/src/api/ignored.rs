//! Fields that other servers obey and this one does not. With a value that turns them off they pass; otherwise those that clients
//! rely on are refused, and controls of sampling are noted: the answer is a good one without them.

use serde_json::Value;

use super::fields::{Field, Fields};
use crate::error::ApiError;

/// Fields that say nothing about the answer, or only refine another one.
const HARMLESS: &str = "add_special_tokens cache_prompt dynatemp_exponent id_slot keep_alive metadata min_keep mirostat_eta mirostat_tau parallel_tool_calls penalize_nl prediction \
    priority prompt_cache_key prompt_cache_retention request_id return_progress safety_identifier samplers \
    service_tier slot_id smoothing_curve spaces_between_special_tokens store timings_per_token user xtc_threshold";

/// The value with which a field leaves an answer as it is; empty ones always do.
enum Off {
    Empty,
    Flag(bool),
    At(&'static [f64]),
}

impl Off {
    fn is(&self, value: &Value) -> bool {
        is_empty(value)
            || match self {
                Self::Empty => false,
                Self::Flag(off) => value == off,
                Self::At(off) => value.as_f64().is_some_and(|value| off.contains(&value)),
            }
    }
}

/// What becomes of a field that is on.
enum Ignored {
    /// It is refused, with what to do instead.
    Refused(&'static str),
    Noted(&'static str),
    /// It is noted unless the answer takes the most likely tokens: it only cuts off less likely ones.
    Cuts,
}

use Ignored::{Cuts, Noted, Refused};
use Off::{At, Empty, Flag};

const OTHERS: Ignored = Refused("leave it out");
const FORMAT: Ignored = Refused("use `response_format`");
const CONTROL: Ignored = Noted("it is not supported");
const LIMIT: Ignored = Noted("use `max_completion_tokens`");

const FIELDS: &[(&str, Off, Ignored)] = &[
    ("add_generation_prompt", Flag(true), OTHERS),
    ("allowed_token_ids", Empty, OTHERS),
    ("audio", Empty, Refused("answers are text")),
    ("bad_words", Empty, OTHERS),
    ("best_of", At(&[1.0]), Refused("send several requests")),
    ("chat_template", Empty, Refused("leave it out; the model's own is used")),
    ("continue_final_message", Flag(false), OTHERS),
    ("documents", Empty, Refused("write them into the question")),
    ("dynatemp_range", At(&[0.0]), Cuts),
    ("ebnf", Empty, FORMAT),
    ("echo", Flag(false), OTHERS),
    ("epsilon_cutoff", At(&[0.0]), Cuts),
    ("eta_cutoff", At(&[0.0]), Cuts),
    ("functions", Empty, OTHERS),
    ("grammar", Empty, FORMAT),
    ("guided_choice", Empty, FORMAT),
    ("guided_grammar", Empty, FORMAT),
    ("guided_json", Empty, FORMAT),
    ("guided_regex", Empty, FORMAT),
    ("ignore_eos", Flag(false), OTHERS),
    ("include_stop_str_in_output", Flag(false), OTHERS),
    ("json_schema", Empty, FORMAT),
    ("length_penalty", At(&[0.0, 1.0]), CONTROL),
    ("logits_processors", Empty, OTHERS),
    ("max_length", Empty, LIMIT),
    ("max_new_tokens", Empty, LIMIT),
    ("min_tokens", At(&[0.0]), OTHERS),
    ("mirostat", At(&[0.0]), CONTROL),
    ("mirostat_mode", At(&[0.0]), CONTROL),
    ("mm_processor_kwargs", Empty, Refused("use `specreel.frames`, `specreel.fps` or `specreel.max_pixels`")),
    ("n_predict", Empty, LIMIT),
    ("n_probs", At(&[0.0]), Refused("use `logprobs` and `top_logprobs`")),
    ("num_predict", Empty, LIMIT),
    ("prompt_embeds", Empty, OTHERS),
    ("prompt_logprobs", Empty, Refused("use `logprobs`, which are of the answer")),
    ("regex", Empty, FORMAT),
    ("return_token_ids", Flag(false), OTHERS),
    ("return_tokens_as_token_ids", Flag(false), OTHERS),
    ("skip_special_tokens", Flag(true), OTHERS),
    ("smoothing_factor", At(&[0.0]), Cuts),
    ("stop_token_ids", Empty, Refused("use `stop`")),
    ("structured_outputs", Empty, FORMAT),
    ("tfs", At(&[1.0]), Cuts),
    ("tfs_z", At(&[1.0]), Cuts),
    ("top_a", At(&[0.0]), Cuts),
    ("top_n_sigma", At(&[0.0, -1.0]), Cuts),
    ("truncate_prompt_tokens", Empty, OTHERS),
    ("typical_p", At(&[0.0, 1.0]), Cuts),
    ("use_beam_search", Flag(false), OTHERS),
    ("web_search_options", Empty, OTHERS),
    ("xtc_probability", At(&[0.0]), CONTROL),
];

/// What of a request's fields that nobody has taken has no effect. Fails for those that clients rely on.
pub fn notes(fields: Fields, is_greedy: bool, notes: &mut Vec<String>) -> Result<(), ApiError> {
    for (name, field) in fields.rest().filter(|(name, _)| !is_in(HARMLESS, name)) {
        let Some((_, off, ignored)) = FIELDS.iter().find(|(known, ..)| *known == name) else {
            note_unknown(&field, notes);
            continue;
        };
        match ignored {
            _ if off.is(&field.value) => {}
            Refused(instead) => {
                let message = format!("{name}: not supported; {instead}");
                return Err(ApiError::invalid(name, "unsupported_value", message));
            }
            Noted(why) => notes.push(format!("`{name}` has no effect: {why}")),
            Cuts if is_greedy => {}
            Cuts => notes.push(format!("`{name}` has no effect: it is not supported")),
        }
    }
    Ok(())
}

/// Note the fields of a part of the request that were not used, except fields that do not affect the answer.
pub fn note_rest(fields: Fields, harmless: &str, notes: &mut Vec<String>) {
    for (_, field) in fields.rest().filter(|(name, _)| !is_in(harmless, name)) {
        note_unknown(&field, notes);
    }
}

fn note_unknown(field: &Field, notes: &mut Vec<String>) {
    if !is_empty(&field.value) {
        let at: String = field.at.chars().take(100).collect();
        notes.push(format!("`{at}` has no effect: unknown field"));
    }
}

fn is_in(names: &str, name: &str) -> bool {
    names.split_whitespace().any(|known| known == name)
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::String(text) => text.is_empty(),
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    }
}
