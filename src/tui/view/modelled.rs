//! The speed of a run on the hardware of a profile.

use super::meters::NAME;
use super::*;
use specreel_client::present::modelled;

/// A line with the modelled decode speedup of a run, if there is a profile that says something of it.
pub(super) fn lines(model: &Model, run: &Run, theme: &Theme, columns: usize) -> Vec<Line<'static>> {
    let profile = model.config.profile.as_ref().filter(|_| !run.autoregressive);
    let known = profile.and_then(|profile| Some((profile, modelled::speedup(profile, &run.log)?)));
    let Some((profile, speedup)) = known else { return Vec::new() };
    let words = format!("on {}: {speedup:.1}x decode", profile.name);
    let words = text::fit(&words, columns.saturating_sub(NAME));
    let dim = theme.style(Role::Dim);
    vec![Line::from_iter([Span::styled(text::pad("modelled", NAME), dim), Span::styled(words, dim)])]
}

#[cfg(test)]
mod tests {
    use crate::tui::{Msg, Studio, StudioConfig, testing};
    use specreel_record::{
        Event, EventKind, Started, StopReason, Verdict, profile::Profile, testing as events,
    };
    use specreel_speculate::Method;

    /// The whole screen after a run of naive speculation, with this profile.
    fn screen(profile: Option<Profile>) -> String {
        let config = StudioConfig { profile, ..testing::config() };
        let (mut studio, _) = Studio::new(&config).unwrap();
        studio.handle(Msg::Resize(120, 40));
        studio.handle(testing::ready_event());
        testing::press(&mut studio, "enter");
        let method = serde_json::to_value(Method::preset("naive").unwrap()).unwrap();
        let started = Started { method, ..testing::about("/demo/0.mp4", "naive") };
        for kind in [EventKind::Started(started), events::prompt(None)] {
            studio.handle(Msg::Engine(Event::new(1, kind)));
        }
        studio.handle(testing::step(1, &[("A red", Verdict::Exact), (" ball.", Verdict::Bonus)], 1));
        studio.handle(testing::done(1, StopReason::Length, "A red ball."));
        let picture = studio.picture(120, 40);
        picture.content().iter().map(|cell| cell.symbol()).collect()
    }

    #[test]
    fn the_meters_show_the_modelled_speed_where_a_profile_is_chosen() {
        assert!(!screen(None).contains("modelled"));
        // Two tokens of 10 ms each, in one pass and one draft of 1 ms.
        let text =
            "step_ms = 0\n[target]\npasses = [[0, 1, 10], [0, 32, 10]]\n[drafter]\npasses = [[0, 1, 1]]\n";
        let profile = Profile::parse("a GPU", text, &|_| None).unwrap();
        let shown = screen(Some(profile.clone()));
        assert!(shown.contains("modelled  on a GPU: 1.8x decode"), "{shown}");
        // Nothing of a run whose drafter the profile does not know.
        let shown = screen(Some(Profile { drafter: None, ..profile }));
        assert!(!shown.contains("modelled"), "{shown}");
    }
}
