//! The sound of a video, as speech recognizers take it: one channel, 16,000 samples a second.

use std::{
    collections::VecDeque,
    path::{Path, PathBuf},
};

use ffmpeg_next::{self as ffmpeg, ChannelLayout, codec, ffi, format, frame, media, software::resampling};

use super::{Error, clock::Join, source::Source, timeline::Timeline, walk::MAX_ERRORS};

/// Samples per second.
pub const SAMPLE_RATE: u32 = 16_000;

/// Sound that is further than this from where its time stamp says is moved there, in seconds.
const DRIFT_S: f64 = 0.1;

/// A time stamp that is further away is damaged, in seconds.
const MAX_JUMP_S: f64 = 3600.0;

/// Samples in a row.
enum Run {
    Samples(Vec<f32>),
    /// So many zeros: a gap may be long, and is not kept in memory.
    Silence(usize),
}

impl Run {
    fn is_empty(&self) -> bool {
        match self {
            Self::Samples(samples) => samples.is_empty(),
            Self::Silence(left) => *left == 0,
        }
    }
}

/// Where the time stamps of the pictures restart or jump: by how much, and what is added to them from there on, in seconds.
struct Joined {
    jump_s: f64,
    shift_s: f64,
}

impl Joined {
    fn of(join: Join, tick: f64) -> Self {
        let seconds = |ticks: i64| ticks as f64 * tick;
        Self { jump_s: seconds(join.after.saturating_sub(join.before)), shift_s: seconds(join.shift) }
    }
}

/// The sound of a video from a given time on. Gaps are filled with silence, so that the index of a sample is its time.
pub struct Sound {
    path: PathBuf,
    input: format::context::Input,
    stream: usize,
    /// Seconds per tick of the stream's time stamps, and the time stamp in seconds of the first sample that is wanted.
    tick: f64,
    start_s: f64,
    from_s: f64,
    /// Where the video's time stamps restart or jump, further on; seconds to add to time stamps of this part; and the last time stamp.
    joins: VecDeque<Joined>,
    shift_s: f64,
    last_s: Option<f64>,
    /// The track that was asked for, from 1; and all of them, each with number and language.
    track: Option<usize>,
    tracks: Vec<String>,
    decoder: ffmpeg::decoder::Audio,
    resampler: Option<resampling::Context>,
    /// What was decoded and not read yet.
    ready: VecDeque<Run>,
    /// The place of the sample that is decoded next, counted from `start_s`; `None` before the first time stamp.
    position: Option<i64>,
    /// The place behind the last sample in `ready`.
    end: i64,
    errors: usize,
    drained: bool,
}

impl Sound {
    /// Open the sound of a video from a time on, in seconds from the beginning of the file; `None` if it has
    /// none. `track` is the number of the audio track, from 1; by default it is the track that players
    /// choose. Fails if the file is not a video, if it lacks the track, or if the sound cannot be decoded.
    pub fn open(path: &Path, from_s: f64, track: Option<usize>) -> Result<Option<Self>, Error> {
        let mut source = Source::open(path)?;
        let start_s = source.start_s() + from_s;
        let tick = source.tick();
        // Other formats have one clock, so they need not be read through.
        let joins = if source.may_jump() { Timeline::of(&mut source)?.joins } else { Vec::new() };
        let joins: VecDeque<Joined> = joins.into_iter().map(|join| Joined::of(join, tick)).collect();
        let Source { mut input, path, .. } = source;
        let found = audio_tracks(&input);
        let chosen = match track {
            None => input.streams().best(media::Type::Audio).map(|stream| stream.index()),
            Some(track) => track.checked_sub(1).and_then(|at| found.get(at)).map(|(index, _)| *index),
        };
        let tracks: Vec<String> = found.into_iter().map(|(_, name)| name).collect();
        let stream = match (chosen.and_then(|index| input.stream(index)), track) {
            (Some(stream), _) => stream,
            (None, Some(track)) if !tracks.is_empty() => return Err(Error::NoTrack { path, track, tracks }),
            (None, _) => return Ok(None),
        };
        let (index, base, parameters) = (stream.index(), stream.time_base(), stream.parameters());
        let tick = f64::from(base.numerator()) / f64::from(base.denominator().max(1));
        let name = parameters.id().name();
        let fail = |e: ffmpeg::Error| Error::NoDecoder {
            path: path.clone(),
            codec: name.into(),
            detail: e.to_string(),
        };
        let mut decoder = codec::Context::from_parameters(parameters).map_err(fail)?.decoder();
        decoder.set_packet_time_base(base);
        let decoder = decoder.audio().map_err(fail)?;
        for mut stream in input.streams_mut() {
            let discard = match stream.index() == index {
                true => ffi::AVDiscard::AVDISCARD_DEFAULT,
                false => ffi::AVDiscard::AVDISCARD_ALL,
            };
            // SAFETY: the pointer is a stream of the open `input`; `discard` is a plain field that callers may set.
            unsafe { (*stream.as_mut_ptr()).discard = discard };
        }
        // With several clocks, a time stamp does not identify a place.
        if from_s > 0.0 && tick > 0.0 && joins.is_empty() {
            let target = (start_s / tick) as i64;
            // SAFETY: `input` is open and `index` is one of its streams. Where it cannot seek, it is read from its beginning.
            unsafe {
                ffi::av_seek_frame(input.as_mut_ptr(), index as i32, target, ffi::AVSEEK_FLAG_BACKWARD)
            };
        }
        Ok(Some(Self {
            path,
            input,
            stream: index,
            tick,
            start_s,
            from_s,
            joins,
            shift_s: 0.0,
            last_s: None,
            track,
            tracks,
            decoder,
            resampler: None,
            ready: VecDeque::new(),
            position: None,
            end: 0,
            errors: 0,
            drained: false,
        }))
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All audio tracks, each with its number and language: `1 (eng)`.
    pub fn tracks(&self) -> &[String] {
        &self.tracks
    }

    /// The same sound from its beginning. Fails as [`Sound::open`], and if the file has no sound any more.
    pub fn again(&self) -> Result<Self, Error> {
        Self::open(&self.path, self.from_s, self.track)?
            .ok_or_else(|| Error::NotVideo { path: self.path.clone(), detail: "its sound is gone".into() })
    }

    /// The next `count` samples, -1 to 1; fewer at the end of the sound.
    pub fn read(&mut self, count: usize) -> Vec<f32> {
        let mut samples = Vec::with_capacity(count);
        while samples.len() < count && (!self.ready.is_empty() || self.decode()) {
            let missing = count - samples.len();
            match self.ready.front_mut() {
                Some(Run::Samples(run)) => samples.extend(run.drain(..missing.min(run.len()))),
                Some(Run::Silence(left)) => {
                    let zeros = missing.min(*left);
                    samples.resize(samples.len() + zeros, 0.0);
                    *left -= zeros;
                }
                None => {}
            }
            if self.ready.front().is_some_and(Run::is_empty) {
                self.ready.pop_front();
            }
        }
        samples
    }

    /// Decode a frame. False at the end.
    fn decode(&mut self) -> bool {
        let mut frame = frame::Audio::empty();
        while !self.drained {
            match self.decoder.receive_frame(&mut frame) {
                Ok(()) => {
                    self.take(&mut frame);
                    return true;
                }
                Err(ffmpeg::Error::Eof) => {
                    self.drained = true;
                    self.flush();
                    return !self.ready.is_empty();
                }
                Err(ffmpeg::Error::Other { errno: ffmpeg::error::EAGAIN }) => self.feed(),
                Err(_) => {
                    self.errors += 1;
                    self.feed();
                }
            }
        }
        false
    }

    /// Send the decoder the next packet, or the end of the stream. Packets that it rejects are skipped.
    fn feed(&mut self) {
        let stream = self.stream;
        let packet =
            self.input.packets().find(|(found, _)| found.index() == stream).map(|(_, packet)| packet);
        let refused = match packet.filter(|_| self.errors < MAX_ERRORS) {
            Some(packet) => self.decoder.send_packet(&packet),
            None => self.decoder.send_eof(),
        };
        if refused.is_err() {
            self.errors += 1;
        }
    }

    /// Resample a frame, and put it where its time stamp says.
    fn take(&mut self, frame: &mut frame::Audio) {
        let layout = match frame.channel_layout() {
            layout if layout.is_empty() => ChannelLayout::default(i32::from(frame.channels())),
            layout => layout,
        };
        // AVI and ASF do not say which channels they have; the resampler refuses frames whose layout is not the one it was made for.
        frame.set_channel_layout(layout);
        if let Some(stamp) = frame.timestamp().or(frame.pts()) {
            let joined_s = self.joined(stamp as f64 * self.tick);
            let due = (joined_s - self.start_s) * f64::from(SAMPLE_RATE);
            let off_s = self.position.map(|at| (due - at as f64).abs() / f64::from(SAMPLE_RATE));
            if off_s.is_none_or(|off| off > DRIFT_S && off < MAX_JUMP_S) {
                self.flush();
                self.position = Some(due.round() as i64);
            }
        }
        let is_same = self.resampler.as_ref().is_some_and(|resampler| {
            let input = resampler.input();
            (input.format, input.channel_layout, input.rate) == (frame.format(), layout, frame.rate())
        });
        if !is_same {
            self.flush();
            let output = format::Sample::F32(format::sample::Type::Packed);
            self.resampler = resampling::Context::get(
                frame.format(),
                layout,
                frame.rate(),
                output,
                ChannelLayout::MONO,
                SAMPLE_RATE,
            )
            .ok();
        }
        let expected = frame.samples() as u64 * u64::from(SAMPLE_RATE) / u64::from(frame.rate().max(1));
        self.resample(Some(frame), expected as usize);
    }

    /// A time on the joined clock. The sound restarts or jumps where the pictures do, though not to the same tick.
    fn joined(&mut self, seconds: f64) -> f64 {
        if let (Some(last), Some(join)) = (self.last_s, self.joins.front()) {
            let step = seconds - last;
            if (step - join.jump_s).abs() < step.abs() {
                self.shift_s = join.shift_s;
                self.joins.pop_front();
            }
        }
        self.last_s = Some(seconds);
        seconds + self.shift_s
    }

    /// Take what is left in the resampler.
    fn flush(&mut self) {
        self.resample(None, 0);
        self.resampler = None;
    }

    fn resample(&mut self, frame: Option<&frame::Audio>, expected: usize) {
        let Some(resampler) = &mut self.resampler else { return };
        let waiting = resampler.delay().map_or(0, |delay| delay.output.max(0) as usize);
        let output = format::Sample::F32(format::sample::Type::Packed);
        let mut samples = frame::Audio::new(output, expected + waiting + 64, ChannelLayout::MONO);
        samples.set_rate(SAMPLE_RATE);
        let done = match frame {
            Some(frame) => resampler.run(frame, &mut samples),
            None => resampler.flush(&mut samples),
        };
        if done.is_err() {
            self.errors += 1;
            return;
        }
        let samples = samples.plane::<f32>(0);
        let position = self.position.unwrap_or_default();
        let silence = usize::try_from(position - self.end).unwrap_or_default();
        let unwanted = usize::try_from(self.end - position).unwrap_or_default().min(samples.len());
        let sound = samples[unwanted..].iter().map(|s| if s.is_finite() { s.clamp(-1.0, 1.0) } else { 0.0 });
        let runs = [Run::Silence(silence), Run::Samples(sound.collect())];
        self.ready.extend(runs.into_iter().filter(|run| !run.is_empty()));
        self.position = Some(position + samples.len() as i64);
        self.end = self.end.max(position + samples.len() as i64);
    }
}

/// The indices of the audio streams, with their number from 1 and language.
fn audio_tracks(input: &format::context::Input) -> Vec<(usize, String)> {
    let streams = input.streams().filter(|stream| stream.parameters().medium() == media::Type::Audio);
    let name = |(at, stream): (usize, ffmpeg::Stream<'_>)| {
        let language = stream.metadata().get("language").filter(|code| *code != "und").map(str::to_owned);
        let language = language.map(|code| format!(" ({code})")).unwrap_or_default();
        (stream.index(), format!("{}{language}", at + 1))
    };
    streams.enumerate().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Half a second of a tone of 400 Hz in 8000 samples a second, and two red pictures, by `ffmpeg -f lavfi -i
    /// color=red:size=16x16:rate=4:duration=0.5 -f lavfi -i sine=frequency=400:sample_rate=8000:duration=0.5 -c:v mjpeg -c:a pcm_s16le`.
    #[test]
    fn sound_without_a_channel_layout_is_heard() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pcm.avi");
        let mut sound = Sound::open(&file, 0.0, None).unwrap().unwrap();
        let samples = sound.read(SAMPLE_RATE as usize);
        assert!(samples.len().abs_diff(SAMPLE_RATE as usize / 2) < 32, "{}", samples.len());
        let crossings = samples.windows(2).filter(|pair| pair[0] < 0.0 && pair[1] >= 0.0).count();
        assert!((198..=201).contains(&crossings), "{crossings}");
    }

    /// As above, with a track of 400 Hz in English, one of 800 Hz in German, which is the default, and `-c:a pcm_mulaw` in Matroska.
    #[test]
    fn the_audio_track_is_the_one_that_was_asked_for() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/tracks.mkv");
        let crossings = |track: Option<usize>| {
            let mut sound = Sound::open(&file, 0.0, track).unwrap().unwrap();
            assert_eq!(sound.tracks(), ["1 (eng)", "2 (ger)"]);
            let mut again = sound.again().unwrap();
            let samples = sound.read(SAMPLE_RATE as usize);
            assert!(samples == again.read(SAMPLE_RATE as usize));
            samples.windows(2).filter(|pair| pair[0] < 0.0 && pair[1] >= 0.0).count()
        };
        assert!((98..=101).contains(&crossings(Some(1))));
        assert!((197..=201).contains(&crossings(Some(2))));
        assert_eq!(crossings(None), crossings(Some(2)), "the default track");
        for missing in [0, 3] {
            let error = Sound::open(&file, 0.0, Some(missing)).err().unwrap().to_string();
            assert!(
                error.ends_with(&format!("no audio track {missing}; it has 1 (eng), 2 (ger)")),
                "{error}"
            );
        }
    }

    #[test]
    fn a_gap_is_silence_that_takes_no_memory() {
        let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures/pcm.avi");
        let (mut sound, whole) = [(); 2].map(|()| Sound::open(&file, 0.0, None).unwrap().unwrap()).into();
        let mut rest = sound.read(1);
        rest.retain(|sample| *sample != 0.0);
        // Time stamps that far away are taken as damaged, so the gap stays.
        let gap = 2 * MAX_JUMP_S as usize * SAMPLE_RATE as usize;
        *sound.position.as_mut().unwrap() += gap as i64;
        let mut silent = 1 - rest.len();
        loop {
            let part = sound.read(SAMPLE_RATE as usize);
            if part.is_empty() {
                break;
            }
            silent += part.iter().filter(|sample| **sample == 0.0).count();
            rest.extend(part.into_iter().filter(|sample| *sample != 0.0));
            let kept = |run: &Run| if let Run::Samples(samples) = run { samples.len() } else { 0 };
            assert!(sound.ready.iter().map(kept).sum::<usize>() < SAMPLE_RATE as usize);
        }
        let (zeros, sounding): (Vec<f32>, Vec<f32>) =
            { whole }.read(SAMPLE_RATE as usize).into_iter().partition(|sample| *sample == 0.0);
        assert_eq!(silent, gap + zeros.len());
        assert!(rest == sounding);
    }
}
