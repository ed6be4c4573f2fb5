//! Everything a key can do: the one list from which the key map, the help and the status line are made.

macro_rules! actions {
    ($($variant:ident $name:literal $about:literal;)*) => {
        /// Something that a key does.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Action {
            $(#[doc = $about] $variant,)*
        }

        impl Action {
            /// All actions, in the order of the help page.
            pub const ALL: &'static [Action] = &[$(Action::$variant,)*];

            /// The name used in key maps.
            pub fn name(self) -> &'static str {
                match self { $(Action::$variant => $name,)* }
            }

            /// What it does, in words for the help page.
            pub fn about(self) -> &'static str {
                match self { $(Action::$variant => $about,)* }
            }
        }
    };
}

actions! {
    Run "run" "caption the selected clip";
    Segments "segments" "caption the selected clip piece by piece, with time stamps";
    Again "again" "run the shown clip and prompt again with the chosen method";
    Back "back" "close what is open, leave the prompt, clear a filter or a search, cancel the run";
    Interrupt "interrupt" "cancel the run; without a run, leave if pressed twice";
    Quit "quit" "leave the studio; while something runs, if pressed twice";
    NextPane "next_pane" "go to the next pane";
    PreviousPane "previous_pane" "go to the previous pane";
    Prompt "prompt" "edit the prompt";
    Methods "methods" "choose a method";
    KnobUp "knob_up" "turn the method's number up, and run again";
    KnobDown "knob_down" "turn the method's number down, and run again";
    NextKnob "next_knob" "turn another of the method's numbers";
    FollowUp "follow_up" "ask on about the shown caption";
    Presets "presets" "choose a prepared prompt";
    Compare "compare" "compare several methods on the shown clip and prompt";
    Comparison "comparison" "the last comparison";
    Sweep "sweep" "run the method with its number at all values: speed against what it costs";
    Inspect "inspect" "look at the caption token by token";
    Copy "copy" "copy the caption";
    OlderRun "older_run" "show the run before";
    NewerRun "newer_run" "show the run after";
    Sessions "sessions" "the saved runs: replay or delete them";
    Theme "theme" "next theme";
    Help "help" "keys and words";
    Redraw "redraw" "draw the screen afresh";
    Suspend "suspend" "put the studio to sleep, back to the shell";
    Up "up" "up";
    Down "down" "down";
    PageUp "page_up" "a page up";
    PageDown "page_down" "a page down";
    Top "top" "to the beginning";
    Bottom "bottom" "to the end";
    Preview "preview" "look at the selected clip: its facts and its frames";
    Sort "sort" "another order of the clips: by name, length, size or time";
    Filter "filter" "filter the clips by name";
    Search "search" "search in the caption";
    NextMatch "next_match" "the next match";
    PreviousMatch "previous_match" "the match before";
    FilterSessions "filter_sessions" "filter the saved runs by what they say";
    History "history" "search in the prompts that were run";
    Open "open" "open a file or a folder by its path";
    Choose "choose" "take the selected line";
    Newline "newline" "begin a new line";
    HistoryOlder "history_older" "an older prompt";
    HistoryNewer "history_newer" "a newer prompt";
    ClearLine "clear_line" "clear the line";
    Complete "complete" "complete the path";
    Pause "pause" "pause, or go on";
    SeekBack "seek_back" "jump back";
    SeekForward "seek_forward" "jump ahead";
    StepBack "step_back" "go back by one step";
    StepForward "step_forward" "go on by one step";
    Slower "slower" "play more slowly";
    Faster "faster" "play faster";
    Edit "edit" "change the method choice by choice, or type a value";
    Reset "reset" "the method as it came";
    Save "save" "keep it as a file";
    Editor "editor" "edit the prompt in $VISUAL or $EDITOR";
    Export "export" "save the shown run as text, Markdown, a page or subtitles";
    Boundaries "boundaries" "show where steps end";
    Pick "pick" "pick it, or leave it out";
    TokenBack "token_back" "the token before";
    TokenForward "token_forward" "the next token";
    NextLoosened "next_loosened" "the next token that the target would not have written";
    PreviousLoosened "previous_loosened" "the one of those before";
    Heat "heat" "show something else over the frames: where it looks, what the drafter sees, scores";
    Delete "delete" "delete the selected one";
    Yes "yes" "do it";
}

impl Action {
    /// The action with this name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|a| a.name() == name)
    }

    /// One word for the status line.
    pub(crate) fn short(self) -> &'static str {
        match self {
            Action::Methods => "method",
            Action::Segments => "pieces",
            Action::NextMatch | Action::PreviousMatch => "match",
            Action::FilterSessions => "filter",
            Action::Presets => "prompts",
            Action::FollowUp => "ask on",
            Action::NextPane => "panes",
            Action::KnobUp | Action::KnobDown => "number",
            Action::Interrupt => "cancel",
            Action::NextKnob => "next number",
            Action::Export => "save",
            Action::PageDown => "page",
            Action::ClearLine => "clear",
            Action::HistoryOlder | Action::HistoryNewer => "history",
            Action::SeekBack | Action::SeekForward => "seek",
            Action::StepBack | Action::StepForward => "step",
            Action::Slower | Action::Faster => "speed",
            Action::TokenBack | Action::TokenForward => "token",
            Action::NextLoosened | Action::PreviousLoosened => "loosened",
            Action::Heat => "map",
            other => other.name(),
        }
    }
}
