//! Streams, divided into segments while they come: files that grow, pipes, connections that break.

use std::{
    collections::VecDeque,
    fs::OpenOptions,
    io::{Read, Write},
    net::TcpListener,
    ops::ControlFlow,
    path::Path,
    sync::Arc,
};

use specreel_record::Span;
use specreel_video::{
    Division, Error, Footage, Frame, HeldFrames, Options, Rule, Sampling, Scenes, Stop, Stream, Video,
    Watcher, follow, segments,
};

use crate::video::make::{self, Clip, File, number};

/// Two frames of each are held.
const SAMPLED: usize = 20;

fn options(division: Division) -> Options {
    let sampling = Sampling::Frames(SAMPLED);
    Options { division, rule: Rule::ANY, sampling, origin_s: 0.0, from_s: 0.0 }
}

/// What was seen of a stream.
#[derive(Default)]
struct Seen {
    segments: Vec<Arc<HeldFrames>>,
    broken: Vec<String>,
    /// How long the stream is away, each time.
    away_s: VecDeque<f64>,
    retries: u32,
}

impl Watcher for Seen {
    fn segment(&mut self, frames: HeldFrames) -> ControlFlow<()> {
        self.segments.push(Arc::new(frames));
        ControlFlow::Continue(())
    }

    fn broken(&mut self, why: &Error, attempts: u32) -> ControlFlow<()> {
        self.broken.push(why.to_string());
        if attempts < self.retries { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    }

    fn reopened(&mut self) -> f64 {
        self.away_s.pop_front().unwrap()
    }
}

impl Seen {
    fn spans(&self) -> Vec<[f64; 2]> {
        let rounded = |s: f64| (s * 1000.0).round() / 1000.0;
        self.segments.iter().map(|s| [rounded(s.span.start), rounded(s.span.end)]).collect()
    }
}

fn never() -> Stop {
    Arc::new(|| false)
}

fn seen(options: &Options, open: impl FnMut() -> Result<Stream, Error>) -> (Seen, Result<(), Error>) {
    let (mut seen, mut open) = (Seen::default(), open);
    let ended = follow(&mut open, options, &mut seen);
    (seen, ended)
}

/// A stream that is a pipe with these bytes.
fn piped(bytes: Vec<u8>) -> Result<Stream, Error> {
    Stream::pipe(Path::new("-"), std::io::Cursor::new(bytes), &never())
}

/// What is sampled of a segment: the number in each frame, and its time in milliseconds.
fn sampled(footage: Footage, span: Span) -> Vec<(usize, u64)> {
    let plan = footage.plan(Some(span), &Rule::ANY, Sampling::Frames(SAMPLED)).unwrap();
    let mut frames = footage.frames(plan).unwrap();
    let seen = |frame: Frame| (number(&frame), (frame.timestamp_s * 1000.0).round() as u64);
    let all = frames.by_ref().map(|frame| seen(frame.unwrap())).collect();
    assert!(frames.finish().notes().is_empty());
    all
}

/// Fails unless the segments have the frames that the finished file has there.
fn assert_as_in_the_file(seen: &Seen, file: &File, count: usize) {
    assert_eq!(seen.segments.len(), count);
    for held in &seen.segments {
        let video = Footage::File(Box::new(Video::open(&file.path).unwrap()));
        let want = sampled(video, held.span);
        assert_eq!(sampled(Footage::Held(held.clone()), held.span), want, "{}", held.span);
        assert!((2..=SAMPLED).contains(&want.len()));
    }
}

/// Containers that can be read while they are written.
fn containers() -> [Clip; 3] {
    let clip = Clip::of(90);
    [
        Clip { extension: "ts", ..clip.clone() },
        Clip { extension: "mkv", ..clip.clone() },
        Clip { movflags: "frag_keyframe+empty_moov", ..clip },
    ]
}

#[test]
fn a_file_that_grows_while_it_is_read_has_the_segments_of_the_finished_one() {
    for clip in containers() {
        let whole = clip.write();
        let bytes = whole.bytes();
        let growing = File::with(clip.extension, &[]);
        let path = growing.path.clone();
        // Each time that the reader waits, the next piece is written.
        let mut pieces: VecDeque<Vec<u8>> = bytes.chunks(bytes.len() / 7).map(<[u8]>::to_vec).collect();
        let wait = move |waits: u32| {
            // The second wait in a row, while nothing is written, is not the end yet.
            if waits == 0 && pieces.len().is_multiple_of(2) && !pieces.is_empty() {
                return true;
            }
            let Some(piece) = pieces.pop_front() else { return false };
            OpenOptions::new().append(true).open(&path).unwrap().write_all(&piece).unwrap();
            true
        };
        let mut wait = Some(wait);
        let open = || Stream::growing(&growing.path, wait.take().unwrap(), &never());
        let (seen, ended) = seen(&options(Division::Even(1.0)), open);
        ended.unwrap();
        assert_eq!(seen.spans(), [[0.0, 1.0], [1.0, 2.0], [2.0, 3.0], [3.0, 3.6]], "{}", clip.extension);
        assert_as_in_the_file(&seen, &whole, 4);
    }
}

#[test]
fn a_pipe_is_read_as_a_file_at_a_variable_rate_too() {
    let stamps = (0..30).map(|i| i * 30).chain((0..20).map(|i| 1000 + i * 150)).collect();
    for clip in containers().into_iter().chain([Clip { stamps, extension: "mkv", ..Clip::of(0) }]) {
        let file = clip.write();
        let (seen, ended) = seen(&options(Division::Even(1.5)), || piped(file.bytes()));
        ended.unwrap();
        assert_as_in_the_file(&seen, &file, 3);
    }
}

#[test]
fn scenes_are_those_of_the_finished_file() {
    // Between frames 127 and 128 all stripes change.
    let file = Clip { extension: "mkv", ..Clip::of(200) }.write();
    let scenes = Division::Scenes(Scenes { threshold: 55.0, shortest_s: 1.0, longest_s: 10.0 });
    let want = segments(&file.path, None, None, Some(scenes)).unwrap();
    let (seen, ended) = seen(&options(scenes), || piped(file.bytes()));
    ended.unwrap();
    let found: Vec<Span> = seen.segments.iter().map(|held| held.span).collect();
    assert_eq!(found.len(), 2);
    assert!(
        found.iter().zip(&want).all(|(a, b)| (a.start - b.start).abs() + (a.end - b.end).abs() < 1e-6),
        "{found:?} {want:?}"
    );
}

#[test]
fn a_long_segment_holds_a_bounded_number_of_frames() {
    let file = Clip { extension: "mkv", ..Clip::of(1000) }.write();
    let few = Options { sampling: Sampling::Frames(4), ..options(Division::Even(100.0)) };
    let (seen, ended) = seen(&few, || piped(file.bytes()));
    ended.unwrap();
    let held = &seen.segments[0];
    assert_eq!(held.total(), 1000);
    assert!((4..=9).contains(&held.len()), "{held:?}");
    let footage = Footage::Held(held.clone());
    let plan = footage.plan(None, &Rule::ANY, Sampling::Frames(4)).unwrap();
    let spacing: Vec<usize> = plan.indices.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(spacing.iter().all(|gap| (200..=450).contains(gap)), "{spacing:?}");
    assert_eq!((plan.indices[0], plan.indices[3]), (0, 999));
}

#[test]
fn a_watched_file_is_continued_where_it_was_left() {
    let file = Clip { extension: "ts", ..Clip::of(90) }.write();
    let rest = Options { from_s: 1.4, ..options(Division::Even(1.0)) };
    let (seen, ended) = seen(&rest, || Stream::growing(&file.path, |_| false, &never()));
    ended.unwrap();
    assert_eq!(seen.spans(), [[1.4, 2.0], [2.0, 3.0], [3.0, 3.6]]);
    assert_as_in_the_file(&seen, &file, 3);
}

/// A server that answers each request with the next of these bodies, and then closes the connection.
fn server(bodies: Vec<Vec<u8>>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for body in bodies {
            let (mut socket, _) = listener.accept().unwrap();
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n") && socket.read(&mut byte).unwrap() > 0 {
                request.push(byte[0]);
            }
            // No length: nobody can know whether this is all.
            socket.write_all(b"HTTP/1.0 200 OK\r\nContent-Type: video/mp2t\r\n\r\n").unwrap();
            let _ = socket.write_all(&body);
        }
    });
    format!("http://user:secret@127.0.0.1:{port}/live.ts")
}

#[test]
fn a_broken_connection_is_opened_again_and_times_go_on() {
    let bytes = Clip { extension: "ts", ..Clip::of(50) }.write().bytes();
    let url = server(vec![bytes.clone(), bytes.clone(), bytes]);
    let mut watcher = Seen { away_s: [4.0, 0.0].into(), retries: 2, ..Seen::default() };
    let mut open = || Stream::url(&url, &never());
    let ended = follow(&mut open, &options(Division::Even(3.0)), &mut watcher);
    // Two seconds, four seconds nothing, two seconds, two seconds; then nobody answers.
    assert_eq!(watcher.spans(), [[0.0, 3.0], [6.0, 9.0], [9.0, 10.0]]);
    let totals: Vec<usize> = watcher.segments.iter().map(|held| held.total()).collect();
    assert_eq!(totals.iter().sum::<usize>(), 150);
    assert!(matches!(ended, Err(Error::Connection { .. })), "{ended:?}");
    assert_eq!(watcher.broken.len(), 5, "{:?}", watcher.broken);
    assert!(watcher.broken[0].contains("/live.ts: the stream was interrupted ("), "{:?}", watcher.broken);
    assert!(watcher.broken.iter().all(|why| !why.contains("secret")), "{:?}", watcher.broken);
}

#[test]
fn inputs_without_a_video_are_refused() {
    let refused =
        |bytes: Vec<u8>| seen(&options(Division::Even(1.0)), || piped(bytes.clone())).1.unwrap_err();
    assert!(matches!(refused(make::wav().bytes()), Error::NoVideoStream { .. }));
    assert!(matches!(refused(Vec::new()), Error::Empty(_)));
    assert!(matches!(refused(b"#EXTM3U\nhttp://localhost/a.ts\n".to_vec()), Error::NotVideo { .. }));
    assert!(matches!(refused(b"ffconcat version 1.0\nfile a.mp4\n".to_vec()), Error::NotVideo { .. }));
}

#[test]
fn an_mp4_file_is_readable_once_it_has_its_index() {
    let whole = Clip::of(50).write();
    let even = options(Division::Even(1.0));
    let of = |file: &File| seen(&even, || Stream::growing(&file.path, |_| false, &never()));
    let (found, ended) = of(&whole);
    ended.unwrap();
    assert_as_in_the_file(&found, &whole, 2);
    let (_, ended) = of(&whole.cut(0.6));
    assert!(matches!(ended, Err(Error::Unfinished(_))), "{ended:?}");
}

#[test]
fn a_pipe_with_an_index_at_its_end_is_refused_in_words() {
    let file = Clip { extension: "mp4", ..Clip::of(40) }.write();
    let refused = piped(file.bytes()).err().unwrap();
    assert!(matches!(refused, Error::IndexLast(_)), "{refused:?}");
    assert_eq!(
        refused.to_string(),
        "-: the index of this MP4 file comes after its pictures, so it cannot be read from a pipe"
    );
}
