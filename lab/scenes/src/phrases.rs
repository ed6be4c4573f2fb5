//! The wording of captions: fillers, sentence frames and prompts.
//!
//! Each list has interchangeable phrases, chosen at random and independently of the video. `{}` marks a fact, filled in order.
//! No filler may contain a word that states a fact (see the test in `caption.rs`).
//!
//! The embedded models are trained on these texts: a changed phrase needs new training.

pub(super) const LONG_PROMPTS: &[&str] = &[
    "Describe the video in detail.",
    "Describe this video in detail.",
    "Please describe the video in detail.",
    "Give a detailed description of the video.",
    "Write a detailed caption for this video.",
    "What happens in the video? Describe it in detail.",
    "Describe everything you see in this clip.",
    "Tell me in detail what the video shows.",
    "Describe this video.",
    "Describe what happens in the video, shot by shot.",
    "Please provide a detailed description of the video, focusing on the main subjects and their actions.",
    "What do you see in this video?",
];

pub(super) const SHORT_PROMPTS: &[&str] = &[
    "Describe the video briefly.",
    "Describe the video in a short sentence.",
    "Give a short caption for the video.",
    "Summarize the video.",
    "Write a brief caption.",
];

pub(super) const OPENINGS: &[&str] = &[
    "This is a short animated clip with {} {shots}.",
    "The video is made of {} {shots}.",
    "The clip consists of {} {shots} in all.",
    "What we see here is a simple video of {} {shots}.",
    "The footage is built from {} {shots}.",
    "The animation runs for {} {shots}.",
];

pub(super) const STYLE: &[&str] = &[
    "The style is clean and flat.",
    "It looks like paper cut out and laid on a table.",
    "Everything is drawn with sharp edges.",
    "The camera does not move at any time.",
    "The picture is calm and easy to read.",
    "The drawing is simple but precise.",
    "There is no text and no person in it.",
];

pub(super) const ONLY_SHOT: &[&str] = &[
    "It shows a {} background",
    "The scene is set on a {} background",
    "Everything happens on a {} background",
    "We look at a {} background",
    "The view opens on a {} background",
];

pub(super) const FIRST_SHOT: &[&str] = &[
    "The first shot shows a {} background",
    "The first shot opens on a {} background",
    "In the first shot we look at a {} background",
    "The first shot is set on a {} background",
];

pub(super) const NEXT_SHOT: &[&str] = &[
    "After a hard cut, the {nth} shot shows a {} background",
    "Then the {nth} shot opens on a {} background",
    "In the {nth} shot we look at a {} background",
    "The {nth} shot is set on a {} background",
    "The view changes, and the {nth} shot has a {} background",
];

pub(super) const COUNT: &[&str] = &[
    " with {} {shapes} on it.",
    " and {} {shapes} in view.",
    " that holds {} {shapes}.",
    " with {} {shapes} in front of it.",
];

pub(super) const FIRST_FIGURE: &[&str] =
    &["There is a", "We can see a", "The eye goes to a", "Here we find a", "It contains a", "In view is a"];

pub(super) const OTHER_FIGURE: &[&str] =
    &["There is also a", "Then we see a", "Along with it comes a", "In addition we find a", "Close by is a"];

pub(super) const JOINTS: &[&str] = &[" that", ", which", ". It", ", and it", ". This shape"];

pub(super) const MANNER: &[&str] = &["", "", " slowly", " smoothly", " steadily", " gently", " calmly"];

pub(super) const SLIDES: &[&str] = &["slides", "moves", "glides", "drifts", "travels"];

pub(super) const UPWARD: &[&str] = &["", " upward", " toward the top", " through the frame"];
pub(super) const DOWNWARD: &[&str] = &["", " downward", " toward the bottom", " through the frame"];
pub(super) const RESIZED: &[&str] = &["", " in size", " little by little", " before our eyes"];
pub(super) const TURNED: &[&str] = &["", " around its center", " in place", " on the spot"];
pub(super) const STILL: &[&str] = &[" in its place", " where it is", " still", " at rest"];

pub(super) const TAILS: &[&str] = &[
    "",
    "",
    " the whole time",
    " as we watch",
    " during the shot",
    " at an even pace",
    " from start to end",
];

pub(super) const STANDS: &[&str] = &["is", "stands", "is placed", "can be found", "appears"];

pub(super) const REMARKS: &[&str] = &[
    "The movement is easy to follow.",
    "Nothing else can be seen.",
    "The edges are clear against what lies behind.",
    "The light is even everywhere.",
    "The rest of the frame is empty.",
    "There is a sense of quiet order in this part.",
    "It is a simple arrangement.",
];

pub(super) const CLOSINGS: &[&str] = &[
    "Overall, the clip is calm and clear.",
    "Taken together, it is a quiet and simple piece.",
    "The video ends without any other change.",
    "That is all that happens in the clip.",
    "In the end the viewer is left with a clean picture.",
    "The whole thing feels neat and well composed.",
];
