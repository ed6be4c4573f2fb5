//! What is said in a video: its sound to lines with times, by a Whisper model.
//!
//! The model is candle-transformers'; this crate makes the spectrogram that it hears ([`mel`]), writes its text by OpenAI's rules of
//! times ([`rules`]), and repeats a window whose text is uncertain or repeats itself at a higher temperature ([`Recognizer`]). Memory does
//! not grow with the video: it is heard in windows of 30 seconds, each from the end of the last line.
//!
//! ```no_run
//! use specreel_speech::{Recognizer, Sound};
//!
//! let mut recognizer = Recognizer::open("whisper-base".as_ref())?;
//! let sound = Sound::open("lecture.mp4".as_ref(), 0.0)?.expect("a video with sound");
//! for line in recognizer.listen(sound, f64::INFINITY, None, &mut |_| std::ops::ControlFlow::Continue(()))?.lines {
//!     println!("{:.1} s: {}", line.span.start, line.text);
//! }
//! # Ok::<(), specreel_record::Failure>(())
//! ```

pub mod mel;
mod recognizer;
pub mod rules;

pub use recognizer::{Line, Recognizer, Said};
pub use specreel_video::Sound;
