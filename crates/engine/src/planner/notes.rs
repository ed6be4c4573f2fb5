//! What the user of a run should know about it.

use super::Planner;
use specreel_demo as assets;
use specreel_record::Expected;
use specreel_speculate::{Drafter, Method, Stamps};

impl Planner<'_> {
    /// What does not depend on choices among drafters.
    pub(super) fn notes(&self, method: &Method) -> Vec<String> {
        let target = &self.models.target;
        let sampling = self.request.text.notes(target.tokenizer().sampling(), target.name());
        let others = [self.demo_note(), self.stamps_note(method), self.thinking_note()];
        sampling.into_iter().chain(others.into_iter().flatten()).collect()
    }

    /// A note if the models cannot know the video's contents.
    fn demo_note(&self) -> Option<String> {
        let is_foreign = self.models.embedded && !assets::is_embedded_clip(&self.request.video);
        is_foreign.then(|| assets::LIMITS_NOTE.to_owned())
    }

    /// What an automatic method does in this run, and why; `expected` is `None` if the method names its drafter.
    pub(super) fn choice_note(&self, method: &Method, expected: Option<&[Expected]>) -> String {
        let Method { drafter, context, .. } = method;
        let sees = match drafter.reads() {
            true => format!(" that {}", context.describe()),
            false => String::new(),
        };
        let alone = Drafter::None {}.describe();
        let s = |of: &Expected| format!("{:.2} s", of.ms / 1e3);
        let why = match expected {
            // Each segment of a video has other figures: only another choice is news.
            _ if self.request.segment.is_some() => String::new(),
            None => String::new(),
            Some([]) => "; not timed yet".to_owned(),
            Some([first, second, ..]) if first.drafter == alone => {
                format!("; {} expected, {} with {}", s(first), s(second), second.drafter)
            }
            Some([first, rest @ ..]) => match rest.iter().find(|of| of.drafter == alone) {
                Some(without) => format!("; {} expected, {} without drafts", s(first), s(without)),
                None => String::new(),
            },
        };
        format!("chosen for this run: {}{sees}{why}", drafter.describe())
    }

    /// A note if the method drops time stamps, and the prompt has none.
    fn stamps_note(&self, method: &Method) -> Option<String> {
        let family = self.models.target.family();
        let in_vain = method.context.stamps() == Stamps::Drop && !family.writes_stamps();
        in_vain.then(|| {
            format!("context.stamps=drop has no effect: prompts of {} have no time stamps", family.name)
        })
    }

    /// That the target cannot think, if it should, or not by an effort.
    fn thinking_note(&self) -> Option<String> {
        let (target, request) = (&self.models.target, &self.request);
        if request.thinking && !target.offers_thinking() {
            return Some(format!(
                "--thinking has no effect: {} cannot think before it answers",
                target.name()
            ));
        }
        let reason = match request.effort {
            None => return None,
            Some(_) if !target.offers_effort() => format!("the chat template of {} has none", target.name()),
            Some(_) if !request.thinking => "it needs --thinking".to_owned(),
            Some(_) => return None,
        };
        Some(format!("--reasoning-effort has no effect: {reason}"))
    }
}
