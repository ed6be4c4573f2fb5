//! A stream, read once from its first frame to its last: a file that is still written, a pipe, a URL.

use std::{
    fs::File,
    io::{self, Cursor, Read, Seek, SeekFrom},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ffmpeg_next::{self as ffmpeg, Dictionary, Packet, format, format::context::StreamIo, frame};

use super::{
    Error, Probe,
    container::{HEAD, check_format, offline, refused},
    decode::nothing,
    decoder::Decoder,
    held::Still,
    orientation::Geometry,
    packet::{is_damaged, place, stamp_of},
    probe,
    source::{BUFFER, Source},
    still,
    walk::{MAX_ERRORS, THREADS},
};

/// Schemes of URLs that FFmpeg opens.
const SCHEMES: [&str; 10] = ["http", "https", "rtsp", "rtsps", "rtmp", "rtmps", "srt", "udp", "rtp", "tcp"];

/// Protocols that a URL may lead to: its own and those below it. Not files.
const PROTOCOLS: &str = "http,https,httpproxy,tls,tcp,udp,rtp,srtp,rtmp,rtmps,rtmpt,rtmpts,srt,crypto,data";

/// A connection that sends nothing for this long has broken.
const SILENCE: Duration = Duration::from_secs(30);

/// A stream of a known length that ends this many seconds before it has not broken.
const SLACK_S: f64 = 1.0;

/// Whether reading has to end; asked often, from the thread that reads.
pub type Stop = Arc<dyn Fn() -> bool + Send + Sync>;

/// True if this names a network stream rather than a file.
pub fn is_url(name: &str) -> bool {
    name.split_once("://").is_some_and(|(scheme, _)| SCHEMES.iter().any(|s| s.eq_ignore_ascii_case(scheme)))
}

/// A URL without its user name and password, for messages.
pub fn shown_url(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.into() };
    let host = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    match rest[..host].rfind('@') {
        Some(at) => format!("{scheme}://{}", &rest[at + 1..]),
        None => url.into(),
    }
}

pub struct Stream {
    source: Source,
    decoder: Decoder,
    probe: Probe,
    /// It comes from a URL: its end may be a broken connection.
    is_live: bool,
    silence: Silence,
    stop: Stop,
    /// Time stamp of the first frame, and when it is shown, in seconds from the beginning.
    first: Option<(i64, f64)>,
    /// Frames so far, and the time of the last one.
    frames: usize,
    last: f64,
    /// How the container ended; the decoder may still hold frames.
    ended: Option<Result<(), Error>>,
}

impl Stream {
    /// Read a container from a reader, such as stdin. Fails as [`probe`](fn@super::probe), also if there are no bytes, and for an MP4
    /// file whose index follows its pictures.
    pub fn pipe(name: &Path, reader: impl Read + Send + 'static, stop: &Stop) -> Result<Self, Error> {
        let (head, reader) = with_head(name, reader)?;
        if index_is_last(&mut Cursor::new(&head)) {
            return Err(Error::IndexLast(name.into()));
        }
        let input = StreamIo::from_read_with_capacity(reader, BUFFER).and_then(|io| {
            let stop = stop.clone();
            format::input_from_stream_with_interrupt(io, None, Some(offline()), move || stop())
        });
        let input = input.map_err(|e| refused(name, &head, &e.to_string()))?;
        check_format(name, &head, &input)?;
        Self::of(Source::of(name, 0, &head, input)?, false, Silence::default(), stop)
    }

    /// Read a file that may still be written. Wherever it ends, `wait` is called with the number of calls since it last grew, from
    /// 0, and the file is looked at again; if it returns false, that is the end. Fails as [`probe`](fn@super::probe), and for an MP4
    /// file without index: that is written last.
    pub fn growing(
        path: &Path,
        wait: impl FnMut(u32) -> bool + Send + 'static,
        stop: &Stop,
    ) -> Result<Self, Error> {
        let mut file = File::open(path).map_err(|e| match e.kind() {
            io::ErrorKind::NotFound => Error::NotFound(path.into()),
            _ => Error::Unreadable { path: path.into(), source: e },
        })?;
        if index_is_last(&mut file) {
            // Without seeking it cannot be read, and with its index it is complete.
            let source = Source::open(path).map_err(|_| Error::Unfinished(path.into()))?;
            return Self::of(source, false, Silence::default(), stop);
        }
        let unreadable = |source| Error::Unreadable { path: path.into(), source };
        let mut head = Vec::new();
        file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        (&mut file).take(HEAD).read_to_end(&mut head).map_err(unreadable)?;
        if still::Kind::of(&head).is_some() {
            // Pictures are written at once, and some formats cannot be read without seeking.
            return Self::of(Source::open(path)?, false, Silence::default(), stop);
        }
        file.seek(SeekFrom::Start(0)).map_err(unreadable)?;
        Self::pipe(path, Growing { file, wait, waits: 0 }, stop)
    }

    /// Open a URL, which messages name as [`shown_url`] does. Fails as [`probe`](fn@super::probe), and if there is no connection.
    pub fn url(url: &str, stop: &Stop) -> Result<Self, Error> {
        super::init();
        ffmpeg::format::network::init();
        let name = PathBuf::from(shown_url(url));
        let silence = Silence::default();
        let mut options = Dictionary::new();
        options.set("protocol_whitelist", PROTOCOLS);
        options.set("rtsp_flags", "prefer_tcp");
        let ends = {
            let (stop, silence) = (stop.clone(), silence.clone());
            move || stop() || silence.is_over()
        };
        let input = format::input_with_interrupt_and_dictionary(url, ends, options).map_err(|e| {
            let detail = if silence.is_over() { silence.says() } else { e.to_string() };
            Error::Connection { path: name.clone(), detail }
        })?;
        Self::of(Source::of(&name, 0, &[], input)?, true, silence, stop)
    }

    fn of(source: Source, is_live: bool, silence: Silence, stop: &Stop) -> Result<Self, Error> {
        Ok(Self {
            decoder: source.decoder(THREADS)?,
            probe: probe::of(&source)?,
            source,
            is_live,
            silence,
            stop: stop.clone(),
            first: None,
            frames: 0,
            last: 0.0,
            ended: None,
        })
    }

    pub fn probe(&self) -> &Probe {
        &self.probe
    }

    pub(super) fn name(&self) -> &Path {
        &self.source.path
    }

    pub(super) fn geometry(&self) -> Geometry {
        self.source.geometry
    }

    /// The transfer curve of HDR video.
    pub(super) fn hdr(&self) -> Option<&'static str> {
        self.source.hdr()
    }

    /// Where time stamps restarted or jumped so far, in seconds from the beginning.
    pub(super) fn joined_s(&self) -> Vec<f64> {
        self.source.clock.joins().iter().filter_map(|join| self.seconds(join.at())).collect()
    }

    /// A time stamp in seconds from the beginning; `None` before the first frame.
    fn seconds(&self, stamp: i64) -> Option<f64> {
        let (first, lead_s) = self.first?;
        Some(lead_s + stamp.saturating_sub(first) as f64 * self.tick())
    }

    /// Seconds per tick of the time stamps.
    pub(super) fn tick(&self) -> f64 {
        self.source.tick()
    }

    /// True if it may have broken where it ends, and can be opened again.
    pub(super) fn is_live(&self) -> bool {
        self.is_live
    }

    /// The next frame, with its time in seconds from the beginning: of the file, or of a live stream's first frame; `None` at the end. After an error there are no more.
    pub(super) fn next(&mut self) -> Result<Option<(f64, Still)>, Error> {
        let mut errors = 0;
        loop {
            let mut picture = frame::Video::empty();
            match self.decoder.receive_frame(&mut picture) {
                Ok(()) => {
                    let is_damaged = is_damaged(&picture);
                    return Ok(Some((self.time(&picture), Still { picture, is_damaged })));
                }
                Err(ffmpeg::Error::Other { errno: ffmpeg::error::EAGAIN }) => {}
                Err(ffmpeg::Error::Eof) => return self.ended.take().unwrap_or(Ok(())).map(|()| None),
                Err(_) => errors += 1,
            }
            let sent = match self.packet() {
                Ok(Some(packet)) => self.decoder.send_packet(&packet),
                Ok(None) => self.decoder.send_eof(),
                Err(error) => {
                    self.ended = Some(Err(error));
                    self.decoder.send_eof()
                }
            };
            errors += usize::from(sent.is_err());
            if errors > MAX_ERRORS {
                return Err(nothing(&self.source.path, "too many errors in a row"));
            }
        }
    }

    /// The next packet; `None` at the end.
    fn packet(&mut self) -> Result<Option<Packet>, Error> {
        if self.ended.is_some() {
            return Ok(None);
        }
        let mut invalid = 0;
        loop {
            self.silence.reset();
            let mut packet = Packet::empty();
            match packet.read(&mut self.source.input) {
                Ok(()) if packet.stream() == self.source.stream && packet.size() > 0 => {
                    place(&mut self.source.clock, &mut packet);
                    return Ok(Some(packet));
                }
                Ok(()) => invalid = 0,
                Err(ffmpeg::Error::InvalidData) if invalid < MAX_ERRORS => invalid += 1,
                Err(ffmpeg::Error::Eof) if !self.is_live || self.is_complete() => {
                    self.ended = Some(Ok(()));
                    return Ok(None);
                }
                Err(_) if (self.stop)() => return Err(Error::Interrupted),
                Err(error) => {
                    let detail = match error {
                        ffmpeg::Error::Eof => "it has ended".into(),
                        ffmpeg::Error::Exit => self.silence.says(),
                        error => error.to_string(),
                    };
                    return Err(Error::Broken { path: self.source.path.clone(), detail });
                }
            }
        }
    }

    /// True if what has been read is a whole file: of a known size, or of a known length.
    fn is_complete(&self) -> bool {
        let is_long = |length| self.last + SLACK_S >= length;
        self.source.input.io_size().is_some_and(|bytes| bytes > 0)
            || self.source.duration_s().is_some_and(is_long)
    }

    fn time(&mut self, picture: &frame::Video) -> f64 {
        let stamp = stamp_of(picture);
        if let (Some(stamp), None) = (stamp, self.first) {
            // A live stream begins where it was joined: sound that came before does not count.
            let lead_s = match picture.pts() {
                _ if self.is_live => 0.0,
                Some(stamp) => self.source.since_start(stamp),
                // A decode time replaces it.
                None => self.source.lead_s(),
            };
            self.first = Some((stamp, lead_s));
        }
        let at = stamp.and_then(|stamp| self.seconds(stamp));
        let at = at.unwrap_or(self.frames as f64 / self.probe.fps);
        // Where decode times replace the times of frames, the last frames of a file have the same time.
        let is_later = self.frames == 0 || at > self.last;
        self.last = if is_later { at } else { self.last + 1.0 / self.probe.fps };
        self.frames += 1;
        self.last
    }
}

/// How long a connection has been silent.
#[derive(Clone)]
struct Silence {
    start: Instant,
    /// Milliseconds from the start to the last sign of life.
    since: Arc<AtomicU64>,
}

impl Default for Silence {
    fn default() -> Self {
        Self { start: Instant::now(), since: Arc::default() }
    }
}

impl Silence {
    fn now(&self) -> u64 {
        self.start.elapsed().as_millis() as u64
    }

    fn reset(&self) {
        self.since.store(self.now(), Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        self.now().saturating_sub(self.since.load(Ordering::Relaxed)) >= SILENCE.as_millis() as u64
    }

    fn says(&self) -> String {
        format!("no data for {} s", SILENCE.as_secs())
    }
}

/// The first bytes of a reader, and a reader that has them still. Fails if there are none.
fn with_head(
    name: &Path,
    mut reader: impl Read + Send + 'static,
) -> Result<(Vec<u8>, impl Read + Send + 'static), Error> {
    super::init();
    let mut head = Vec::new();
    let read = (&mut reader).take(HEAD).read_to_end(&mut head);
    read.map_err(|source| Error::Unreadable { path: name.into(), source })?;
    if head.is_empty() {
        return Err(Error::Empty(name.into()));
    }
    let again = Cursor::new(head.clone());
    Ok((head, again.chain(reader)))
}

/// A file that is read while it is written.
struct Growing<W> {
    file: File,
    wait: W,
    waits: u32,
}

impl<W: FnMut(u32) -> bool> Read for Growing<W> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.file.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                self.waits = 0;
                return Ok(read);
            }
            if !(self.wait)(self.waits) {
                return Ok(0);
            }
            self.waits += 1;
        }
    }
}

/// True for an MP4 file whose pictures come before their index, as far as `file` goes.
fn index_is_last(file: &mut (impl Read + Seek)) -> bool {
    let mut at = 0;
    loop {
        let mut header = [0; 16];
        let long = file.seek(SeekFrom::Start(at)).and_then(|_| file.read_exact(&mut header));
        let (kind, [a, b, c, d, ..]) = (&header[4..8], header);
        if long.is_err() || at == 0 && kind != b"ftyp" {
            return false;
        }
        let size = match u32::from_be_bytes([a, b, c, d]) {
            1 => u64::from_be_bytes(header[8..].try_into().unwrap_or_default()),
            size => size.into(),
        };
        match kind {
            b"mdat" => return true,
            b"moov" | b"moof" => return false,
            _ if size < 8 => return false,
            _ => at = at.saturating_add(size),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_passwords() {
        assert_eq!(shown_url("rtsp://user:p@ss@10.0.0.2:554/live?x=a@b"), "rtsp://10.0.0.2:554/live?x=a@b");
        assert_eq!(shown_url("http://host/a@b.ts"), "http://host/a@b.ts");
        let found = ["rtsp://c", "HTTPS://c/x", "file:///etc/passwd", "concat:a|b", "clip.mp4"].map(is_url);
        assert_eq!(found, [true, true, false, false, false]);
    }
}
