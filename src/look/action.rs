//! The actions: the one list from which the key map, the help page and the status line are made.

macro_rules! actions {
    ($($variant:ident $name:literal $about:literal;)*) => {
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Action {
            $(#[doc = $about] $variant,)*
        }

        impl Action {
            /// All actions, in the order of the help page.
            pub const ALL: &'static [Action] = &[$(Action::$variant,)*];

            pub fn name(self) -> &'static str {
                match self { $(Action::$variant => $name,)* }
            }

            /// The action's description on the help page.
            pub fn about(self) -> &'static str {
                match self { $(Action::$variant => $about,)* }
            }
        }
    };
}

actions! {
    Run "run" "caption the selected clip";
    Segments "segments" "caption the selected clip in segments, with time stamps";
    Speech "speech" "give a transcript of the selected clip, or a speech model that listens to it, for the prompts";
    Timeline "timeline" "show the segments of the shown clip on a timeline";
    Again "again" "re-run the shown clip and prompt with the selected method";
    Back "back" "close a box, leave the prompt, clear a filter or a search, cancel the run";
    Interrupt "interrupt" "cancel the run; without a run, quit if pressed twice";
    Quit "quit" "quit; during a run, if pressed twice";
    NextPane "next_pane" "focus the next pane";
    PreviousPane "previous_pane" "focus the previous pane";
    Prompt "prompt" "edit the prompt";
    Methods "methods" "select a method";
    KnobUp "knob_up" "increase the method's parameter and re-run; in a box, the value under the cursor";
    KnobDown "knob_down" "decrease the method's parameter and re-run; in a box, the value under the cursor";
    NextKnob "next_knob" "select the method's next parameter";
    FollowUp "follow_up" "ask a follow-up question about the shown caption";
    Presets "presets" "select a preset prompt";
    Sampling "sampling" "set how the next runs are sampled: presets, temperature, penalties, seed";
    Compare "compare" "compare several methods on the shown clip and prompt";
    Comparison "comparison" "show the last comparison";
    Sweep "sweep" "run the method over a range of its parameter: speedup against quality";
    Inspect "inspect" "inspect the caption token by token";
    Steps "steps" "show the steps: drafted, accepted and rejected tokens";
    Verify "verify" "verify the shown run: decode again without drafts and compare the texts";
    Copy "copy" "copy the caption";
    OlderRun "older_run" "show the previous run";
    NewerRun "newer_run" "show the next run";
    Sessions "sessions" "list the saved runs, to replay or delete them";
    Find "find" "find a moment of the library by words of its captions and of what is said";
    Models "models" "select, download or remove models";
    FirstModel "first_model" "download a small model for videos of your own, and caption the selected clip with it";
    Theme "theme" "select a theme";
    Help "help" "show keys and terms";
    Redraw "redraw" "redraw the screen";
    Suspend "suspend" "suspend: back to the shell";
    Up "up" "up";
    Down "down" "down";
    PageUp "page_up" "page up";
    PageDown "page_down" "page down";
    Top "top" "go to the beginning";
    Bottom "bottom" "go to the end";
    Preview "preview" "preview the selected clip: its properties and frames";
    Mark "mark" "mark or unmark the clip; run then captions all marked clips together";
    MarkAll "mark_all" "mark all clips that are shown, or none";
    Sort "sort" "sort the clips by name, duration, size or time";
    Filter "filter" "filter the clips by name";
    Search "search" "search in the caption";
    NextMatch "next_match" "the next match";
    PreviousMatch "previous_match" "the previous match";
    FilterSessions "filter_sessions" "filter the saved runs by their text";
    History "history" "search earlier prompts";
    Open "open" "open a video or a directory by its path";
    OpenPlayer "open_player" "open the clip in the system's player";
    Choose "choose" "accept the selection";
    Newline "newline" "insert a line break";
    HistoryOlder "history_older" "previous prompt in the history";
    HistoryNewer "history_newer" "next prompt in the history";
    ClearLine "clear_line" "clear the line";
    Complete "complete" "complete the path";
    Pause "pause" "pause or play";
    SeekBack "seek_back" "seek back";
    SeekForward "seek_forward" "seek forward";
    StepBack "step_back" "previous step, paused at its verdict";
    StepForward "step_forward" "next step, paused at its verdict";
    Slower "slower" "play slower";
    Faster "faster" "play faster";
    Skip "skip" "jump to the end of the playback";
    Edit "edit" "edit the method, or type a value";
    Reset "reset" "reset the method to its preset, or a value of the sampling to its base's";
    Save "save" "save the method, or the edited caption, as a file";
    Editor "editor" "edit the prompt in $VISUAL or $EDITOR";
    Export "export" "export the shown run as text, Markdown, HTML or subtitles";
    Boundaries "boundaries" "mark where steps end";
    Pick "pick" "pick or unpick the method";
    TokenBack "token_back" "previous token";
    TokenForward "token_forward" "next token";
    NextLoosened "next_loosened" "next rejected or loosened token";
    PreviousLoosened "previous_loosened" "previous rejected or loosened token";
    Heat "heat" "switch the heat map: similar visual tokens, tokens that the drafter sees, scores";
    Delete "delete" "delete the selected run, or remove the selected model";
    Batch "batch" "show the batch: clips that are captioned together";
    Retry "retry" "caption the clips of the batch that failed or were left";
    EditCaption "edit_caption" "edit the caption of the clip, or of the segment";
    SidecarForm "sidecar" "switch the form of the files next to the clips";
    Existing "existing" "switch the treatment of clips that have such a file";
    Yes "yes" "confirm";
}

impl Action {
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|a| a.name() == name)
    }

    /// True if it starts work of the engine, says how that is done, or has it load models.
    pub(crate) fn needs_engine(self) -> bool {
        matches!(
            self,
            Self::Run
                | Self::Segments
                | Self::Speech
                | Self::Again
                | Self::FollowUp
                | Self::Sampling
                | Self::Compare
                | Self::Sweep
                | Self::Verify
                | Self::Models
                | Self::FirstModel
                | Self::Batch
                | Self::Retry
        )
    }

    /// One word for the status line.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Action::Methods => "method",
            Action::OpenPlayer => "player",
            Action::Segments => "segments",
            Action::NextMatch | Action::PreviousMatch => "match",
            Action::FilterSessions => "filter",
            Action::Presets => "prompts",
            Action::FirstModel => "get a model",
            Action::FollowUp => "follow up",
            Action::NextPane => "panes",
            Action::KnobUp | Action::KnobDown => "adjust",
            Action::Interrupt => "cancel",
            Action::NextKnob => "parameter",
            Action::Export => "save",
            Action::PageDown => "page",
            Action::ClearLine => "clear",
            Action::HistoryOlder | Action::HistoryNewer => "history",
            Action::SeekBack | Action::SeekForward => "seek",
            Action::StepBack | Action::StepForward => "step",
            Action::Slower | Action::Faster => "speed",
            Action::TokenBack | Action::TokenForward => "token",
            Action::NextLoosened | Action::PreviousLoosened => "reject",
            Action::Heat => "map",
            Action::EditCaption => "edit",
            Action::MarkAll => "all",
            Action::SidecarForm => "file",
            other => other.name(),
        }
    }
}
