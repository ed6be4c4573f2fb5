//! Masks, forced tokens, and going back, with the embedded tokenizer.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::text::TextTokenizer;

fn tokenizer() -> TextTokenizer {
    TextTokenizer::load(&specreel_demo::demo(None).unwrap().target).unwrap()
}

fn schema(schema: Value) -> Constraint {
    Constraint::JsonSchema { schema }
}

fn tags() -> Constraint {
    schema(json!({
        "type": "object",
        "properties": { "tags": { "type": "array", "items": { "type": "string" }, "maxItems": 3 } },
        "required": ["tags"],
        "additionalProperties": false,
    }))
}

fn compile(constraint: &Constraint) -> (TextTokenizer, Grammar) {
    let tokenizer = tokenizer();
    let grammar = GrammarVocabulary::new(&tokenizer).unwrap().compile(constraint).unwrap();
    (tokenizer, grammar)
}

#[test]
fn what_has_no_choice_is_forced_and_the_text_ends_where_it_may() {
    let (tokenizer, grammar) = compile(&tags());
    let mut follower = grammar.follow();
    let forced = follower.forced(usize::MAX).unwrap();
    assert!("{\"tags\": [".starts_with(&tokenizer.decode(&forced)) && forced.len() > 3, "{forced:?}");
    assert_eq!(follower.forced(2).unwrap(), forced[..2]);

    let text = "{\"tags\": [\"a star\"]}";
    let ids = tokenizer.encode_plain(text).unwrap();
    for at in 0..ids.len() {
        let allowed = follower.allowed(&ids[..at]).unwrap();
        assert!(allowed.allows(ids[at]), "{:?}", tokenizer.decode(&ids[..=at]));
        assert!(tokenizer.end_ids().iter().all(|end| !allowed.allows(*end)));
        assert!(!grammar.accepts(&ids[..at]));
    }
    let last = follower.allowed(&ids).unwrap();
    assert!(tokenizer.end_ids().iter().all(|end| last.allows(*end)));
    assert!(grammar.accepts(&ids));
    assert_eq!(
        (0..tokenizer.vocabulary() as u32).filter(|id| last.allows(*id)).count(),
        tokenizer.end_ids().len()
    );
    // Beyond the end everything is allowed: nothing of it is read.
    let beyond = [&ids[..], &tokenizer.end_ids()[..1]].concat();
    assert!(follower.allowed(&beyond).unwrap().allows(ids[0]));
    // And back again.
    assert_eq!(follower.allowed(&ids).unwrap(), last);
}

#[test]
fn the_text_before_a_mark_is_free() {
    let (tokenizer, grammar) = compile(&tags());
    let mark = tokenizer.encode_plain("=").unwrap()[0];
    let grammar = grammar.after(Some(mark));
    let thought = tokenizer.encode_plain("I think").unwrap();
    let answer = tokenizer.encode_plain("{\"tags\": []}").unwrap();
    let mut follower = grammar.follow();
    assert!(follower.allowed(&thought).unwrap().allows(thought[0]));
    let whole = [&thought[..], &[mark], &answer[..]].concat();
    follower.advance(&whole[..=thought.len()]).unwrap();
    assert_eq!(follower.allowed(&[]).unwrap().only(), Some(answer[0]));
    assert!(grammar.accepts(&whole) && !grammar.accepts(&thought) && !grammar.accepts(&answer));
    follower.truncate(2).unwrap();
    assert_eq!(follower.allowed(&[]).unwrap(), Allowed::default());
    follower.advance(&whole[2..]).unwrap();
    assert_eq!(follower.len(), whole.len());
}

#[test]
fn special_tokens_are_no_text() {
    let (tokenizer, grammar) = compile(&Constraint::Regex { pattern: "(?s:.*)".into() });
    let allowed = grammar.follow().allowed(&[]).unwrap();
    for id in tokenizer.special_ids() {
        assert_eq!(allowed.allows(*id), tokenizer.is_end(*id), "{}", tokenizer.token_text(*id));
    }
    assert!(!allowed.allows(tokenizer.vocabulary() as u32));
}

#[test]
fn logits_of_other_ids_become_impossible() {
    let mut ids = llguidance::toktrie::SimpleVob::alloc(6);
    [1, 4].into_iter().for_each(|id| ids.allow_token(id));
    let allowed = super::compiled::of(ids);
    let logits = [9.0, 1.0, 8.0, 7.0, 3.0, 2.0];
    let restrict = |allowed: &Allowed, id_of: &dyn Fn(u32) -> u32| {
        allowed.restrict(LogitRow::whole(&logits), id_of).unwrap().map(|row| row.argmax())
    };
    assert_eq!(restrict(&allowed, &|at| at), Some(4));
    // The logits of a head that has other ids, and of one that has none of the allowed ones.
    assert_eq!(restrict(&allowed, &|at| at + 1), Some(0));
    assert_eq!(restrict(&allowed, &|at| at + 5), None);
    assert_eq!(restrict(&Allowed::default(), &|at| at), Some(0));
}

#[test]
fn invalid_constraints_say_what_and_where() {
    let lark = |grammar: &str| Constraint::Lark { grammar: grammar.into() };
    for (constraint, words) in [
        (schema(json!({ "type": "strin" })), "Invalid type: strin"),
        (schema(json!({ "not": {} })), "Unimplemented keys: [\"not\"]"),
        (schema(json!(3)), "schema must be an object or boolean"),
        (schema(json!(false)), "Unsatisfiable schema: schema is false"),
        (schema(json!({ "type": "string", "pattern": "(" })), "regex parse error: unclosed group"),
        (lark("start: foo\n"), "line 1, column 8: unknown name: \"foo\""),
        (lark("start: \"a\"\nb: \"c\n"), "line 2, column 6: lexer error"),
        (lark(""), "no start rule found"),
        (lark("start: a\na: a\n"), "it allows no text"),
        (lark("start[max_tokens=5]: /.*/\n"), "max_tokens= and stop= are not supported"),
        (
            Constraint::Regex { pattern: "[0-9]{3}(".into() },
            "line 1, column 8: invalid regex \"[0-9]{3}(\" (in regex): regex parse error: unclosed group",
        ),
    ] {
        assert_eq!(constraint.check().unwrap_err().to_string(), words, "{constraint:?}");
    }
    schema(json!(true)).check().unwrap();
    Constraint::JsonObject.check().unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]
    /// The mask of a place depends on the text before it, and not on which drafts were looked at in between.
    #[test]
    fn a_mask_does_not_depend_on_the_way_to_it(picks in prop::collection::vec(any::<u16>(), 1..60)) {
        let (tokenizer, grammar) = compile(&tags());
        let ids = |allowed: &Allowed| -> Vec<u32> {
            (0..tokenizer.vocabulary() as u32).filter(|id| allowed.allows(*id)).collect()
        };
        let mut follower = grammar.follow();
        let (mut text, mut branch): (Vec<u32>, Vec<u32>) = (Vec::new(), Vec::new());
        for pick in picks {
            let allowed = follower.allowed(&branch).unwrap();
            let mut fresh = grammar.follow();
            fresh.advance(&[&text[..], &branch[..]].concat()).unwrap();
            prop_assert_eq!(&allowed, &fresh.allowed(&[]).unwrap());
            let choices = ids(&allowed);
            let id = choices[usize::from(pick) % choices.len()];
            if tokenizer.is_end(id) {
                break;
            }
            branch.push(id);
            match pick % 5 {
                // Accepted, rejected, taken back, or continued.
                0 => {
                    follower.advance(&branch).unwrap();
                    text.append(&mut branch);
                }
                1 => branch.truncate(branch.len() / 2),
                2 => {
                    text.truncate(usize::from(pick) % (text.len() + 1));
                    follower.truncate(text.len()).unwrap();
                    branch.clear();
                }
                _ => {}
            }
        }
    }
}
