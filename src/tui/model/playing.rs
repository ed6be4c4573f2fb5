//! What is played: the shown run, or what the screen on top plays.

use super::{Model, run::Run};

impl Model {
    /// The shown run, if it is one of the replay's.
    pub fn shown_replay(&self) -> Option<&Run> {
        let shown = self.runs.shown()?;
        self.sessions.replay.as_ref().filter(|replay| replay.contains(&shown.id())).map(|_| shown)
    }

    /// True if the shown run is played: it is a replay's, or not at its end, or paused.
    pub fn shows_player(&self) -> bool {
        let is_played = |run: &Run| !run.log.is_at_end() || run.log.is_paused() || run.log.scene().is_some();
        self.shown_replay().is_some() || self.runs.shown().is_some_and(is_played)
    }

    /// Index of the run that is played: of the runs that belong together with the shown one, the first that is not at its end.
    pub fn playing(&self) -> Option<usize> {
        let shown = self.runs.shown()?;
        let (id, group) = (shown.id(), shown.group());
        let is_next = |run: &Run| {
            let belongs = run.id() == id || (group.is_some() && run.group() == group);
            belongs && (!run.log.is_at_end() || run.log.is_playing())
        };
        self.runs.all.iter().position(is_next)
    }

    pub fn is_playing(&self) -> bool {
        self.playing().is_some_and(|at| self.runs.all[at].log.is_playing())
            || self.screens.top().is_some_and(|top| top.is_playing(self))
    }
}
